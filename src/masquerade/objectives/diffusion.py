"""Masked diffusion, block by block and for whole texts: any share of the tokens is masked and predicted."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from masquerade.data.corpus import Pieces
from masquerade.data.examples import Example, PerExample, PerToken
from masquerade.data.packing import Batch
from masquerade.data.rng import Rng
from masquerade.errors import LayoutError
from masquerade.layout import IGNORE, Layout
from masquerade.masks import bidirectional, blocks
from masquerade.nn.model import Model
from masquerade.objectives.base import Objective, until_end
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
class Diffusion(Objective):
    """Of the n tokens of a block m are masked, m drawn evenly from 1 to n, and predicted with the weight n/m.

    That makes the loss a bound on the likelihood of the text, as drawing a rate t and masking each token with
    probability t does (weight 1/t). But here the weights of a block always sum to n, so they have no outliers and need
    no normalisation. The numbers are spread evenly over the blocks of a piece and over successive pieces. The [SEP] at
    the end of a document is predicted as well. ``rates`` narrows the range of m/n; the bound is then inexact.
    """

    vocabulary: Vocabulary
    rates: Rates = (0.0, 1.0)

    @abstractmethod
    def noisy(self, ids: Sequence[int], rng: Rng, draw: float) -> Example:
        """The example of a piece; ``draw``, from 0 to 1, gives the number of masks in one of its blocks."""

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        return self.noisy(ids, rng, rng.random())

    def enclosed(self, pieces: Pieces, number: int) -> list[int]:
        return until_end(super().enclosed(pieces, number), self.vocabulary, pieces.closes(number))

    def example(self, pieces: Pieces, number: int, rng: Rng, draw: float) -> Example:
        return self.noisy(self.enclosed(pieces, number), rng, draw)

    def terms(self) -> dict[str, Term]:
        return {"tokens": DiffusionTerm()}

    def _masked(self, ids: Sequence[int], size: int, rng: Rng, draw: float) -> tuple[list[int], Tensor, int]:
        """The ids with masks, the weight of each token (n,), and the number of tokens that could be masked."""
        maskable = self.vocabulary.maskable(ids)
        if ids and ids[-1] == self.vocabulary.sep:
            maskable.append(len(ids) - 1)
        noisy, weight, lowest, highest = list(ids), torch.ones(len(ids)), *self.rates
        members = [list(group) for _, group in groupby(maskable, key=lambda index: index // size)]
        draws = (draw + rng.permutation(len(members)) / max(1, len(members))) % 1
        for group, own in zip(members, draws.tolist(), strict=True):
            most = max(1, math.floor(highest * len(group)))
            least = min(most, math.floor(lowest * len(group)) + 1)
            count = least + int(own * (most - least + 1))
            weight[group] = len(group) / count
            for index in rng.permutation(group)[:count].tolist():
                noisy[index] = self.vocabulary.mask
        return noisy, weight, len(maskable)


@dataclass(frozen=True)
class MaskedDiffusion(Diffusion):
    """Masked diffusion over a whole piece: its masked tokens are predicted from the others."""

    def noisy(self, ids: Sequence[int], rng: Rng, draw: float) -> Example:
        shown, weight, count = self._masked(ids, max(1, len(ids)), rng, draw)
        label = [IGNORE if number == now else number for number, now in zip(ids, shown, strict=True)]
        return _example(bidirectional(shown).replace(label=label), weight, count)


@dataclass(frozen=True)
class BlockDiffusion(Diffusion):
    """Blocks of ``size`` tokens, written one after another, each by masked diffusion: size 1 is GPT. Without a size
    each piece draws one from 1 to its length, for a network that can decode with any size."""

    size: int | None = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size is not None and self.size < 1:
            raise LayoutError(f"'size' is {self.size}, but the smallest block is one token.")

    def noisy(self, ids: Sequence[int], rng: Rng, draw: float) -> Example:
        size = 1 + int(rng.integers(max(1, len(ids)))) if self.size is None else self.size
        noisy, weight, count = self._masked(ids, size, rng, draw)
        return _example(blocks(ids, size, noisy=noisy), weight.repeat(2), count)


def _example(layout: Layout, weight: Tensor, count: int) -> Example:
    """An example whose labels have weights, (n,), and whose loss is divided by ``count``."""
    return Example(layout, extra={"weight": PerToken(weight, fill=1), "token_count": PerExample(count)})
