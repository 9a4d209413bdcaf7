"""Masked diffusion: any share of the tokens is masked, from none to all; and the same block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from masquerade.data.examples import Example, PerExample, PerToken
from masquerade.data.packing import Batch
from masquerade.data.rng import Rng
from masquerade.errors import LayoutError
from masquerade.layout import IGNORE, Layout
from masquerade.masks import bidirectional, blocks
from masquerade.nn.model import Model
from masquerade.objectives.base import Objective
from masquerade.objectives.loss import StatesAt, Term, TokenTerm
from masquerade.text.vocabulary import Vocabulary

Rates = tuple[float, float]


@dataclass(frozen=True)
class DiffusionTerm(TokenTerm):
    """Cross-entropy of the masked tokens, weighted by ``weight`` and divided by the number of tokens, masked or not."""

    def count(self, example: Example) -> int:
        return int(example.extra["token_count"].tensor.sum())

    def sum(self, model: Model, states: StatesAt, batch: Batch) -> Tensor:
        return (self.losses(model, states, batch) * batch.extra["weight"][batch.layout.label != IGNORE]).sum()


@dataclass(frozen=True)
class MaskedDiffusion(Objective):
    """A rate t is drawn from (0, 1], each token is masked with that chance and predicted from the others.

    Labels count 1/t, which makes the summed loss a bound on the likelihood of the text: it has to be divided by the
    number of tokens, not of labels. Where chance masks nothing there is no label; masking one anyway would bend the
    bound. ``rates`` narrows the range of t, (lowest, highest], which makes training steadier and the bound inexact.
    """

    vocabulary: Vocabulary
    rates: Rates = (0.0, 1.0)

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        rate = _rates(1, self.rates, rng)
        masked = _masked(ids, rate, self.vocabulary, rng)
        shown = [self.vocabulary.mask if hidden else number for number, hidden in zip(ids, masked, strict=True)]
        label = [number if hidden else IGNORE for number, hidden in zip(ids, masked, strict=True)]
        layout = bidirectional(shown).replace(label=label)
        return _example(layout, torch.full((len(ids),), 1 / rate[0]), len(self.vocabulary.maskable(ids)))

    def terms(self) -> dict[str, Term]:
        return {"tokens": DiffusionTerm()}


@dataclass(frozen=True)
class BlockDiffusion(Objective):
    """Blocks of ``size`` tokens, written one after another, each by masked diffusion at a rate of its own: size 1 is
    GPT, a size of the whole piece is ``MaskedDiffusion``. Without a size each piece draws its own, from 1 to its
    length: one network for all of them.

    A label has the weight 1/t of its block.
    """

    vocabulary: Vocabulary
    size: int | None = 4
    rates: Rates = (0.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size is not None and self.size < 1:
            raise LayoutError(f"Blocks of {self.size} tokens do not exist; the smallest block is one token.")

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        size = 1 + int(rng.integers(max(1, len(ids)))) if self.size is None else self.size
        block = np.arange(len(ids)) // size
        rate = _rates(1 + len(ids) // size, self.rates, rng)[block]
        masked = _masked(ids, rate, self.vocabulary, rng)
        noisy = [self.vocabulary.mask if hidden else number for number, hidden in zip(ids, masked, strict=True)]
        weight = torch.from_numpy(1 / rate).float().repeat(2)
        return _example(blocks(ids, size, noisy=noisy), weight, len(self.vocabulary.maskable(ids)))

    def terms(self) -> dict[str, Term]:
        return {"tokens": DiffusionTerm()}


def _example(layout: Layout, weight: Tensor, count: int) -> Example:
    """An example whose labels have weights, (n,), and whose loss is divided by ``count``."""
    return Example(layout, extra={"weight": PerToken(weight, fill=1), "token_count": PerExample(count)})


def _rates(count: int, between: Rates, rng: Rng) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """That many rates, none of them the lowest."""
    lowest, highest = between
    return highest - (highest - lowest) * rng.random(count)


def _masked(
    ids: Sequence[int], rate: np.ndarray[tuple[int], np.dtype[np.float64]], vocabulary: Vocabulary, rng: Rng
) -> list[bool]:
    """Which tokens are masked: each with the chance of its rate, special ones never. (n,)"""
    ordinary = np.array([number not in vocabulary.specials for number in ids], dtype=bool)
    return [bool(hidden) for hidden in ordinary & (rng.random(len(ids)) < rate)]
