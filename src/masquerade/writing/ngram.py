"""N-gram language models, a baseline for the perplexity of networks.

Counts are smoothed as Kneser and Ney proposed and Chen and Goodman (1999) modified it: every order passes
a part of its probability to the order below, which depends on whether an n-gram occurred once, twice or more often; and
lower orders count the different contexts of a token instead of its occurrences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.errors import MasqueradeError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Document = Sequence[int] | NDArray[np.integer]

USUAL = np.array([0.5, 1.0, 1.5])  # discounts for corpora that are too small or too regular to estimate them


@dataclass(frozen=True)
class Level:
    """All n-grams of one length, numbered in the order of their keys. The key of an n-gram is the number of its first
    n − 1 tokens on the level below, times the number of tokens, plus its last token."""

    keys: Ints  # (n-grams,), rising
    share: Floats  # (n-grams,): the discounted share of an n-gram in its context
    passed: Floats  # (contexts,), by number on the level below: the probability passed on; 1 if nothing follows

    def find(self, keys: Ints) -> Ints:
        """The numbers of keys, −1 for unknown ones: (n,) → (n,)"""
        place = np.searchsorted(self.keys, keys)
        place[place == len(self.keys)] = 0
        return np.where(self.keys[place] == keys, place, -1)


@dataclass(frozen=True)
class NGram:
    """A language model with a context of ``order`` − 1 tokens. A document begins after a start symbol, which is never
    predicted; its end token, if it has one, is predicted as any other."""

    vocab: int
    levels: tuple[Level, ...]  # the first has unigrams, for the vocabulary and the start symbol

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.levels)

    @staticmethod
    def train(documents: Iterable[Document], order: int, vocab: int) -> NGram:
        """Count the n-grams of documents, given as ids below ``vocab``, up to the length ``order``."""
        if order < 1:
            raise MasqueradeError(f"There are no n-grams of order {order}; give at least 1.")
        words, depth = _line_up(documents, vocab)
        if not len(words):
            raise MasqueradeError("There is no text to count n-grams in; give at least one document with a token.")
        levels: list[Level] = []
        keys, number = (
            np.arange(vocab + 1),
            words,
        )  # the n-grams of this level; the number of the one that ends at each token
        contexts = 1  # unigrams have only the empty context
        while True:
            length = len(levels) + 1
            counts = np.bincount(number[depth >= length - 1], minlength=len(keys))
            longer = np.flatnonzero(depth >= length)
            last = length == order or not len(longer)
            if not last:  # count contexts instead, except at the start of a document
                pairs = number[longer - 1] * (vocab + 1) + words[longer]
                next_keys, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
                before = np.bincount(number[longer[first]], minlength=len(keys))
                opening = number[depth == length - 1]
                before[opening] = counts[opening]
                counts = before
            if length == 1:
                counts[vocab] = 0  # the start symbol is never predicted
            levels.append(_level(keys, counts, keys // (vocab + 1), contexts))
            if last:
                return NGram(vocab, tuple(levels))
            contexts, keys, number = len(keys), next_keys, np.full(len(words), -1)
            number[longer] = inverse

    def log_probability(self, ids: Document) -> Floats:
        """The natural log-probability of each token after those before it: (n,) → (n,)"""
        if not len(ids):
            return np.zeros(0)
        words, _ = _line_up([ids], self.vocab)
        likely: Floats = np.full(len(words), 1 / self.vocab)
        context = np.zeros(len(words), dtype=np.int64)  # the n-gram before each token; −1: unknown
        for level in self.levels:
            number = level.find(context * (self.vocab + 1) + words)
            likely *= np.where(context >= 0, level.passed[context], 1.0)
            likely += np.where(number >= 0, level.share[number], 0.0)
            context = np.concatenate([[-1], number[:-1]])
        logarithm: Floats = np.log(likely[1:])
        return logarithm


def _level(keys: Ints, counts: Ints, context: Ints, contexts: int) -> Level:
    """A level from the counts of its n-grams and the numbers of their contexts."""
    total = np.bincount(context, counts, contexts)
    taken = np.concatenate([[0.0], _discounts(counts)])[np.minimum(counts, 3)]
    given = np.bincount(context, taken, contexts)
    follows = total > 0
    share = np.divide(counts - taken, total[context], out=np.zeros(len(keys)), where=total[context] > 0)
    return Level(keys, share, np.divide(given, total, out=np.ones(contexts), where=follows))


def _discounts(counts: Ints) -> Floats:
    """The discounts of n-grams that occurred once, twice and more often, estimated from the numbers of such n-grams;
    the usual ones where the estimate is impossible or out of range."""
    once, twice, thrice, more = (int((counts == times).sum()) for times in (1, 2, 3, 4))
    if not once or not twice or not thrice:
        return USUAL
    rate = once / (once + 2 * twice)
    found = np.array([1 - 2 * rate * twice / once, 2 - 3 * rate * thrice / twice, 3 - 4 * rate * more / thrice])
    return found if bool(((found > 0) & (found <= (1, 2, 3))).all()) else USUAL


def _line_up(documents: Iterable[Document], vocab: int) -> tuple[Ints, Ints]:
    """All documents in one array, each after a start symbol with the id ``vocab``; and the distance of each token from
    its start. Empty documents are skipped."""
    start, parts, depths = np.array([vocab]), [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for document in documents:
        ids = np.asarray(document, dtype=np.int64)
        if not len(ids):
            continue
        if ids.min() < 0 or ids.max() >= vocab:
            wrong = ids.max() if ids.max() >= vocab else ids.min()
            raise MasqueradeError(
                f"There is no token {wrong} in a vocabulary of {vocab}; check that text and vocabulary belong together."
            )
        parts += [start, ids]
        depths.append(np.arange(len(ids) + 1))
    return np.concatenate(parts), np.concatenate(depths)
