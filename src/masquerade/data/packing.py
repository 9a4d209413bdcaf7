"""Examples into rows, rows into batches: packed without padding between, the same for any number of workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from masquerade.data.corpus import Tokens
from masquerade.data.examples import Example
from masquerade.data.rng import PieceRng, Rng, dynamic_masks, rng_for, static_masks
from masquerade.layout import IGNORE, Layout, batch
from masquerade.masks import pack
from masquerade.objectives.base import Objective
from masquerade.objectives.pairs import Pairs
from masquerade.text.vocabulary import Vocabulary

TOGETHER = 256  # how many pieces are packed together


@dataclass(frozen=True)
class Batch:
    """Rows of packed examples, and what they predict besides words."""

    layout: Layout  # (rows, n)
    source: Layout | None = None
    verdict: Tensor | None = None  # (documents,), in the order of ``layout.first``
    spans: Tensor | None = None  # (m, 3), flat indices into (rows · n) of the tokens around, and the place
    spans_label: Tensor | None = None  # (m,)
    answers: Tensor | None = None  # (branches, 2), in the order of the rows that ``forked`` makes
    weight: Tensor | None = None  # (rows, n), how much each label counts, where that differs

    def to(self, device: torch.device) -> Batch:
        """The batch on another device."""
        moved: dict[str, Any] = {
            name: None if value is None else value.to(device) for name, value in vars(self).items()
        }
        return Batch(**moved)

    @property
    def tokens(self) -> int:
        """How many real tokens the network reads."""
        return int(self.layout.real.sum()) + (0 if self.source is None else int(self.source.real.sum()))


@dataclass(frozen=True)
class Place:
    """Where in its data a run is: how many passes over it are finished, which piece comes next, and how many rows of
    the pieces that are packed together from there on have been read."""

    epoch: int = 0
    piece: int = 0
    row: int = 0


class Rows:
    """An endless stream of rows: pieces of the corpus in a new order each epoch, each made an example by its own
    chance, and packed a few hundred at a time so that rows are full. The stream depends on the seed alone, and can be
    taken up at any place."""

    def __init__(
        self,
        tokens: Tokens,
        objective: Objective | Pairs,
        vocabulary: Vocabulary,
        *,
        length: int,
        row: int,
        seed: int,
        copies: int = 0,
    ) -> None:
        self.tokens, self.objective, self.vocabulary = tokens, objective, vocabulary
        self.pieces = tokens.pieces(length - (3 if isinstance(objective, Pairs) else 2))
        self.row, self.seed = row, seed
        self.piece_rng: PieceRng = static_masks(seed, copies) if copies else dynamic_masks(seed)

    def __call__(self, place: Place) -> Iterator[tuple[list[Example], Place]]:
        """Rows from a place on, each with the place behind it; a row never spans two epochs."""
        while True:
            order = self._order(place.epoch)
            for start in range(place.piece, len(order), TOGETHER):
                rows = self._packed(place.epoch, start, order[start : start + TOGETHER])
                behind = Place(place.epoch, start + TOGETHER)
                for number in range(place.row, len(rows)):
                    yield rows[number], Place(place.epoch, start, number + 1) if number + 1 < len(rows) else behind
                place = behind
            place = Place(place.epoch + 1)

    def _packed(self, epoch: int, start: int, numbers: Sequence[int]) -> list[list[Example]]:
        """Pieces as full rows, in any order."""
        examples = [self.example(epoch, number) for number in numbers]
        lengths = [max(len(each.layout), 0 if each.source is None else len(each.source)) for each in examples]
        shelves = first_fit(lengths, self.row)
        shuffled = rng_for(self.seed, epoch, start, len(shelves)).permutation(len(shelves)).tolist()
        return [[examples[index] for index in shelves[number]] for number in shuffled]

    def example(self, epoch: int, number: int) -> Example:
        """The example of one piece in one epoch."""
        rng, ids = self.piece_rng(epoch, number), self._ids(number)
        if isinstance(self.objective, Pairs):
            first, second = self.objective.halves(ids)
            return self.objective(first, second, self._elsewhere(number, rng)[: len(second)], rng)
        return self.objective(self.vocabulary.enclosed(ids), rng)

    def _ids(self, number: int) -> list[int]:
        start, end = self.pieces[number]
        ids: list[int] = self.tokens.ids[start:end].tolist()
        return ids

    def _elsewhere(self, number: int, rng: Rng) -> list[int]:
        """Any piece of another document; of the same one if there is no other."""
        document = int(np.searchsorted(self.tokens.ends, self.pieces[number][0], side="right"))
        for _ in range(100):
            other = int(rng.integers(len(self.pieces)))
            if int(np.searchsorted(self.tokens.ends, self.pieces[other][0], side="right")) != document:
                break
        return self._ids(other)

    def _order(self, epoch: int) -> Sequence[int]:
        order: list[int] = rng_for(self.seed, epoch, len(self.pieces)).permutation(len(self.pieces)).tolist()
        return order


def first_fit(lengths: Sequence[int], row: int) -> list[list[int]]:
    """Which of some sequences go into which row: the longest first, each into the first row that has room for it. A
    sequence that is longer than a row has one of its own."""
    rows: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        shelf = next((number for number, left in enumerate(room) if left >= lengths[index]), len(rows))
        if shelf == len(rows):
            rows.append([])
            room.append(row)
        rows[shelf].append(index)
        room[shelf] -= lengths[index]
    return rows


def collate(rows: Sequence[Sequence[Example]], pad_id: int = 0) -> Batch:
    """Rows of examples as one batch."""
    layout = batch([pack([example.layout for example in row]) for row in rows], pad_id)
    sources = [[example.source for example in row if example.source is not None] for row in rows]
    source = batch([pack(row) for row in sources], pad_id) if any(sources) else None
    verdicts = [example.verdict for row in rows for example in row if example.verdict is not None]
    answers = [example.answers for row in rows for example in row if example.answers is not None]
    spans, labels = [], []
    weights = torch.ones(layout.ids.shape)
    for number, row in enumerate(rows):
        before = 0
        for example in row:
            weights[number, before : before + len(example.layout)] = example.weight
            if example.spans is not None:
                offset = torch.tensor([number * len(layout) + before] * 2 + [0])
                spans.append(example.spans + offset)
                labels.append(example.layout.label[example.layout.label != IGNORE])
            before += len(example.layout)
    return Batch(
        layout,
        source,
        verdict=torch.tensor(verdicts) if verdicts else None,
        spans=torch.cat(spans) if spans else None,
        spans_label=torch.cat(labels) if labels else None,
        answers=torch.cat(answers) if answers else None,
        weight=None if bool((weights == 1).all()) else weights,
    )
