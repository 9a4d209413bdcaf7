"""Training with a memory: rows go on in their documents from step to step (Transformer-XL, XLNet)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from masquerade.data.corpus import Tokens, prepare
from masquerade.data.examples import Example
from masquerade.data.packing import DataCursor, Row
from masquerade.data.rng import Rng
from masquerade.data.streams import Segment, Streams
from masquerade.errors import MasqueradeError
from masquerade.masks import window
from masquerade.nn.model import Model
from masquerade.objectives.base import Objective
from masquerade.objectives.loss import Loss
from masquerade.objectives.recurrence import RecurrentLoss
from masquerade.text.tokenizer import Tokenizer
from masquerade.text.vocabulary import ABSENT
from masquerade.training.loop import mean_loss
from masquerade.training.recipe import Pretraining

TOGETHER = 4  # held-out texts that are read at the same time


class SegmentReading:
    """The data and the loss of a pretraining recipe with a memory."""

    def __init__(self, recipe: Pretraining, objective: Objective, tokenizer: Tokenizer, folder: Path) -> None:
        self.recipe, self.objective = recipe, objective
        if type(objective).segment is Objective.segment:
            raise MasqueradeError(
                f"The objective '{recipe.objective}' does not read segments with a memory; choose transformer-xl, next "
                "or xlnet, or set memory=0."
            )
        self.batches = self._streams(self._read(recipe.train, tokenizer, folder / "train"), recipe.rows, recipe.seed)
        self.held_out: list[Row] = []
        self.together = 1
        if recipe.held_out:
            tokens = self._read(recipe.held_out, tokenizer, folder / "held_out")
            self.together = max(1, min(TOGETHER, recipe.held_out_rows, len(tokens.ids) // recipe.length))
            streams = self._streams(tokens, self.together, seed=0)
            steps = min(streams.steps, max(1, recipe.held_out_rows // self.together))
            self.held_out = [row for rows, _ in islice(streams(DataCursor()), steps) for row in rows]

    def loss(self, model: Model, kept: Mapping[str, Any]) -> Loss:
        """The loss, with the memory of a checkpoint if there is one."""
        loss = RecurrentLoss(model, self.objective.terms(), max(self.recipe.rows, self.together), self.recipe.memory)
        if kept:
            memory = loss.memories[True]
            if memory.valid.shape != kept["valid"].shape:
                raise MasqueradeError(
                    f"The checkpoint remembers {kept['valid'].shape[1]} tokens in {len(kept['valid'])} rows; go on "
                    "with the 'memory' and 'rows' that it was trained with."
                )
            memory.valid, memory.states = kept["valid"], kept["states"]
        return loss

    def evaluate(self, loss: Loss) -> dict[str, float]:
        """The loss of the held-out text, read from its beginning with a memory of its own."""
        if not isinstance(loss, RecurrentLoss) or not self.held_out:
            return {}
        loss.memories[False].clear()
        return mean_loss(loss, self.held_out, self.together)

    def state(self, loss: Loss, process: int, processes: int) -> dict[str, Any]:
        """What the rows of all processes remember. Row i belongs to process i modulo their number."""
        if not isinstance(loss, RecurrentLoss):
            raise TypeError("the loss of a run with a memory is a RecurrentLoss")
        memory = loss.memories[True]
        own = torch.arange(len(memory.valid), device=memory.valid.device) % processes == process
        valid, states = memory.valid & own[:, None], memory.states * own[None, :, None, None]
        return {"valid": _summed(valid.long(), processes).bool().cpu(), "states": _summed(states, processes).cpu()}

    def _read(self, sources: Sequence[str], tokenizer: Tokenizer, folder: Path) -> Tokens:
        return prepare(sources, tokenizer, folder, self.recipe.text_field)

    def _streams(self, tokens: Tokens, rows: int, seed: int) -> Streams:
        vocabulary, recipe = self.objective.vocabulary, self.recipe

        def example(segment: Segment, rng: Rng) -> Example:
            made = self.objective.segment(segment, rng)
            return replace(made, layout=window(made.layout, recipe.memory - 1)) if recipe.same_length else made

        enclosing = [[token] if token != ABSENT else [] for token in (vocabulary.cls, vocabulary.sep)]
        return Streams(tokens, (enclosing[0], enclosing[1]), example, rows, recipe.length, seed)


def _summed(values: Tensor, processes: int) -> Tensor:
    """The sum over all processes, in each of them."""
    if processes > 1:
        torch.distributed.all_reduce(values)
    return values
