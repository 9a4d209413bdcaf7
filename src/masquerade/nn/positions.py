"""Position schemes, of four types. A Spec may name several:

- absolute: a vector added to the token embedding (learned, inner, sinusoidal, halves);
- rotary: queries and keys are rotated by their position;
- bias: a number for each head and distance that is added to scores, the same in all layers (buckets, alibi);
- relation: a score of query and distance, inside the attention of every layer (``relations``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.errors import LayoutError
from masquerade.layout import Layout
from masquerade.nn.spec import Spec


def sinusoids(positions: Tensor, width: int, halves: bool = False) -> Tensor:
    """Sines and cosines of falling frequency, interleaved or as two halves: positions (…,) → (…, width)."""
    frequency = torch.exp(torch.arange(0, width, 2, device=positions.device) * (-math.log(10000.0) / width))
    angle = positions.unsqueeze(-1).float() * frequency
    if halves:
        return torch.cat([angle.sin(), angle.cos()], dim=-1)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class Learned(nn.Module):
    """A learned table of positions (BERT). RoBERTa, MPNet and BART begin at a later row of it."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.table = nn.Embedding(spec.longest, spec.sum_width)
        self.offset = spec.position_offset

    def forward(self, layout: Layout) -> Tensor:
        """A layout of (rows, n) → (rows, n, embedding)"""
        return self.look_up(layout.position)

    def look_up(self, position: Tensor) -> Tensor:
        """The vectors of positions: (rows, n) → (rows, n, embedding)"""
        row, limit = position + self.offset, self.table.num_embeddings
        if row.numel() and not 0 <= int(row.min()) <= int(row.max()) < limit:
            reached = int(row.max() if row.max() >= limit else row.min()) - self.offset
            raise LayoutError(
                f"The input reaches position {reached}, but this model has learned positions 0 to "
                f"{limit - self.offset - 1}; cut the text into shorter windows."
            )
        out: Tensor = self.table(row)
        return out


class Inner(Learned):
    """GLM's second dimension: a learned table of the positions inside a blank, 0 outside of one."""

    def forward(self, layout: Layout) -> Tensor:
        """A layout of (rows, n) → (rows, n, embedding)"""
        return self.look_up(layout.inner)


class Sinusoidal(nn.Module):
    """Fixed sines and cosines for any length, interleaved or as two halves (PEGASUS)."""

    def __init__(self, spec: Spec, halves: bool = False) -> None:
        super().__init__()
        self.width, self.halves = spec.sum_width, halves

    def forward(self, layout: Layout) -> Tensor:
        """A layout of (rows, n) → (rows, n, embedding)"""
        return sinusoids(layout.position, self.width, self.halves)


ABSOLUTE: dict[str, Callable[[Spec], nn.Module]] = {
    "learned": Learned,
    "inner": Inner,
    "sinusoidal": Sinusoidal,
    "halves": lambda spec: Sinusoidal(spec, halves=True),
}


class Rotation:
    """Rotary positions: each pair of numbers of a query or key is rotated by an angle that grows with its position,
    so that the product of a query and a key depends on their distance alone."""

    def __init__(self, position: Tensor, width: int, dtype: torch.dtype) -> None:
        waves = sinusoids(position, width).to(dtype).unsqueeze(1)  # (rows, 1, n, d)
        self.sine, self.cosine = waves[..., 0::2], waves[..., 1::2]

    def __call__(self, x: Tensor) -> Tensor:
        """(rows, heads, n, d) → the same shape"""
        even, odd = x[..., 0::2], x[..., 1::2]
        rotated = [even * self.cosine - odd * self.sine, odd * self.cosine + even * self.sine]
        return torch.stack(rotated, dim=-1).flatten(-2)


class Buckets(nn.Module):
    """T5's and MPNet's relative positions: a learned number for each head and bucket of distances. Near distances have
    a bucket each, farther ones share buckets that widen logarithmically up to ``max_distance``. With a causal mask all
    buckets are for keys before the query."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.table = nn.Embedding(spec.buckets, spec.heads)
        self.max_distance, self.both_ways = spec.max_distance, spec.mask != "causal"

    def forward(self, distance: Tensor) -> Tensor:
        """Key position minus query position, (rows, q, k) → the bias of each head, (rows, heads, q, k)."""
        count = self.table.num_embeddings // 2 if self.both_ways else self.table.num_embeddings
        exact = count // 2
        far = distance.abs() if self.both_ways else (-distance).clamp(min=0)
        ratio = (far.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        wide = (exact + (ratio * (count - exact)).long()).clamp(max=count - 1)
        bucket = torch.where(far < exact, far, wide)
        if self.both_ways:
            bucket = bucket + (distance > 0) * count
        return F.embedding(bucket, self.table.weight).permute(0, 3, 1, 2)


class Alibi(nn.Module):
    """ALiBi's relative positions: each head subtracts its own fixed multiple of the distance from its scores, so that
    it attends to near tokens from the first step of training on. Tokens on both sides are treated alike."""

    slopes: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(slopes(spec.heads)), persistent=False)

    def forward(self, distance: Tensor) -> Tensor:
        """Key position minus query position, (rows, q, k) → the bias of each head, (rows, heads, q, k)."""
        return -self.slopes[:, None, None] * distance.abs().unsqueeze(1)


def slopes(heads: int) -> list[float]:
    """ALiBi's slopes: the geometric sequence from 2^(−8/heads) to 2^−8 if the number of heads is a power of two. For
    another number, that of the next lower power, then every other one of the next higher power, as published."""
    power = 1 << (heads.bit_length() - 1)
    regular = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    return regular if heads == power else regular + slopes(2 * power)[::2][: heads - power]
