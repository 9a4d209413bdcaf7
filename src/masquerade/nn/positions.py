"""Position schemes. Each is one part that says where tokens stand in one of three ways, and a Spec may name several:

- absolute: a vector added to the token embedding (learned, sinusoidal);
- bias: a number that a head adds to the score of a pair, the same in all layers (buckets);
- relation: what a query asks of a distance, inside the attention of every layer (NEZHA).
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


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sines and cosines of falling frequency, in turn: (…,) → (…, width)."""
    frequency = torch.exp(torch.arange(0, width, 2, device=positions.device) * (-math.log(10000.0) / width))
    angle = positions.unsqueeze(-1).float() * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class Learned(nn.Module):
    """A table of positions (BERT). RoBERTa and MPNet begin some rows further down in it."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.table = nn.Embedding(spec.longest, spec.sum_width)
        self.offset = spec.position_offset

    def forward(self, layout: Layout) -> Tensor:
        """A layout of (rows, n) → (rows, n, embedding)"""
        row, limit = layout.position + self.offset, self.table.num_embeddings
        if row.numel() and not 0 <= int(row.min()) <= int(row.max()) < limit:
            reached = int(row.max() if row.max() >= limit else row.min()) - self.offset
            raise LayoutError(
                f"The input reaches position {reached}, but this model has learned positions 0 to "
                f"{limit - self.offset - 1}; cut the text into shorter windows."
            )
        out: Tensor = self.table(row)
        return out


class Sinusoidal(nn.Module):
    """Fixed sines and cosines, for any length."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.width = spec.sum_width

    def forward(self, layout: Layout) -> Tensor:
        """A layout of (rows, n) → (rows, n, embedding)"""
        return sinusoids(layout.position, self.width)


class Buckets(nn.Module):
    """MPNet's relative positions: one learned number a head for each bucket of distance; near distances have their
    own bucket, farther ones share buckets that widen logarithmically, up to ``max_distance``."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.table = nn.Embedding(spec.buckets, spec.heads)
        self.max_distance = spec.max_distance

    def forward(self, distance: Tensor) -> Tensor:
        """Key position minus query position, (rows, q, k) → the bias of each head, (rows, heads, q, k)."""
        half = self.table.num_embeddings // 2
        exact = half // 2
        far = distance.abs()
        ratio = (far.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        wide = (exact + (ratio * (half - exact)).long()).clamp(max=half - 1)
        bucket = torch.where(far < exact, far, wide) + (distance > 0) * half
        return F.embedding(bucket, self.table.weight).permute(0, 3, 1, 2)


class Nezha(nn.Module):
    """NEZHA's relative positions: a fixed sinusoidal vector for each distance up to ``max_distance``, asked by the
    query like a key and carried home like a value."""

    table: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.limit = spec.max_distance
        distances = torch.arange(2 * self.limit + 1)
        self.register_buffer("table", sinusoids(distances, spec.head_width), persistent=False)

    def scores(self, query: Tensor, distance: Tensor) -> Tensor:
        """(rows, heads, q, d) and (rows, q, k) → what a query asks of each key's distance, (rows, heads, q, k). It is
        asked once about every distance there is, not once about every key."""
        asked = query @ self.table.T
        return asked.gather(-1, self._index(distance).expand(-1, query.shape[1], -1, -1))

    def values(self, weights: Tensor, distance: Tensor) -> Tensor:
        """Attention weights (rows, heads, q, k) → the mean distance vector, (rows, heads, q, d): the weights are
        gathered by distance first, so no vector a pair is ever made."""
        by_distance = weights.new_zeros(*weights.shape[:-1], self.table.shape[0])
        by_distance = by_distance.scatter_add(-1, self._index(distance).expand_as(weights), weights)
        return by_distance @ self.table

    def _index(self, distance: Tensor) -> Tensor:
        return (distance.clamp(-self.limit, self.limit) + self.limit).unsqueeze(1)


ABSOLUTE: dict[str, Callable[[Spec], nn.Module]] = {"learned": Learned, "sinusoidal": Sinusoidal}
