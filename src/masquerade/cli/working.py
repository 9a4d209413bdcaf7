"""Commands for texts that are longer than a window, and for questions that take several steps."""

from __future__ import annotations

from masquerade.cli.app import Changes, RecipeName, Resume, train
from masquerade.cli.recipes import recipe_file
from masquerade.errors import MasqueradeError


def check_judge(memory: str | None, judge: str | None) -> None:
    """An error for a judge that nothing would ask."""
    if judge is not None and memory is None:
        raise MasqueradeError("--judge names the judge of --memory; add --memory cogltx, or leave --judge out.")


@train.command("cogltx")
def train_cogltx(recipe: RecipeName, changes: Changes = None, resume: Resume = False) -> None:
    """Train a judge of what is relevant in long documents, and a classifier, reader or tagger of what it keeps.

    Data: the formats of 'train classifier', with task=read of 'train reader', with task=tag of 'train tagger'.

    [dim]masquerade train cogltx cogltx start=bert train=train.jsonl held_out=dev.jsonl window=128[/dim]
    """
    from masquerade.memory.working.training import MemoryTraining, TrainMemory
    from masquerade.training.loop import Run
    from masquerade.training.recipe import read_recipe

    Run(TrainMemory(read_recipe(recipe_file(recipe), MemoryTraining, changes or [])), resume).train()


@train.command("cogqa")
def train_cogqa(recipe: RecipeName, changes: Changes = None, resume: Resume = False) -> None:
    """Train a reader for questions of several steps: system 1, which points at hops and answers, then system 2, which
    chooses from the graph of what was read.

    Data: records with a question, an answer, paragraphs (context: title and sentences), and which of them are needed
    (supporting_facts), as of HotpotQA and 2WikiMultihopQA.

    [dim]masquerade train cogqa cogqa start=models/reader-en train=hotpot-train.json out=runs/cogqa[/dim]
    """
    from masquerade.memory.working.hop_training import HopTraining, train_stages
    from masquerade.training.recipe import read_recipe

    train_stages(read_recipe(recipe_file(recipe), HopTraining, changes or []), resume)
