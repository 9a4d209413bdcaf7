"""Pairs of sentences: whether they follow each other (BERT), and in which order (ALBERT), besides masked tokens."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from masquerade.data.corpus import Pieces, Tokens
from masquerade.data.examples import Example, PerExample, TokenIndex
from masquerade.data.rng import Rng
from masquerade.objectives.base import Objective
from masquerade.objectives.loss import SentenceTerm, Term
from masquerade.objectives.masked import MaskedWords
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Pairs(Objective):
    """An objective over two texts that follow each other and one from elsewhere. Their tokens are masked by ``inner``,
    as BERT masks them if not given."""

    vocabulary: Vocabulary
    inner: Objective | None = None
    ends: frozenset[int] = frozenset()  # the tokens that end a sentence

    @abstractmethod
    def pair(self, first: Sequence[int], second: Sequence[int], other: Sequence[int], rng: Rng) -> Example:
        """The example of two texts that follow each other and one from elsewhere, all without special tokens."""

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        words = [ids[index] for index in self.vocabulary.maskable(ids)]
        first, second = self.halves(words)
        return self.pair(first, second, second, rng)

    def cut(self, tokens: Tokens, length: int) -> Pieces:
        return tokens.pieces(length - 3)

    def example(self, pieces: Pieces, number: int, rng: Rng) -> Example:
        first, second = self.halves(pieces[number])
        return self.pair(first, second, pieces[pieces.elsewhere(number, rng)][: len(second)], rng)

    def terms(self) -> dict[str, Term]:
        return self._inner.terms() | {"pairs": SentenceTerm("pair")}

    def halves(self, ids: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """A piece cut in two, behind the sentence end that is nearest to its middle, or in the middle."""
        middle = len(ids) / 2
        behind = [index for index in range(1, len(ids)) if ids[index - 1] in self.ends and ids[index] not in self.ends]
        cut = min(behind, key=lambda index: abs(index - middle), default=len(ids) // 2)
        return ids[:cut], ids[cut:]

    @property
    def _inner(self) -> Objective:
        return self.inner or MaskedWords(self.vocabulary)

    def _joined(self, a: Sequence[int], b: Sequence[int], label: int, rng: Rng) -> Example:
        """[CLS] a [SEP] b [SEP] with segments 0 and 1, its tokens masked."""
        ids = [self.vocabulary.cls, *a, self.vocabulary.sep, *b, self.vocabulary.sep]
        segment = [0] * (len(a) + 2) + [1] * (len(b) + 1)
        example = self._inner(ids, rng)
        pair = {"sentence_label": PerExample(label), "sentence_token": TokenIndex(0)}
        return replace(example, layout=example.layout.replace(segment=segment), extra={**example.extra, **pair})


@dataclass(frozen=True)
class NextSentence(Pairs):
    """BERT's next sentence: half of the time the second text comes from elsewhere (label 1)."""

    def pair(self, first: Sequence[int], second: Sequence[int], other: Sequence[int], rng: Rng) -> Example:
        wrong = rng.random() < 0.5
        return self._joined(first, other if wrong else second, int(wrong), rng)


@dataclass(frozen=True)
class SentenceOrder(Pairs):
    """ALBERT's sentence order: half of the time the two texts change places (label 1). Both have the same topic, so
    the topic is no clue, as it is for next sentences. The text from elsewhere is not used."""

    def pair(self, first: Sequence[int], second: Sequence[int], other: Sequence[int], rng: Rng) -> Example:
        swapped = rng.random() < 0.5
        a, b = (second, first) if swapped else (first, second)
        return self._joined(a, b, int(swapped), rng)
