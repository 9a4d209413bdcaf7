"""Spans of tokens in a batch: mentions of entities, and blanks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade.errors import LayoutError
from masquerade.layout import Layout

BEGIN, INSIDE, OUTSIDE = 0, 1, 2  # the classes of mention detection
TAGS = 3


@dataclass(frozen=True)
class Spans:
    """The first and the last token of each of m spans, as flat indices into (rows · n) tokens."""

    first: Tensor  # (m,)
    last: Tensor  # (m,), of the same text

    @staticmethod
    def of(given: Tensor, layout: Layout) -> Spans:
        """The spans of an input (m, 2) for a batch of (rows, n) tokens; an error if one is no span of one text."""
        if given.dim() != 2 or given.shape[1] != 2:
            raise LayoutError(f"Spans have the shape (m, 2), first and last token, but these have {given.shape}.")
        first, last = given.to(layout.ids.device).long().unbind(1)
        size = layout.ids.numel()
        inside = (first >= 0) & (first <= last) & (last < size)
        document, n = layout.document.flatten(), max(len(layout), 1)
        start, end = first.clamp(0, max(size - 1, 0)), last.clamp(0, max(size - 1, 0))
        if size:
            one = (document[start] == document[end]) & (document[start] >= 0)
            inside = inside & one & (start // n == end // n)
        if not bool(inside.all()):
            number = int((~inside).nonzero()[0])
            raise LayoutError(
                f"The span {given[number].tolist()} is no run of tokens inside of one text of a batch of "
                f"{tuple(layout.shape)} tokens; leave out mentions that the window cuts off."
            )
        return Spans(first, last)

    def __len__(self) -> int:
        """The number of spans."""
        return len(self.first)

    def ends(self, states: Tensor) -> Tensor:
        """The states of the first and the last token, joined: (rows, n, width) → (m, 2 · width)"""
        flat = states.flatten(0, 1)
        return torch.cat([flat[self.first], flat[self.last]], dim=-1)

    def by_row(self, layout: Layout) -> tuple[Tensor, Tensor]:
        """The spans of each row, padded to the most that a row has: their numbers (rows, c), 0 at padding, and which
        of them are there, bool (rows, c)."""
        row = self.first // max(len(layout), 1)
        counts = torch.bincount(row, minlength=layout.rows)  # (rows,)
        most = int(counts.max()) if len(self) else 0
        order = row.argsort(stable=True)
        place = torch.arange(len(self), device=row.device) - (counts.cumsum(0) - counts)[row[order]]
        numbers = torch.zeros(layout.rows, most, dtype=torch.long, device=row.device)
        numbers[row[order], place] = order
        return numbers, torch.arange(most, device=row.device) < counts[:, None]

    def tokens(self, longest: int) -> tuple[Tensor, Tensor]:
        """The flat indices of all tokens of each span, padded to ``longest``: (m, longest), the last token again at
        padding; and which are no padding, bool (m, longest)."""
        steps = torch.arange(longest, device=self.first.device)
        index = self.first[:, None] + steps
        return index.minimum(self.last[:, None]), index <= self.last[:, None]

    @property
    def longest(self) -> int:
        """The number of tokens of the longest span; 0 without spans."""
        return int((self.last - self.first).max()) + 1 if len(self) else 0


def from_tags(tags: Tensor, layout: Layout) -> Tensor:
    """The spans (m, 2) that classes BEGIN, INSIDE and OUTSIDE of each token, (rows, n), describe. INSIDE without a
    beginning before it opens a span; no span goes over the end of a text."""
    layout, found = layout.batched(), list[tuple[int, int]]()
    document, n = layout.document.tolist(), len(layout)
    for row, classes in enumerate(tags.tolist()):
        start: int | None = None
        for index in range(n + 1):
            ended = index == n or document[row][index] < 0 or classes[index] != INSIDE
            ended = ended or (index > 0 and document[row][index] != document[row][index - 1])
            if ended and start is not None:
                found.append((row * n + start, row * n + index - 1))
                start = None
            if index < n and document[row][index] >= 0 and classes[index] != OUTSIDE and start is None:
                start = index
    return torch.tensor(found, dtype=torch.long, device=tags.device).view(-1, 2)


def to_tags(spans: Spans, layout: Layout) -> Tensor:
    """The class of each token, (rows, n), for some spans; where spans overlap, the later one counts."""
    tags = torch.full_like(layout.ids, OUTSIDE).flatten()
    index, there = spans.tokens(spans.longest)
    tags[index[there]] = INSIDE
    tags[spans.first] = BEGIN
    return tags.view(layout.ids.shape)
