"""T5's span corruption: spans become sentinels, and the decoder writes the tokens of each sentinel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from masquerade.data.examples import Example
from masquerade.data.rng import Rng, choose
from masquerade.errors import MasqueradeError
from masquerade.masks import bidirectional, causal
from masquerade.objectives.base import Objective, decoding_tokens
from masquerade.text.vocabulary import Vocabulary


def runs(indices: Iterable[int]) -> list[list[int]]:
    """Ascending indices as runs of neighbours: 2 3 4 8 9 gives 2 3 4 and 8 9."""
    found: list[list[int]] = []
    for index in indices:
        if found and index == found[-1][-1] + 1:
            found[-1].append(index)
        else:
            found.append([index])
    return found


def segments(count: int, parts: int, rng: Rng) -> list[int]:
    """The lengths of ``parts`` random parts of ``count`` things, none of them empty; every division has the same
    probability. (Zero things are one empty part.)"""
    cuts = [0, *choose(range(1, count), parts - 1, rng), count]
    return [stop - start for start, stop in pairwise(cuts)]


@dataclass(frozen=True)
class SpanCorruption(Objective):
    """A fixed number of tokens is replaced, in a fixed number of spans; only the lengths of the spans and of the text
    between them are random. So texts of one length give sources and targets of one length.

    ``sentinels`` are used in order, one for each span and one after the last span; then [SEP] ends the target. As in
    T5, a text begins with kept tokens and ends with a span. A special token inside a span divides it. ``start`` is
    the first token of the decoder's input; T5 uses its padding token.
    """

    vocabulary: Vocabulary
    sentinels: Sequence[int]
    rate: float = 0.15
    mean: float = 3.0
    start: int = 0

    def config(self) -> dict[str, int]:
        return decoding_tokens(self.vocabulary.sep, self.start)

    def amounts(self, tokens: int) -> tuple[int, int]:
        """The number of replaced tokens and of spans. At least one token is replaced, and one kept before each span."""
        lost = min(max(1, round(self.rate * tokens)), max(1, tokens - 1))
        return lost, min(max(1, round(lost / self.mean)), max(1, tokens - lost))

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        maskable = self.vocabulary.maskable(ids)
        lost, parts = self.amounts(len(maskable)) if maskable else (0, 1)
        noise: list[int] = []
        begin = 0
        for kept, length in zip(segments(len(maskable) - lost, parts, rng), segments(lost, parts, rng), strict=True):
            noise += maskable[begin + kept : begin + kept + length]
            begin += kept + length
        spans = runs(noise)
        if len(spans) >= len(self.sentinels):
            raise MasqueradeError(
                f"A text of {len(ids)} tokens with {len(spans)} spans needs {len(spans) + 1} sentinels, but there are "
                f"{len(self.sentinels)}; use a vocabulary with more sentinels, or shorter texts."
            )
        source, target, begin = list[int](), list[int](), 0
        for sentinel, span in zip(self.sentinels, spans, strict=False):
            source += [*ids[begin : span[0]], sentinel]
            target += [sentinel, *(ids[index] for index in span)]
            begin = span[-1] + 1
        target += [self.sentinels[len(spans)], self.vocabulary.sep]
        layout = causal([self.start, *target[:-1]]).replace(label=target)
        return Example(layout, source=bidirectional([*source, *ids[begin:]]))
