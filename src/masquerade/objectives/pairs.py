"""Pairs of sentences: do they follow each other (BERT), and in which order (ALBERT)? Words are masked on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from masquerade.objectives.base import Example, Objective, Rng, Terms
from masquerade.objectives.masked import MaskedWords


@dataclass(frozen=True)
class NextSentence:
    """BERT's next sentence: half of the time the second sentence gives way to one from elsewhere (pair 1).

    The words of both are masked by ``inner``, BERT's masked words if not given. Sentences come without special tokens.
    """

    terms: Terms
    inner: Objective | None = None

    def __call__(self, first: Sequence[int], second: Sequence[int], other: Sequence[int], rng: Rng) -> Example:
        wrong = rng.random() < 0.5
        return _joined(first, other if wrong else second, wrong, self.terms, self.inner, rng)


@dataclass(frozen=True)
class SentenceOrder:
    """ALBERT's sentence order: half of the time the two sentences change places (pair 1). Both are about the same
    thing, so the topic, which gives next sentences away, is of no help.

    ``other`` is not used; it is there so that both kinds of pairs are called alike.
    """

    terms: Terms
    inner: Objective | None = None

    def __call__(self, first: Sequence[int], second: Sequence[int], other: Sequence[int], rng: Rng) -> Example:
        swapped = rng.random() < 0.5
        a, b = (second, first) if swapped else (first, second)
        return _joined(a, b, swapped, self.terms, self.inner, rng)


def _joined(
    a: Sequence[int], b: Sequence[int], wrong: bool, terms: Terms, inner: Objective | None, rng: Rng
) -> Example:
    """[CLS] a [SEP] b [SEP] with segments 0 and 1, its words masked, its pair known."""
    ids = [terms.cls, *a, terms.sep, *b, terms.sep]
    segment = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    example = (inner or MaskedWords(terms))(ids, rng)
    return replace(example, layout=example.layout.replace(segment=segment), pair=int(wrong))
