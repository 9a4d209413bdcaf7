"""Long documents for training a judge: blocks with relevance, and the windows that it learns from (CogLTX)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from masquerade.data.examples import Example, PerToken
from masquerade.data.packing import Batch
from masquerade.data.rng import Rng
from masquerade.layout import Kind
from masquerade.memory.working.judge import HEAD, window_layout
from masquerade.memory.working.recall import Ids, fill
from masquerade.nn.model import Model
from masquerade.objectives.loss import StatesAt, Term

TOP = 2  # the highest relevance of a block; 0 is irrelevant


@dataclass
class LongDocument:
    """A query and the blocks of a document, each ids with its separator; and how relevant each block is, 0 to TOP."""

    query: tuple[int, ...]
    blocks: Sequence[tuple[int, ...]]
    relevance: list[int]
    scores: list[float]  # of the last retrieval competition; all 0 before the first

    @cached_property
    def lengths(self) -> list[int]:
        """The number of tokens of each block."""
        return [len(block) for block in self.blocks]

    def relevant(self) -> list[int]:
        """The numbers of the relevant blocks."""
        return [number for number, level in enumerate(self.relevance) if level > 0]

    def change(self, number: int, by: int) -> None:
        """Raise or lower the relevance of a block."""
        self.relevance[number] = min(TOP, max(0, self.relevance[number] + by))


def random_blocks(document: LongDocument, window: int, rng: Rng) -> list[int]:
    """Consecutive blocks from a random one on, as many as fit: what a judge reads in the retrieval competition."""
    room, chosen = window - len(document.query), list[int]()
    first = int(rng.integers(len(document.blocks)))
    for number in [*range(first, len(document.blocks)), *range(first - 1, -1, -1)]:
        if document.lengths[number] > room:
            break
        chosen.append(number)
        room -= document.lengths[number]
    return sorted(chosen)


def relevant_blocks(document: LongDocument, window: int, rng: Rng) -> list[int]:
    """The relevant blocks and random others, as many as fit: what a judge reads in rehearsal."""
    return fill(
        rng.random(len(document.blocks)).tolist(), document.lengths, held(document, window), _room(document, window)
    )


def reasoner_blocks(document: LongDocument, window: int) -> list[int]:
    """The relevant blocks and the winners of the retrieval competition, as many as fit: what a task model reads."""
    return fill(document.scores, document.lengths, held(document, window), _room(document, window))


def held(document: LongDocument, window: int) -> list[int]:
    """The relevant blocks; where they do not all fit, the most relevant ones, and of these those that scored best."""
    room, chosen = _room(document, window), list[int]()
    for number in sorted(document.relevant(), key=lambda n: (-document.relevance[n], -document.scores[n])):
        if document.lengths[number] <= room:
            chosen.append(number)
            room -= document.lengths[number]
    return sorted(chosen)


def _room(document: LongDocument, window: int) -> int:
    return window - len(document.query)


def judge_example(model: Model, document: LongDocument, chosen: Sequence[int]) -> Example:
    """A window for the judge. The query counts as relevant."""
    parts: list[Ids] = [document.query, *(document.blocks[number] for number in chosen)]
    marks = [1.0, *(float(document.relevance[number] > 0) for number in chosen)]
    labels = torch.tensor([mark for part, mark in zip(parts, marks, strict=True) for _ in part])
    return Example(window_layout(model, parts), extra={"relevance": PerToken(labels, fill=-1)})


def without(example: Example, start: int, end: int) -> Example:
    """The example with some tokens hidden by the mask: they keep their places, and no row sees them."""
    kind = example.layout.kind.clone()
    kind[start:end] = int(Kind.QUERY)
    return Example(example.layout.replace(kind=kind), example.source, example.extra)


class RelevanceTerm(Term):
    """Binary cross-entropy of the tokens of a judge's windows: the extra field ``relevance``, 0 or 1, −1 for none."""

    def count(self, example: Example) -> int:
        return len(example.layout) if "relevance" in example.extra else 0

    def tokens(self, batch: Batch) -> Tensor | None:
        return batch.extra["relevance"] >= 0 if "relevance" in batch.extra else None

    def sum(self, model: Model, states: StatesAt, batch: Batch) -> Tensor:
        at = batch.extra["relevance"] >= 0
        scores = model.head(HEAD, states[at]).float()[:, 0]
        return F.binary_cross_entropy_with_logits(scores, batch.extra["relevance"][at].float(), reduction="sum")
