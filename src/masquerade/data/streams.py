"""Documents read segment by segment, for networks that remember the segments before: each row of a batch goes on where
the same row of the batch before ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from masquerade.data.corpus import Tokens
from masquerade.data.examples import Example, PerExample
from masquerade.data.packing import DataCursor, Row
from masquerade.data.rng import Rng, rng_for
from masquerade.errors import MasqueradeError


@dataclass(frozen=True)
class Segment:
    """A part of one document, special tokens included."""

    ids: list[int]
    following: int | None  # the id behind it in the document; None at the document's end


class Streams:
    """An endless stream of batches. In each epoch the documents are joined in a new order, and the whole is cut into
    one part a row. Step t reads the t-th ``length`` tokens of every part. No padding is needed: a row in which a
    document ends goes on with the next one. Each document's share of a row is one ``Example``, made by ``example``. The
    first example of a row has the extra fields ``stream``, the number of the row, and ``continued``: 1 if its document
    began in an earlier segment of the row."""

    def __init__(
        self,
        tokens: Tokens,
        enclosing: tuple[list[int], list[int]],
        example: Callable[[Segment, Rng], Example],
        rows: int,
        length: int,
        seed: int,
    ) -> None:
        """``enclosing`` are the ids before and behind the text of a document, such as [CLS] and [SEP]."""
        self.tokens, self.example, self.rows, self.length, self.seed = tokens, example, rows, length, seed
        self.before, self.behind = enclosing
        self.sizes: NDArray[np.int64] = np.diff(tokens.ends, prepend=0) + len(self.before) + len(self.behind)
        self.part = int(self.sizes.sum()) // rows  # tokens of a row in an epoch
        self.steps = self.part // length  # steps of an epoch; what is left over is not read in it
        if not self.steps:
            raise MasqueradeError(
                f"The text has {int(self.sizes.sum()):,} tokens, too few for {rows} rows of {length}; use fewer rows, "
                "shorter segments or more text."
            )

    def __call__(self, cursor: DataCursor) -> Iterator[tuple[list[Row], DataCursor]]:
        """The rows of each step from a cursor on, whose ``piece`` is the step in the epoch, and the cursor after it."""
        epoch, step = cursor.epoch, cursor.piece
        while True:
            order = rng_for(self.seed, epoch, len(self.sizes)).permutation(len(self.sizes))
            ends = self.sizes[order].cumsum()
            while step < self.steps:
                rows = [self._row(epoch, step, stream, order, ends) for stream in range(self.rows)]
                step += 1
                yield rows, DataCursor(epoch, step) if step < self.steps else DataCursor(epoch + 1)
            epoch, step = epoch + 1, 0

    def _row(self, epoch: int, step: int, stream: int, order: NDArray[np.int64], ends: NDArray[np.int64]) -> Row:
        """The examples of one row."""
        rng = rng_for(self.seed, epoch, step, stream)
        begin = stream * self.part
        at, stop = begin + step * self.length, begin + (step + 1) * self.length
        place = int(np.searchsorted(ends, at, side="right"))
        first = int(ends[place - 1]) if place else 0
        continued = int(step > 0 and at > first)
        row, offset = Row(), 0
        while at < stop:
            upto = min(stop, int(ends[place]))
            made = self.example(self._segment(int(order[place]), at - first, upto - first), rng)
            layout = made.layout.replace(position=made.layout.position + offset)
            extra = dict(made.extra)
            if not row:
                extra |= {"stream": PerExample(stream), "continued": PerExample(continued)}
            row.append(replace(made, layout=layout, extra=extra))
            offset += upto - at
            at, place, first = upto, place + 1, int(ends[place])
        return row

    def _segment(self, document: int, start: int, stop: int) -> Segment:
        """Tokens ``start`` to ``stop`` of a document with its special tokens."""
        text, head = self.tokens[document], len(self.before)

        def ids(low: int, high: int) -> list[int]:
            inside: list[int] = text[max(low - head, 0) : max(high - head, 0)].tolist()
            behind = max(low - head - len(text), 0), max(high - head - len(text), 0)
            return [*self.before[low:high], *inside, *self.behind[slice(*behind)]]

        following = ids(stop, stop + 1)
        return Segment(ids(start, stop), following[0] if following else None)
