"""N-gram language models: the perplexity that every network has to beat.

Counts are smoothed as Kneser and Ney proposed and Chen and Goodman (1999) modified it: every order gives a part of its
mass to the order below, how much depends on whether an n-gram was seen once, twice or more often, and the lower orders
count in how many different contexts a word was seen instead of how often.
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

USUAL = np.array([0.5, 1.0, 1.5])  # discounts where a corpus is too small, or too regular, to tell


@dataclass(frozen=True)
class Level:
    """All n-grams of one length, numbered in the order of their keys. A key is the number that the n-gram without its
    last word has on the level below, times the number of words, plus that last word."""

    keys: Ints  # (n-grams,), rising
    share: Floats  # (n-grams,): what an n-gram keeps of its context's mass, after the discount
    passed: Floats  # (contexts,), by their number on the level below: the mass handed down; 1 if nothing follows it

    def find(self, keys: Ints) -> Ints:
        """The numbers of keys, −1 for those that are not there: (n,) → (n,)"""
        place = np.searchsorted(self.keys, keys)
        place[place == len(self.keys)] = 0
        return np.where(self.keys[place] == keys, place, -1)


@dataclass(frozen=True)
class NGram:
    """A language model that knows the last ``order`` − 1 tokens. A document begins behind a start of its own, which is
    known as a context and never predicted; its end is predicted like any token where documents end with one."""

    vocab: int
    levels: tuple[Level, ...]  # the first has single words, one for each of the vocabulary and the start

    @property
    def order(self) -> int:
        """How long the longest n-grams are."""
        return len(self.levels)

    @staticmethod
    def train(documents: Iterable[Document], order: int, vocab: int) -> NGram:
        """Count the n-grams of documents, given as ids below ``vocab``, up to the length ``order``."""
        if order < 1:
            raise MasqueradeError(f"There are no n-grams of order {order}; the shortest are single tokens, of order 1.")
        words, depth = _line_up(documents, vocab)
        if not len(words):
            raise MasqueradeError("There is no text to count n-grams in; give at least one document with a token.")
        levels: list[Level] = []
        keys, number = np.arange(vocab + 1), words  # the n-grams of this level; of each place, which one ends there
        contexts = 1  # single words have but the empty one
        while True:
            length = len(levels) + 1
            counts = np.bincount(number[depth >= length - 1], minlength=len(keys))
            longer = np.flatnonzero(depth >= length)
            last = length == order or not len(longer)
            if not last:  # count what comes before instead; but nothing comes before the start of a document
                pairs = number[longer - 1] * (vocab + 1) + words[longer]
                next_keys, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
                before = np.bincount(number[longer[first]], minlength=len(keys))
                opening = number[depth == length - 1]
                before[opening] = counts[opening]
                counts = before
            if length == 1:
                counts[vocab] = 0  # the start is never predicted
            levels.append(_level(keys, counts, keys // (vocab + 1), contexts))
            if last:
                return NGram(vocab, tuple(levels))
            contexts, keys, number = len(keys), next_keys, np.full(len(words), -1)
            number[longer] = inverse

    def log_probability(self, ids: Document) -> Floats:
        """The natural logarithm of each token's probability behind those before it: (n,) → (n,)"""
        if not len(ids):
            return np.zeros(0)
        words, _ = _line_up([ids], self.vocab)
        likely: Floats = np.full(len(words), 1 / self.vocab)
        context = np.zeros(len(words), dtype=np.int64)  # of each place, the n-gram just before it; −1: not known
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
    """What is taken from n-grams that were seen once, twice and more often, as the numbers of such n-grams tell. Where
    they cannot tell, or tell to take nothing or more than there is, the usual discounts are taken."""
    once, twice, thrice, more = (int((counts == times).sum()) for times in (1, 2, 3, 4))
    if not once or not twice or not thrice:
        return USUAL
    rate = once / (once + 2 * twice)
    found = np.array([1 - 2 * rate * twice / once, 2 - 3 * rate * thrice / twice, 3 - 4 * rate * more / thrice])
    return found if bool(((found > 0) & (found <= (1, 2, 3))).all()) else USUAL


def _line_up(documents: Iterable[Document], vocab: int) -> tuple[Ints, Ints]:
    """All documents behind one another, each behind a start whose id is ``vocab``; and how far each token stands from
    its start. Documents without a token are left out."""
    start, parts, depths = np.array([vocab]), [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for document in documents:
        ids = np.asarray(document, dtype=np.int64)
        if not len(ids):
            continue
        if ids.min() < 0 or ids.max() >= vocab:
            wrong = ids.max() if ids.max() >= vocab else ids.min()
            raise MasqueradeError(f"There is no token {wrong} in a vocabulary of {vocab}; do text and vocabulary fit?")
        parts += [start, ids]
        depths.append(np.arange(len(ids) + 1))
    return np.concatenate(parts), np.concatenate(depths)
