"""Which windows of a long text share words with a question: BM25 over token ids, so that others need not be read."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.reading.layouts import Window

K1, B = 1.2, 0.75  # BM25's saturation of counts, and how much the length of a window counts
PAIR = 2**32  # a pair of neighbouring tokens a, b is the gram (a + 1) · PAIR + b, so no pair is a single token

Grams = NDArray[np.int64]


class WindowIndex:
    """The windows of a text, or of several, and which of them to read for a question."""

    def __init__(self, windows: Sequence[Window], small_letters: Sequence[int] = ()) -> None:
        """``small_letters``: for each id that of its token in small letters, so that capitals make no difference."""
        self.windows, self.small_letters = windows, small_letters

    @functools.cached_property
    def lexical(self) -> LexicalIndex:
        """The index of their token ids, made when it is first needed."""
        return LexicalIndex([self._in_small_letters(window.ids) for window in self.windows])

    def fits(self, question: Sequence[int]) -> NDArray[np.float64]:
        """How well each window fits a question's ids: its BM25 score, less the best one's. (windows,)"""
        if len(self.windows) < 2:
            return np.zeros(len(self.windows))
        scores = self.lexical.scores(self._in_small_letters(question))
        return scores - float(scores.max())

    def _in_small_letters(self, ids: Sequence[int]) -> Sequence[int]:
        return [self.small_letters[number] for number in ids] if self.small_letters else ids

    def best(self, fits: NDArray[np.float64], most: int) -> list[int]:
        """The ``most`` windows that fit best, by their indices in the order of the text; all of them where there are no
        more than twice as many, or ``most`` is 0."""
        if not most or len(fits) <= 2 * most:
            return list(range(len(fits)))
        return sorted(np.argsort(-fits, kind="stable")[:most].tolist())


class LexicalIndex:
    """An index of windows, each a sequence of token ids. Grams are single tokens and pairs of neighbours: pairs tell
    Chinese words apart, whose characters are tokens of their own."""

    def __init__(self, windows: Sequence[Sequence[int]]) -> None:
        grams = [_grams(ids) for ids in windows]
        self.size = len(windows)
        lengths = np.array([len(each) for each in grams], dtype=float)
        owner = np.repeat(np.arange(self.size), [len(each) for each in grams])
        whole = np.concatenate(grams) if grams else np.zeros(0, dtype=np.int64)
        order = np.lexsort((owner, whole))
        whole, owner = whole[order], owner[order]
        new = np.ones(len(whole), dtype=bool)  # where a gram, or its window, is another than the one before
        new[1:] = (whole[1:] != whole[:-1]) | (owner[1:] != owner[:-1])
        starts = np.flatnonzero(new)
        counts = np.diff(np.append(starts, len(whole))).astype(float)
        self.grams, self.windows = whole[starts], owner[starts]  # postings, sorted by gram
        norm = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0)) if self.size else lengths
        self.weights = counts * (K1 + 1) / (counts + norm[self.windows])

    def scores(self, question: Sequence[int]) -> NDArray[np.float64]:
        """The BM25 score of each window for a question's ids: (windows,)"""
        found = np.zeros(self.size)
        for gram in np.unique(_grams(question)):
            first, last = np.searchsorted(self.grams, [gram, gram + 1])
            if first < last:
                rarity = np.log1p((self.size - (last - first) + 0.5) / (last - first + 0.5))
                found[self.windows[first:last]] += rarity * self.weights[first:last]
        return found

    def best(self, question: Sequence[int], most: int) -> list[int]:
        """The ``most`` best windows for a question, in the order of the text."""
        ranked = np.argsort(-self.scores(question), kind="stable")[:most]
        return sorted(ranked.tolist())


def _grams(ids: Sequence[int]) -> Grams:
    """The tokens and the pairs of neighbouring tokens of a sequence: (2 n − 1,)"""
    tokens = np.asarray(ids, dtype=np.int64)
    return np.concatenate([tokens, (tokens[:-1] + 1) * PAIR + tokens[1:]])
