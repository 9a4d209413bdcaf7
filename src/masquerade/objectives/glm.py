"""GLM: spans of the text are replaced by one mask each and written token by token after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.layout import IGNORE, Layout
from masquerade.masks import infill
from masquerade.objectives.base import Objective
from masquerade.objectives.span import place
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class ShortBlanks(Objective):
    """Blanks of a few tokens each (Poisson with mean 3, never empty) with at least a share of the tokens, for
    understanding. They are written in a random order.

    ``start`` is the first input token of every blank and ``end`` is predicted after its last token; [CLS] and [SEP] if
    not given.
    """

    vocabulary: Vocabulary
    rate: float = 0.15
    mean: float = 3.0
    start: int | None = None
    end: int | None = None

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        units = [[index] for index in self.vocabulary.maskable(ids)]
        taken, spans = [False] * len(ids), []
        while sum(taken) < self.rate * len(units):
            span = [index for unit in place(units, self._length(rng), taken, rng) for index in unit]
            if not span:
                break
            for index in span:
                taken[index] = True
            spans.append(span)
        order = rng.permutation(len(spans)).tolist()
        return Example(_blanked(ids, [spans[number] for number in order], self.vocabulary, self.start, self.end))

    def _length(self, rng: Rng) -> int:
        while True:
            length = int(rng.poisson(self.mean))
            if length:
                return length


@dataclass(frozen=True)
class LongBlank(Objective):
    """One blank at the end of the piece, of any length from ``least`` of it to all of it, for generation.

    It ends after the last ordinary token. A special token inside it is input but not predicted.
    """

    vocabulary: Vocabulary
    least: float = 0.5
    start: int | None = None
    end: int | None = None

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        words = self.vocabulary.maskable(ids)
        if not words:
            return Example(_blanked(ids, [], self.vocabulary, self.start, self.end))
        longest = words[-1] + 1 - words[0]
        length = int(rng.integers(max(1, math.ceil(self.least * longest)), longest + 1))
        span = list(range(words[-1] + 1 - length, words[-1] + 1))
        return Example(_blanked(ids, [span], self.vocabulary, self.start, self.end))


def _blanked(
    ids: Sequence[int], spans: list[list[int]], vocabulary: Vocabulary, start: int | None, end: int | None
) -> Layout:
    """The text with one mask for each span, followed by the spans in the given order."""
    first = {span[0]: number for number, span in enumerate(spans)}
    inside = {index for span in spans for index in span}
    context: list[int] = []
    places = [0] * len(spans)
    for index, number in enumerate(ids):
        if index in first:
            places[first[index]] = len(context)
            context.append(vocabulary.mask)
        elif index not in inside:
            context.append(number)
    opening, closing = vocabulary.cls if start is None else start, vocabulary.sep if end is None else end
    written, label = [], [IGNORE] * len(context)
    for spot, span in zip(places, spans, strict=True):
        words = [ids[index] for index in span]
        written.append((spot, [opening, *words]))
        label += [IGNORE if word in vocabulary.specials else word for word in words] + [closing]
    return infill(context, written).replace(label=label)
