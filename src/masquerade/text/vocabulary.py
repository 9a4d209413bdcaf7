"""A vocabulary as training objectives need it: its size and its special tokens, as ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.text.tokenizer import Tokenizer

SENTINEL = re.compile(r"(?:<extra_id_|\[unused)(\d+)[>\]]")  # T5's, or BERT's unused tokens
ABSENT = -1  # the id of a special token that a vocabulary does not have


@dataclass(frozen=True)
class Vocabulary:
    """The ids of a vocabulary that mean something to an objective."""

    size: int  # the number of tokens
    mask: int  # this, cls and sep are ABSENT where the vocabulary has no such token
    cls: int
    sep: int
    specials: frozenset[int]  # tokens that are never masked and never drawn
    continues: frozenset[int] = frozenset()  # tokens that continue a word (##pieces)
    sentinels: tuple[int, ...] = ()  # reserved tokens, in the order of their numbers; special tokens too

    @staticmethod
    def of(tokenizer: Tokenizer) -> Vocabulary:
        """The vocabulary of a tokenizer."""
        tokens = tokenizer.tokens(range(len(tokenizer)))
        matches = [(SENTINEL.fullmatch(token), number) for number, token in enumerate(tokens)]
        sentinels = tuple(number for _, number in sorted((int(found[1]), number) for found, number in matches if found))
        return Vocabulary(
            size=len(tokenizer),
            mask=tokenizer.specials.get("mask", ABSENT),
            cls=tokenizer.specials.get("cls", ABSENT),
            sep=tokenizer.specials.get("sep", ABSENT),
            specials=frozenset([*tokenizer.specials.values(), *sentinels]),
            sentinels=sentinels,
            continues=frozenset(number for number, token in enumerate(tokens) if token.startswith("##")),
        )

    def enclosed(self, ids: Sequence[int]) -> list[int]:
        """The ids between [CLS] and [SEP], as far as the vocabulary has them."""
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

    def draw(self, rng: np.random.Generator) -> int:
        """A random token, never a special one."""
        while True:
            number = int(rng.integers(self.size))
            if number not in self.specials:
                return number
