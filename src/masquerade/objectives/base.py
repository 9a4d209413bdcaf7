"""What every objective works with: the vocabulary it may draw from, its chance, and the example it makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from masquerade.layout import Layout
from masquerade.text.tokenizer import Tokenizer

Rng = np.random.Generator
ABSENT = -1


@dataclass(frozen=True)
class Terms:
    """The vocabulary as objectives see it: the ids that mean something to them."""

    vocab: int  # how many tokens there are
    mask: int  # these three are ABSENT where a vocabulary has no such token; objectives that need them ask for them
    cls: int
    sep: int
    specials: frozenset[int]  # tokens that are never masked and never drawn
    continues: frozenset[int] = frozenset()  # tokens that continue a word (##pieces)

    @staticmethod
    def of(tokenizer: Tokenizer) -> Terms:
        """The terms of a tokenizer."""
        tokens = tokenizer.tokens(range(len(tokenizer)))
        return Terms(
            vocab=len(tokenizer),
            mask=tokenizer.specials.get("mask", ABSENT),
            cls=tokenizer.specials.get("cls", ABSENT),
            sep=tokenizer.specials.get("sep", ABSENT),
            specials=frozenset(tokenizer.specials.values()),
            continues=frozenset(number for number, token in enumerate(tokens) if token.startswith("##")),
        )

    def whole(self, ids: Sequence[int]) -> list[int]:
        """A piece of text between the tokens that open and close it, as far as there are any."""
        return [number for number in (self.cls, *ids, self.sep) if number != ABSENT]

    def maskable(self, ids: Sequence[int]) -> list[int]:
        """The indices of tokens that may be masked: all but the special ones."""
        return [index for index, number in enumerate(ids) if number not in self.specials]

    def words(self, ids: Sequence[int]) -> list[list[int]]:
        """The indices of each whole word: a token and the pieces that continue it; special tokens are in none."""
        found: list[list[int]] = []
        last = -1
        for index in self.maskable(ids):
            if ids[index] in self.continues and last == index - 1 and found:
                found[-1].append(index)
            else:
                found.append([index])
            last = index
        return found

    def draw(self, rng: Rng) -> int:
        """Any token but a special one."""
        while True:
            number = int(rng.integers(self.vocab))
            if number not in self.specials:
                return number


@dataclass(frozen=True)
class Example:
    """What a network is to read and predict. Labels of words are in the layout; an encoder–decoder also has a source;
    some objectives predict more than words."""

    layout: Layout  # an encoder–decoder's target
    source: Layout | None = None
    verdict: int | float | None = None  # what is said of the whole: 1 of a pair that does not belong together, a class
    spans: Tensor | None = None  # (m, 3): for each labelled word of a span, the tokens left and right of it, its place
    answers: Tensor | None = None  # (branches, 2): the span of the trunk, start and length, that answers each branch
    weight: float | Tensor = 1.0  # what the loss of its labels counts: one number, or one a token, (n,)
    count: int | None = None  # what the loss is divided by; None: the number of labels


class Objective(Protocol):
    """Makes an example of a piece's ids. The same ids and the same state of chance give the same example."""

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example: ...


def chance(seed: int, *places: int) -> Rng:
    """The chance for one place (epoch, row …) of a run: the same whoever asks, in whatever order or process."""
    return np.random.default_rng([seed, *places])


def choose(candidates: Iterable[int], count: int, rng: Rng) -> list[int]:
    """That many of the candidates, without order."""
    options = list(candidates)
    return sorted(int(index) for index in rng.permutation(options)[:count]) if options else []
