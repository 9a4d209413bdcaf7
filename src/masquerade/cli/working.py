"""Commands for texts that are longer than a window, and for questions that take several steps."""

from __future__ import annotations

from masquerade.cli.app import Changes, RecipeName, Resume, train
from masquerade.cli.recipes import recipe_file


@train.command("cogltx")
def train_cogltx(recipe: RecipeName, changes: Changes = None, resume: Resume = False) -> None:
    """Train a judge of what is relevant in long documents, and a classifier or reader of what it keeps.

    Data: the formats of 'train classifier' or, with task=read, of 'train reader'.

    [dim]masquerade train cogltx cogltx start=bert train=train.jsonl held_out=dev.jsonl window=128[/dim]
    """
    from masquerade.memory.working.training import MemoryTraining, TrainMemory
    from masquerade.training.loop import Run
    from masquerade.training.recipe import read_recipe

    Run(TrainMemory(read_recipe(recipe_file(recipe), MemoryTraining, changes or [])), resume).train()
