"""Pairs of texts: whether they follow each other (BERT), and in which order (ALBERT), besides masked tokens.

Both texts of every pair consist of whole sentences, whatever the label, and texts from elsewhere have the same length
as those they replace. So neither the first and last tokens nor the lengths tell the label.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from masquerade.data.corpus import Pieces, Tokens
from masquerade.data.examples import Example, PerExample, TokenIndex
from masquerade.data.rng import Rng
from masquerade.errors import MasqueradeError
from masquerade.objectives.base import Objective
from masquerade.objectives.loss import SentenceTerm, Term
from masquerade.objectives.masked import MaskedTokens
from masquerade.text.vocabulary import Vocabulary

TRIES = 20  # pieces of other documents among which the text of the best length is chosen
MIDDLE = (0.35, 0.65)  # the part of a piece in which it is cut in two


@dataclass(frozen=True)
class Pairs(Objective):
    """An objective over two texts, whose tokens are masked by ``inner``, as BERT masks them if not given. The first
    sentence of a document is left out: an opening sentence is too easily told from any other."""

    vocabulary: Vocabulary
    ends: frozenset[int]  # the tokens that end a sentence
    inner: Objective | None = None

    @abstractmethod
    def example(self, pieces: Pieces, number: int, rng: Rng, draw: float) -> Example:
        """The example of one piece, which is cut in two."""

    def terms(self) -> dict[str, Term]:
        return self._inner.terms() | {"pairs": SentenceTerm("pair")}

    def cut(self, tokens: Tokens, length: int) -> Pieces:
        """Runs of two or more whole sentences of a document, which have at most ``length`` tokens with the three
        special tokens of a pair."""
        ending = np.isin(tokens.ids, list(self.ends))
        spans: list[tuple[int, int]] = []
        begin = 0
        for end in tokens.ends.tolist():
            inside = ending[begin:end]
            stops = (begin + 1 + np.flatnonzero(inside & ~np.append(inside[1:], False))).tolist()
            first, count = stops[0] if stops else end, 0  # the start of the piece, and its sentences so far
            for start, stop in pairwise(stops):
                if stop - first > length - 3:
                    spans += [(first, start)] if count > 1 else []
                    first, count = start, 0
                if stop - first > length - 3:  # a sentence that is too long by itself
                    first, count = stop, 0
                else:
                    count += 1
            spans += [(first, stops[-1])] if count > 1 else []
            begin = end
        if not spans:
            raise MasqueradeError(
                f"No document has two neighbouring sentences of together {length - 3} tokens after its first sentence; "
                "raise 'length', or train on text with sentence ends."
            )
        return Pieces(tokens, np.array(spans, dtype=np.int64))

    def boundaries(self, ids: Sequence[int]) -> list[int]:
        """The indices inside a piece at which a new sentence begins."""
        return [i for i in range(1, len(ids)) if ids[i - 1] in self.ends and ids[i] not in self.ends]

    def halves(self, ids: Sequence[int], rng: Rng) -> tuple[Sequence[int], Sequence[int]]:
        """A piece cut in two, between the two sentences that are nearest to a random point around its middle."""
        point = len(ids) * rng.uniform(*MIDDLE)
        at = min(self.boundaries(ids), key=lambda index: abs(index - point))
        return ids[:at], ids[at:]

    @property
    def _inner(self) -> Objective:
        return self.inner or MaskedTokens(self.vocabulary)

    def joined(self, a: Sequence[int], b: Sequence[int], label: int, rng: Rng) -> Example:
        """[CLS] a [SEP] b [SEP] with segments 0 and 1, its tokens masked."""
        ids = [self.vocabulary.cls, *a, self.vocabulary.sep, *b, self.vocabulary.sep]
        segment = [0] * (len(a) + 2) + [1] * (len(b) + 1)
        example = self._inner(ids, rng)
        pair = {"sentence_label": PerExample(label), "sentence_token": TokenIndex(0)}
        return replace(example, layout=example.layout.replace(segment=segment), extra={**example.extra, **pair})


@dataclass(frozen=True)
class NextSentence(Pairs):
    """BERT's next sentence: half of the time the second text comes from another document (label 1)."""

    def example(self, pieces: Pieces, number: int, rng: Rng, draw: float) -> Example:
        first, second = self.halves(pieces[number], rng)
        other = self.elsewhere(pieces, number, len(second), rng) if rng.random() < 0.5 else []
        return self.joined(first, other or second, int(bool(other)), rng)

    def elsewhere(self, pieces: Pieces, number: int, length: int, rng: Rng) -> list[int]:
        """Whole sentences of another document, ``length`` tokens or as few less as any of some random pieces has; empty
        if none is short enough. They begin inside their piece, as the second text of any pair does."""
        best: list[int] = []
        for attempt in range(5 * TRIES):
            if len(best) == length or (best and attempt >= TRIES):
                break
            ids = pieces[pieces.elsewhere(number, rng)]
            stops = [*self.boundaries(ids), len(ids)]
            start = int(rng.integers(len(stops) - 1))
            found = [ids[stops[start] : stop] for stop in stops[start + 1 :] if stop - stops[start] <= length]
            best = max([best, *found], key=len)
        return best


@dataclass(frozen=True)
class SentenceOrder(Pairs):
    """ALBERT's sentence order: half of the time the two texts change places (label 1). Both have the same topic, so
    the topic is no clue, as it is for next sentences."""

    def example(self, pieces: Pieces, number: int, rng: Rng, draw: float) -> Example:
        first, second = self.halves(pieces[number], rng)
        swapped = rng.random() < 0.5
        a, b = (second, first) if swapped else (first, second)
        return self.joined(a, b, int(swapped), rng)
