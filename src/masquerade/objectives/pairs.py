"""Pairs of sentences: do they follow each other (BERT), and in which order (ALBERT)? Words are masked on top."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.objectives.base import Objective
from masquerade.objectives.masked import MaskedWords
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Pairs(ABC):
    """An objective over two sentences that follow each other and one from elsewhere, all without special tokens. The
    words are masked by ``inner``, as BERT masks them if not given. "Sentence" means any stretch of text."""

    vocabulary: Vocabulary
    inner: Objective | None = None
    ends: frozenset[int] = frozenset()  # the tokens that end a sentence

    @abstractmethod
    def __call__(self, first: Sequence[int], second: Sequence[int], other: Sequence[int], rng: Rng) -> Example:
        """The example of a pair."""

    def halves(self, ids: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """A piece cut in two, behind the sentence end that is nearest to its middle, or in the middle."""
        middle = len(ids) / 2
        behind = [index for index in range(1, len(ids)) if ids[index - 1] in self.ends and ids[index] not in self.ends]
        cut = min(behind, key=lambda index: abs(index - middle), default=len(ids) // 2)
        return ids[:cut], ids[cut:]

    def _joined(self, a: Sequence[int], b: Sequence[int], wrong: bool, rng: Rng) -> Example:
        """[CLS] a [SEP] b [SEP] with segments 0 and 1, its words masked."""
        ids = [self.vocabulary.cls, *a, self.vocabulary.sep, *b, self.vocabulary.sep]
        segment = [0] * (len(a) + 2) + [1] * (len(b) + 1)
        example = (self.inner or MaskedWords(self.vocabulary))(ids, rng)
        return replace(example, layout=example.layout.replace(segment=segment), verdict=int(wrong))


@dataclass(frozen=True)
class NextSentence(Pairs):
    """BERT's next sentence: half of the time the second sentence gives way to one from elsewhere (verdict 1)."""

    def __call__(self, first: Sequence[int], second: Sequence[int], other: Sequence[int], rng: Rng) -> Example:
        wrong = rng.random() < 0.5
        return self._joined(first, other if wrong else second, wrong, rng)


@dataclass(frozen=True)
class SentenceOrder(Pairs):
    """ALBERT's sentence order: half of the time the two sentences change places (verdict 1). Both are about the same
    thing, so the topic, which gives next sentences away, is of no help. Nothing from elsewhere is used."""

    def __call__(self, first: Sequence[int], second: Sequence[int], other: Sequence[int], rng: Rng) -> Example:
        swapped = rng.random() < 0.5
        a, b = (second, first) if swapped else (first, second)
        return self._joined(a, b, swapped, rng)
