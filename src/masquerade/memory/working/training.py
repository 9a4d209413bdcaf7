"""Training of a judge and a task model by turns: from relevance labels, or by intervention (CogLTX)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from masquerade import kernels
from masquerade.checkpoints.folders import load
from masquerade.data.examples import Example
from masquerade.data.packing import Batch, DataCursor, Row, packed
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.memory.working.blocks import SIZE
from masquerade.memory.working.judge import FOLDER, Judge, new_judge
from masquerade.memory.working.long_documents import (
    LongDocument,
    RelevanceTerm,
    judge_example,
    random_blocks,
    reasoner_blocks,
    relevant_blocks,
    without,
)
from masquerade.memory.working.recall import TIMES, compete
from masquerade.memory.working.selection import WorkingMemory
from masquerade.memory.working.tag_task import TagTask
from masquerade.memory.working.tasks import ClassifyTask, ReadTask
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss, TermLoss
from masquerade.progress import progress_bar
from masquerade.reading.scores import METRICS
from masquerade.training.loop import TrainingJob
from masquerade.training.recipe import FineTuning

RELEVANCE = ("given", "intervention")
TASKS: dict[str, type[ClassifyTask] | type[ReadTask] | type[TagTask]] = {
    "classify": ClassifyTask,
    "read": ReadTask,
    "tag": TagTask,
}


@dataclass(frozen=True, kw_only=True)
class MemoryTraining(FineTuning):
    """A run over long documents: a judge from the encoder ``start``, and a task model."""

    task: str = "classify"  # one of TASKS
    reasoner: str = ""  # the checkpoint of the task model: for reading a reader; empty: ``start``
    layers: int = 0  # of ``start``, for the judge: the first ones; 0: all
    fixed: bool = False  # train the judge alone; the task model stays as it is
    relevance: str = "intervention"  # where labels of blocks come from: given, or intervention
    window: int = 512  # tokens of a window, of the judge and of the task model
    block: int = SIZE  # tokens of a block at most
    first: int = 2  # blocks that are relevant at first, by shared words, where labels are not given
    up: float = 0.2  # a block whose absence raises the loss by this becomes more relevant …
    down: float = -0.05  # … and one whose absence changes it by less than this, less relevant
    changes_from: int = 3  # the first epoch whose labels are changed by intervention
    metric: str = "squad"  # for reading
    held_out_documents: int = 200  # held-out documents, or questions, that are scored; 0: all
    row: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task not in TASKS:
            raise MasqueradeError(f"There is no task '{self.task}' here; choose from {', '.join(TASKS)}.")
        if self.relevance not in RELEVANCE:
            raise MasqueradeError(f"There is no relevance '{self.relevance}'; choose from {', '.join(RELEVANCE)}.")
        if self.relevance == "given" and not TASKS[self.task].given:
            raise MasqueradeError(f"Records for '{self.task}' do not say what is relevant; set relevance=intervention.")
        if self.fixed and self.relevance == "intervention":
            raise MasqueradeError("With 'fixed', labels of blocks have to be given; set relevance=given.")
        if self.metric not in METRICS:
            raise MasqueradeError(f"There is no metric '{self.metric}'; choose from {', '.join(METRICS)}.")
        if not 1 <= self.block <= self.window // 2 - 4:
            raise MasqueradeError(
                f"Blocks of {self.block} tokens do not fit into a window of {self.window}; lower 'block'."
            )
        if self.down >= self.up:
            raise MasqueradeError("The recipe's 'down' has to be below its 'up'.")


class TurnsLoss(Loss):
    """The loss of the task model or of the judge, whichever the batch is for."""

    def __init__(self, reasoner: Loss, judge: Model) -> None:
        super().__init__(reasoner.model)
        self.reasoner, self.judge = reasoner, TermLoss(judge, {"relevance": RelevanceTerm()})
        self.weights = reasoner.weights

    @property
    def networks(self) -> dict[str, Model]:
        return {"": self.model, FOLDER: self.judge.model}

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        judged = any("relevance" in example.extra for row in rows for example in row)
        return (self.judge if judged else self.reasoner).counts(rows)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        judged = "relevance" in batch.extra
        sums: dict[str, Tensor] = self.judge(batch) if judged else self.reasoner(batch)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            idle = self.reasoner if judged else self.judge  # data-parallel training needs a gradient for every weight
            name = next(iter(sums))
            sums[name] = sums[name] + 0 * torch.stack([weight.sum() for weight in idle.parameters()]).sum()
        return sums


class TrainMemory(TrainingJob):
    """A judge and a task model, by turns: an epoch is a pass of the judge over all documents, then one of the other.

    Before a pass of the task model, the judge scores every block; before a pass of the judge, blocks are hidden from
    the task model one at a time, and their labels change with its loss.
    """

    def __init__(self, recipe: MemoryTraining) -> None:
        self.recipe: MemoryTraining = recipe
        self.task = TASKS[recipe.task](recipe)

    def begin(self) -> dict[str, Model]:
        recipe = self.recipe
        return {"": self.task.reasoner(), FOLDER: new_judge(load(recipe.start), recipe.window, recipe.layers)}

    def read(self, model: Model, folder: Path) -> None:
        """Nothing yet: documents are read with the judge's tokenizer, when the loss is made."""

    def loss(self, networks: dict[str, Model]) -> Loss:
        self.model, self.judge = networks[""], Judge(networks[FOLDER])
        if self.judge.window < self.recipe.window:
            raise MasqueradeError(f"The encoder reads {self.judge.window} tokens; lower 'window' to that.")
        names = [each.tokens(range(len(each))) for each in (self.judge.tokenizer, self.model.tokenizer)]
        if names[0] != names[1] and not self.recipe.fixed:  # a fixed task model takes the text of the blocks
            raise MasqueradeError(
                "The judge and the task model have different vocabularies; start both from the same checkpoint."
            )
        self.documents = self.task.documents(self.judge, self.model)
        if not self.documents:
            raise MasqueradeError(
                "There is no document with words in the training files, so there is nothing to learn."
            )
        for document, levels in zip(self.documents, self.kept.get("relevance", []), strict=False):
            document.relevance = list(levels)
        for document, scores in zip(self.documents, self.kept.get("scores", []), strict=False):
            document.scores = list(scores)
        if self.recipe.fixed:
            self.model.requires_grad_(False)
        self.every = math.ceil(len(self.documents) / self.recipe.batch)
        return TurnsLoss(self.task.loss(self.model), self.judge.model)

    @property
    def steps(self) -> int:
        return max(1, round(self.recipe.epochs * self.every * (1 if self.recipe.fixed else 2)))

    def turn(self, phase: int) -> tuple[int, bool]:
        """The epoch of a pass over the documents, and whether it is the judge's."""
        return (phase, True) if self.recipe.fixed else (phase // 2, phase % 2 == 0)

    def batches(self, cursor: DataCursor) -> Iterator[tuple[list[Row], DataCursor]]:
        recipe, count = self.recipe, len(self.documents)
        while True:
            _, judging = self.turn(cursor.epoch)
            order = rng_for(recipe.seed, cursor.epoch, count).permutation(count).tolist()
            for start in range(cursor.piece, count, recipe.batch):
                chosen = order[start : start + recipe.batch]
                make = self._judge_examples if judging else self._reasoner_examples
                examples = [example for number in chosen for example in make(number, cursor.epoch)]
                yield packed(examples, recipe.row), DataCursor(cursor.epoch, start + recipe.batch)
            cursor = DataCursor(cursor.epoch + 1)

    def _judge_examples(self, number: int, phase: int) -> list[Example]:
        document, rng = self.documents[number], rng_for(self.recipe.seed, phase, number)
        some = [sample(document, self.recipe.window, rng) for sample in (random_blocks, relevant_blocks)]
        return [judge_example(self.judge.model, document, chosen) for chosen in some]

    def _reasoner_examples(self, number: int, phase: int) -> list[Example]:
        chosen = reasoner_blocks(self.documents[number], self.recipe.window)
        return [self.task.example(self.model, number, chosen).example]

    def refresh(self, model: Model, step: int) -> None:
        device = self.judge.model.device.type
        low = kernels.mixed_precision(self.recipe.precision, device) == "bf16"  # the precision of the steps
        with torch.autocast(device, torch.bfloat16, enabled=low):
            self._relabel(*self.turn(step // self.every))

    def _relabel(self, epoch: int, judging: bool) -> None:
        """Before a pass of the task model, score all blocks; before one of the judge, change labels."""
        if not judging:
            with progress_bar("documents judged", len(self.documents)) as done:
                for document in self.documents:
                    document.scores = compete(self.judge, [document.query], document.blocks, self.recipe.window)
                    done(1)
            self.kept["scores"] = [document.scores for document in self.documents]
        elif self.recipe.relevance == "intervention" and epoch + 1 >= self.recipe.changes_from:
            changed = 0
            with progress_bar("documents tested", len(self.documents)) as done:
                for number, document in enumerate(self.documents):
                    changed += self.intervene(number, document)
                    done(1)
            self.kept["changed"] = [*self.kept.get("changed", []), changed]
        self.kept["relevance"] = [document.relevance for document in self.documents]

    def intervene(self, number: int, document: LongDocument) -> int:
        """Change the relevance of the blocks whose absence changes the task model's loss; returns how many."""
        chosen = reasoner_blocks(document, self.recipe.window)
        reasoned = self.task.example(self.model, number, chosen)
        hidden = [without(reasoned.example, start, end) for start, end in reasoned.places]
        whole, *losses = self.task.losses(self.model, [reasoned.example, *hidden])
        before = list(document.relevance)
        for block, loss in zip(chosen, losses, strict=False):
            if loss - whole > self.recipe.up:
                document.change(block, 1)
            elif loss - whole < self.recipe.down:
                document.change(block, -1)
        return sum(a != b for a, b in zip(before, document.relevance, strict=True))

    def evaluate(self, loss: Loss) -> dict[str, float]:
        memory = WorkingMemory(self.judge, self.recipe.block, TIMES)
        return self.task.scores(loss.model, memory)
