"""Permutation language models: words are predicted in any order, each from those before it (XLNet), and from the
positions of all the others as well (MPNet)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.masks import compensated, two_stream
from masquerade.objectives.base import Objective
from masquerade.objectives.masked import Units, corrupt, pick
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class PermutedTokens(Objective):
    """XLNet: a random order of the tokens, of which the last 1/``parts`` are predicted: those know enough of the others
    to be worth predicting. Nothing is masked, so nothing is missing when the network is used.

    Special tokens come first in the order: they are known to all and never predicted.
    """

    vocabulary: Vocabulary
    parts: int = 6  # the paper's K

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        maskable = self.vocabulary.maskable(ids)
        order = _order(ids, rng.permutation(maskable).tolist() if maskable else [])
        predict = min(len(maskable), max(1, round(len(maskable) / self.parts)))
        return Example(two_stream(ids, order, mask=self.vocabulary.mask, predict=predict))


@dataclass(frozen=True)
class MaskedPermutedTokens(Objective):
    """MPNet: as many tokens as BERT masks are predicted in a random order, each knowing those before it. A mask stands
    for every word not yet known, so that all rows know how long the sentence is, as they will when it is used.

    With ``noisy``, as in the published training, those masks and the queries themselves are BERT's: eight of ten are
    [MASK], one is any word, one is the word itself. That last one is then known to its query, and to those asked
    before it, by intention. ``units`` as in ``MaskedTokens``; MPNet predicts whole words (``vocabulary.words``).
    """

    vocabulary: Vocabulary
    rate: float = 0.15
    units: Units | None = None
    noisy: bool = False

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        maskable = self.vocabulary.maskable(ids)
        units = [[index] for index in maskable] if self.units is None else self.units(ids)
        picked = pick(units, max(1, round(self.rate * len(maskable))), rng) if self.rate > 0 else []
        chosen = rng.permutation(picked).tolist() if picked else []
        layout = compensated(ids, _order(ids, chosen), known=len(ids) - len(chosen), mask=self.vocabulary.mask)
        if self.noisy:
            shown, _ = corrupt(ids, chosen, self.vocabulary, rng)
            masks = torch.tensor([shown[index] for index in chosen] * 2, dtype=torch.long)
            layout = layout.replace(ids=torch.cat([layout.ids[: len(ids)], masks]))
        return Example(layout)


def _order(ids: Sequence[int], last: list[int]) -> list[int]:
    """An order of all the tokens: those not named first, as they stand, then the last ones, as they are given."""
    late = set(last)
    return [index for index in range(len(ids)) if index not in late] + last
