"""BERT's masked tokens, chosen one by one or in units: whole words, entities, n-grams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.layout import IGNORE
from masquerade.masks import bidirectional
from masquerade.objectives.base import Objective
from masquerade.text.vocabulary import Vocabulary

Units = Callable[[Sequence[int]], list[list[int]]]  # groups of indices that are masked together


def corrupt(ids: Sequence[int], chosen: Sequence[int], vocabulary: Vocabulary, rng: Rng) -> tuple[list[int], list[int]]:
    """The ids with BERT's noise at the chosen indices (80 % [MASK], 10 % random, 10 % unchanged), and the labels."""
    shown, label = list(ids), [IGNORE] * len(ids)
    for index in chosen:
        label[index] = ids[index]
        draw = rng.random()
        if draw < 0.8:
            shown[index] = vocabulary.mask
        elif draw < 0.9:
            shown[index] = vocabulary.draw(rng)
    return shown, label


def pick(units: list[list[int]], budget: int, rng: Rng) -> list[int]:
    """The indices of random whole units with at most ``budget`` tokens; of at least one unit if there is any."""
    chosen: list[int] = []
    for number in rng.permutation(len(units)):
        unit = units[number]
        if not chosen or len(chosen) + len(unit) <= budget:
            chosen += unit
        if len(chosen) >= budget:
            break
    return sorted(chosen)


@dataclass(frozen=True)
class MaskedTokens(Objective):
    """Masks a share of the tokens and predicts them from all others.

    ``units`` groups the tokens that are masked together: single tokens if not given, whole words with
    ``vocabulary.words``, or another grouping (entities, words of a Chinese segmenter).
    """

    vocabulary: Vocabulary
    rate: float = 0.15
    units: Units | None = None

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        units = [[index] for index in self.vocabulary.maskable(ids)] if self.units is None else self.units(ids)
        budget = max(1, round(self.rate * len(self.vocabulary.maskable(ids))))
        shown, label = corrupt(ids, pick(units, budget, rng), self.vocabulary, rng)
        return Example(bidirectional(shown).replace(label=label))
