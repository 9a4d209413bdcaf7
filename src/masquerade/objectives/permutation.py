"""Permutation language models: tokens are predicted in a random order, each from those before it (XLNet), and from the
positions of all the others as well (MPNet)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.data.streams import Segment
from masquerade.errors import MasqueradeError
from masquerade.masks import compensated, two_stream
from masquerade.objectives.base import Objective
from masquerade.objectives.masked import Units, corrupt, pick
from masquerade.objectives.span import place
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class PermutedTokens(Objective):
    """XLNet: 1/``parts`` of the tokens are predicted in a random order, each from the tokens that are not predicted and
    from those predicted before it. No token is replaced by a mask.

    As in the released code, spans of one to ``longest`` tokens are predicted, a span of n tokens with a probability
    proportional to 1/n, and (``context`` "visible", the default) all other tokens see each other, as they do when the
    network is used. With ``context`` "permuted", as in the paper, all tokens are in one random order, and each sees
    only those before it.
    """

    vocabulary: Vocabulary
    parts: int = 6  # the paper's K
    longest: int = 5
    context: str = "visible"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.context not in ("visible", "permuted"):
            raise MasqueradeError(f"'context' is '{self.context}', but it has to be visible or permuted.")

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        maskable = self.vocabulary.maskable(ids)
        predicted = self._spans(maskable, min(len(maskable), max(1, round(len(maskable) / self.parts))), len(ids), rng)
        inside = set(predicted)
        others = rng.permutation([index for index in maskable if index not in inside]).tolist()
        targets = rng.permutation(predicted).tolist()
        order = _order(ids, [*map(int, others), *map(int, targets)])
        layout = two_stream(ids, order, mask=self.vocabulary.mask, predict=len(targets))
        if self.context == "visible":
            known = len(ids) - len(targets) - 1  # ranks up to this one become 0
            changed = {name: (getattr(layout, name) - known).clamp(min=0) for name in ("rank", "horizon")}
            layout = layout.replace(**changed)
        return Example(layout)

    def segment(self, segment: Segment, rng: Rng) -> Example:
        return self(segment.ids, rng)

    def _spans(self, maskable: list[int], count: int, n: int, rng: Rng) -> list[int]:
        """``count`` tokens to predict, in spans that do not touch while there is room for that."""
        weights = [1 / length for length in range(1, self.longest + 1)]
        taken, chosen = [False] * n, list[int]()
        while len(chosen) < count:
            length = 1 + int(rng.choice(len(weights), p=[weight / sum(weights) for weight in weights]))
            length = min(length, count - len(chosen))
            span = [unit[0] for unit in place([[index] for index in maskable], length, taken, rng)]
            if not span:
                free = [index for index in maskable if not taken[index]]
                span = [int(index) for index in rng.permutation(free)[: count - len(chosen)]]
            for index in span:
                taken[index] = True
            chosen += span
        return sorted(chosen)


@dataclass(frozen=True)
class MaskedPermutedTokens(Objective):
    """MPNet: as many tokens as BERT masks are predicted in a random order, each from those before it. A mask stands for
    every token not yet known, so all rows see how long the text is, as they do when the network is used.

    With ``noisy``, as in the published training, these masks and the queries are BERT's: 80 % [MASK], 10 % a random
    token, 10 % the token itself, which its query then sees by intention. ``units`` as in ``MaskedTokens``; the recipes'
    objective "mpnet" predicts whole words, as MPNet does.
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
    """An order of all tokens: first those not in ``last``, in reading order, then ``last``."""
    late = set(last)
    return [index for index in range(len(ids)) if index not in late] + last
