"""Masked diffusion: any share of the tokens is masked, from none to all; and the same block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.errors import LayoutError
from masquerade.layout import IGNORE
from masquerade.masks import bidirectional, blocks
from masquerade.text.vocabulary import Vocabulary

Rates = tuple[float, float]


@dataclass(frozen=True)
class MaskedDiffusion:
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
        return Example(
            bidirectional(shown).replace(label=label),
            weight=float(1 / rate[0]),
            count=len(self.vocabulary.maskable(ids)),
        )


@dataclass(frozen=True)
class BlockDiffusion:
    """Blocks of ``size`` tokens, written one after another, each by masked diffusion at a rate of its own: size 1 is
    GPT, a size of the whole piece is ``MaskedDiffusion``. Without a size each piece draws its own, from 1 to its
    length: one network for all of them.

    Labels count 1/t of their block: ``Example.weight`` has one entry a token.
    """

    vocabulary: Vocabulary
    size: int | None = 4
    rates: Rates = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise LayoutError(f"Blocks of {self.size} tokens do not exist; the smallest block is one token.")

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        size = 1 + int(rng.integers(max(1, len(ids)))) if self.size is None else self.size
        block = np.arange(len(ids)) // size
        rate = _rates(1 + len(ids) // size, self.rates, rng)[block]
        masked = _masked(ids, rate, self.vocabulary, rng)
        noisy = [self.vocabulary.mask if hidden else number for number, hidden in zip(ids, masked, strict=True)]
        weight = torch.from_numpy(1 / rate).float().repeat(2)
        return Example(blocks(ids, size, noisy=noisy), weight=weight, count=len(self.vocabulary.maskable(ids)))


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
