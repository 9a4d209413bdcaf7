"""Pretraining on plain text with any objective."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from masquerade.checkpoints.folders import load
from masquerade.data.checks import check_types
from masquerade.data.corpus import prepare
from masquerade.data.examples import Example
from masquerade.data.packing import DataCursor, PackedRows, Row
from masquerade.data.rng import dynamic_masks, spread, static_masks
from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model, build
from masquerade.nn.spec import Spec
from masquerade.objectives.loss import Loss
from masquerade.objectives.networks import fresh_spec, savable
from masquerade.objectives.registry import entry, make_objective
from masquerade.text.tokenizer import Tokenizer
from masquerade.training.checkpoints import Store
from masquerade.training.loop import Run, TrainingJob, mean_loss
from masquerade.training.recipe import Pretraining, in_stages
from masquerade.training.segments import SegmentReading


def pretrain(recipe: Pretraining, resume: bool = False) -> None:
    """Run a pretraining recipe, stage by stage if it has several. Finished stages are not run again on a resume."""
    for stage in in_stages(recipe):
        done = Store(Path(stage.out)).latest()
        if not (resume and recipe.stages and done is not None and done.name == f"step-{stage.steps}"):
            Run(Pretrain(stage), resume).train()


class Pretrain(TrainingJob):
    """The job of a pretraining recipe."""

    def __init__(self, recipe: Pretraining) -> None:
        self.recipe: Pretraining = recipe
        self.entry = entry(recipe.objective, recipe.options)
        self.held_out: list[Row] = []
        self.segments: SegmentReading | None = None  # in runs with a memory

    def begin(self) -> dict[str, Model]:
        model = self._model()
        if not model.has_tokenizer:
            raise MasqueradeError("The model to train has no tokenizer; name one in the recipe: tokenizer = '…'.")
        objective = make_objective(self.recipe.objective, model.tokenizer, self.recipe.options)
        model.config = {**model.config, **objective.config()}
        return {"": model, **objective.helpers(model)}

    def read(self, model: Model, folder: Path) -> None:
        recipe, tokenizer = self.recipe, model.tokenizer
        self.objective = make_objective(recipe.objective, tokenizer, recipe.options)
        if recipe.memory:
            self.segments = SegmentReading(recipe, self.objective, tokenizer, folder / "tokens")
            return
        self.rows = self._rows(recipe.train, folder / "tokens" / "train", tokenizer, recipe.seed, recipe.copies)
        if recipe.held_out:
            rows = self._rows(recipe.held_out, folder / "tokens" / "held_out", tokenizer, seed=0)
            self.held_out = [row for row, _ in islice(rows(DataCursor()), recipe.held_out_rows)]

    def loss(self, networks: dict[str, Model]) -> Loss:
        if self.segments is not None:
            return self.segments.loss(networks[""], self.kept)
        return self.objective.loss(networks)

    @property
    def steps(self) -> int:
        return self.recipe.steps

    def batches(self, cursor: DataCursor) -> Iterator[tuple[list[Row], DataCursor]]:
        if self.segments is not None:
            yield from self.segments.batches(cursor)
            return
        stream = self.rows(cursor)
        while group := list(islice(stream, self.recipe.rows)):
            yield [row for row, _ in group], group[-1][1]

    def collect(self, loss: Loss, process: int, processes: int) -> dict[str, Any]:
        return self.kept if self.segments is None else self.segments.state(loss, process, processes)

    def evaluate(self, loss: Loss) -> dict[str, float]:
        if self.segments is not None:
            return self.segments.evaluate(loss)
        return mean_loss(loss, self.held_out, self.recipe.micro) if self.held_out else {}

    def _model(self) -> Model:
        """The model of a fresh run: a checkpoint with the heads that the objective needs, or fresh weights for a
        tokenizer."""
        recipe = self.recipe
        tokenizer = Tokenizer.load(Path(recipe.tokenizer).expanduser()) if recipe.tokenizer else None
        if recipe.start:
            model = load(recipe.start)
            if not model.has_tokenizer:
                model.tokenizer = tokenizer
            if not set(self.entry.heads) <= set(model.spec.all_heads):
                model = model.with_heads(self.entry.heads)
                model.spec = savable(model.spec)
            return model
        if tokenizer is None:
            raise MasqueradeError("Fresh weights need a tokenizer: name the folder of one, or make one with 'vocab'.")
        needed = {"vocab": len(tokenizer), "pad": tokenizer.special("pad"), "outputs": ("lm",), **self.entry.model}
        check_types(recipe.model, Spec, "The recipe's model field")
        model = build(fresh_spec(self.entry.family, needed, recipe.model, self.entry.decoder))
        model.tokenizer = tokenizer
        return model

    def _rows(
        self, sources: Sequence[str], folder: Path, tokenizer: Tokenizer, seed: int, copies: int = 0
    ) -> PackedRows:
        """The packed rows of some sources. They are tokenised into ``folder`` once."""
        recipe, objective = self.recipe, self.objective
        pieces = objective.cut(prepare(sources, tokenizer, folder, recipe.text_field), recipe.length)
        piece_rng = static_masks(seed, copies) if copies else dynamic_masks(seed)

        def example(epoch: int, number: int, place: int) -> Example:
            draw = spread(number, epoch % copies) if copies else spread(place, epoch)
            return objective.example(pieces, number, piece_rng(epoch, number), draw)

        return PackedRows(len(pieces), example, recipe.row, seed)
