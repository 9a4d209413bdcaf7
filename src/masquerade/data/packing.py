"""Examples packed into rows, and rows into batches, without padding between examples. The result is the same for any
number of processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from masquerade.data.examples import Example, PerToken, TokenIndex
from masquerade.data.rng import rng_for
from masquerade.layout import Layout, batch
from masquerade.masks import pack

POOL = 256  # examples that are packed together

Row = list[Example]


@dataclass(frozen=True)
class Batch:
    """Rows of packed examples."""

    layout: Layout  # (rows, n)
    source: Layout | None = None
    extra: Mapping[str, Tensor] = field(default_factory=dict)  # the extra fields of the examples, by name

    def to(self, device: torch.device) -> Batch:
        """The batch on another device."""
        source = None if self.source is None else self.source.to(device)
        return Batch(self.layout.to(device), source, {name: value.to(device) for name, value in self.extra.items()})

    @property
    def tokens(self) -> int:
        """The number of tokens that the network reads, without padding."""
        return int(self.layout.real.sum()) + (0 if self.source is None else int(self.source.real.sum()))


@dataclass(frozen=True)
class DataCursor:
    """A position in the data of a run: the epoch, the next piece, and how many rows of the pool that begins there have
    been read."""

    epoch: int = 0
    piece: int = 0
    row: int = 0


class PackedRows:
    """An endless stream of rows. Each epoch takes the pieces in a new order, makes an example of each with
    ``example(epoch, number, place)``, where place is the place in that order, and packs them, a pool at a time. The
    stream depends on the seed alone and can begin at any cursor."""

    def __init__(self, pieces: int, example: Callable[[int, int, int], Example], row: int, seed: int) -> None:
        self.pieces, self.example, self.row, self.seed = pieces, example, row, seed

    def __call__(self, cursor: DataCursor) -> Iterator[tuple[Row, DataCursor]]:
        """Rows from a cursor on, each with the cursor after it. No row spans two epochs."""
        while True:
            order = rng_for(self.seed, cursor.epoch, self.pieces).permutation(self.pieces).tolist()
            for start in range(cursor.piece, len(order), POOL):
                rows = self._packed(cursor.epoch, start, order[start : start + POOL])
                after = DataCursor(cursor.epoch, start + POOL)
                for number in range(cursor.row, len(rows)):
                    last = number + 1 == len(rows)
                    yield rows[number], after if last else DataCursor(cursor.epoch, start, number + 1)
                cursor = after
            cursor = DataCursor(cursor.epoch + 1)

    def _packed(self, epoch: int, start: int, numbers: Sequence[int]) -> list[Row]:
        """The rows of a pool, in random order."""
        rows = packed([self.example(epoch, number, place) for place, number in enumerate(numbers, start)], self.row)
        return [rows[index] for index in rng_for(self.seed, epoch, start, len(rows)).permutation(len(rows))]


def first_fit(lengths: Sequence[int], row: int) -> list[list[int]]:
    """Which sequences go into which row: the longest first, each into the first row that has room for it. A sequence
    longer than a row gets a row of its own."""
    rows: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        target = next((number for number, left in enumerate(room) if left >= lengths[index]), len(rows))
        if target == len(rows):
            rows.append([])
            room.append(row)
        rows[target].append(index)
        room[target] -= lengths[index]
    return rows


def packed(examples: Sequence[Example], row: int) -> list[Row]:
    """Examples as rows of at most ``row`` tokens."""
    return [[examples[index] for index in indices] for indices in first_fit([each.room for each in examples], row)]


def collate(rows: Sequence[Row], pad_id: int = 0) -> Batch:
    """Rows of examples as one batch."""
    layout = batch([pack([example.layout for example in row]) for row in rows], pad_id)
    sources = [[example.source for example in row if example.source is not None] for row in rows]
    source = batch([pack(row) for row in sources], pad_id) if any(sources) else None
    lists, filled = defaultdict[str, list[Tensor]](list), dict[str, Tensor]()
    for number, row in enumerate(rows):
        offset = number * len(layout)
        for example in row:
            for name, extra in example.extra.items():
                entries = extra.tensor
                if isinstance(extra, PerToken):
                    if name not in filled:
                        filled[name] = torch.full((layout.rows * len(layout),), extra.fill, dtype=entries.dtype)
                    filled[name][offset : offset + len(example.layout)] = entries
                else:
                    lists[name].append(entries + offset if isinstance(extra, TokenIndex) else entries)
            offset += len(example.layout)
    extra_fields = {name: torch.cat(parts) for name, parts in lists.items()}
    return Batch(layout, source, extra_fields | {name: each.view(layout.shape) for name, each in filled.items()})
