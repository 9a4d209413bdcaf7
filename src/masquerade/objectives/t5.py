"""T5's span corruption: spans become sentinels, and the decoder writes what each sentinel stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from masquerade.data.examples import Example
from masquerade.data.rng import Rng, choose
from masquerade.errors import MasqueradeError
from masquerade.masks import bidirectional, causal
from masquerade.objectives.base import Objective
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
    """``count`` things cut into ``parts`` pieces, none of them empty: the lengths, every way of cutting as likely as
    another. (Nothing at all is one empty piece.)"""
    cuts = [0, *choose(range(1, count), parts - 1, rng), count]
    return [stop - start for start, stop in pairwise(cuts)]


@dataclass(frozen=True)
class SpanCorruption(Objective):
    """A fixed number of words is lost, in a fixed number of spans; chance only decides the lengths of the spans and of
    what is kept between them. So every text of a length gives a source and a target of a length, and packs well.

    ``sentinels`` are used in order, one for each span and one that closes the target. The text begins with words that
    are kept and ends with a span, as in T5. A special token inside of a span cuts it in two. ``start`` opens the
    decoder's input; T5 takes its padding token, number 0.
    """

    vocabulary: Vocabulary
    sentinels: Sequence[int]
    rate: float = 0.15
    mean: float = 3.0
    start: int = 0

    def amounts(self, words: int) -> tuple[int, int]:
        """How many words are lost, in how many spans; at least one word is lost, and one kept before each span."""
        lost = min(max(1, round(self.rate * words)), max(1, words - 1))
        return lost, min(max(1, round(lost / self.mean)), max(1, words - lost))

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        words = self.vocabulary.maskable(ids)
        lost, parts = self.amounts(len(words)) if words else (0, 1)
        noise: list[int] = []
        place = 0
        for kept, length in zip(segments(len(words) - lost, parts, rng), segments(lost, parts, rng), strict=True):
            noise += words[place + kept : place + kept + length]
            place += kept + length
        spans = runs(noise)
        if len(spans) >= len(self.sentinels):
            raise MasqueradeError(
                f"A text of {len(ids)} tokens lost {len(spans)} spans and needs {len(spans) + 1} sentinels, but there "
                f"are {len(self.sentinels)}; give more sentinels or shorter texts."
            )
        source, target, place = list[int](), list[int](), 0
        for sentinel, span in zip(self.sentinels, spans, strict=False):
            source += [*ids[place : span[0]], sentinel]
            target += [sentinel, *(ids[index] for index in span)]
            place = span[-1] + 1
        target.append(self.sentinels[len(spans)])
        layout = causal([self.start, *target[:-1]]).replace(label=target)
        return Example(layout, source=bidirectional([*source, *ids[place:]]))
