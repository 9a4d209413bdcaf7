"""Relative positions inside attention: schemes that score every pair of a query and a key by their distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from masquerade.nn.disentangled import Disentangled, RelativeTable, diagonals
from masquerade.nn.positions import Rotation, sinusoids
from masquerade.nn.runs import RowOfRuns
from masquerade.nn.spec import Spec

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


@dataclass(frozen=True)
class View:
    """The attention mask and relative positions of one pass, computed once and shared by all layers."""

    bias: Tensor | None  # (rows or 1, heads or 1, q, k), added to the scores; None where every query sees every key
    blind: Tensor | None = None  # bool (rows, 1, q, 1), the queries that see no key; None if there are none
    distance: Tensor | None = None  # (rows or 1, q, k), key position minus query position, if a scheme needs it
    consecutive: bool = False  # whether the queries are the last keys, and distances those of their places in the row
    relative: tuple[Tensor | None, Tensor] | None = None  # DeBERTa: each pair's row (rows or 1, 1, q, k) of a table
    # (positions, width); where tokens are consecutive, no rows, but the table has a row a distance, in falling order
    differs: Tensor | None = None  # bool (rows, q, k), whether the segments differ, if a scheme needs it
    rotation: Rotation | None = None  # of this pass's queries and keys, with rotary positions
    blocks: BlockMask | None = None  # the mask for FlexAttention, instead of bias and blind
    runs: tuple[Sequence[RowOfRuns], RelativeTable] | None = None  # DeBERTa on a CPU, instead of bias

    @cached_property
    def extremes(self) -> tuple[int, int]:
        """The least and the greatest distance."""
        if self.distance is None or not self.distance.numel():
            return 0, 0
        return int(self.distance.min()), int(self.distance.max())

    def of_pairs(self, scores: Tensor) -> Tensor:
        """The score of each pair, out of queries' scores of all distances from the least to the greatest:
        (rows, heads, q, distances) → (rows, heads, q, k)"""
        if self.consecutive:
            return diagonals(scores)
        if self.distance is None:
            raise TypeError("a view for relative positions carries distances")
        index = (self.distance - self.extremes[0]).unsqueeze(1)
        return scores.gather(-1, index.expand(*scores.shape[:2], -1, -1))


class Nezha(nn.Module):
    """NEZHA's relative positions: a fixed sinusoidal vector for each distance up to ``max_distance``, which is added
    to the key and to the value."""

    table: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.limit = spec.max_distance
        distances = torch.arange(2 * self.limit + 1)
        self.register_buffer("table", sinusoids(distances, spec.head_width), persistent=False)

    def scores(self, query: Tensor, view: View) -> Tensor:
        """The scores of distances: queries (rows, heads, q, d) → (rows, heads, q, k). They are computed once for each
        distance and gathered for each key."""
        by_distance = query @ self.table.T
        return by_distance.gather(-1, self._index(view).expand(*query.shape[:2], -1, -1))

    def values(self, weights: Tensor, view: View) -> Tensor:
        """The weighted mean of the distance vectors: attention weights (rows, heads, q, k) → (rows, heads, q, d). The
        weights are summed by distance first, so that no vector is made for each pair."""
        by_distance = weights.new_zeros(*weights.shape[:-1], self.table.shape[0])
        return by_distance.scatter_add(-1, self._index(view).expand_as(weights), weights) @ self.table

    def _index(self, view: View) -> Tensor:
        if view.distance is None:
            raise TypeError("a view for NEZHA carries distances")
        return (view.distance.clamp(-self.limit, self.limit) + self.limit).unsqueeze(1)


class TransformerXL(nn.Module):
    """Transformer-XL's relative positions: the query is scored against a learned map of the distance's sinusoids, with
    one bias for content and one for positions. XLNet also scores whether the key is of the same segment."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        shape = (spec.heads, spec.head_width)
        self.net = nn.Linear(spec.width, spec.heads * spec.head_width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(shape))
        self.position_bias = nn.Parameter(torch.zeros(shape))
        self.segment_bias = nn.Parameter(torch.zeros(shape)) if spec.segment_relation else None
        self.segments = nn.Parameter(torch.zeros(2, *shape)) if spec.segment_relation else None
        self.width, self.limit = spec.width, spec.max_distance

    def content(self, query: Tensor) -> Tensor:
        """The query with the content bias: (rows, heads, q, d) → the same shape"""
        return query + self.content_bias.unsqueeze(1)

    def scores(self, query: Tensor, view: View) -> Tensor:
        """The scores of distances and segments: queries (rows, heads, q, d) → (rows, heads, q, k)"""
        if view.distance is None:
            raise TypeError("a view for Transformer-XL carries distances")
        least, greatest = view.extremes
        behind = -torch.arange(least, greatest + 1, device=query.device)  # how far a key lies behind the query
        waves = sinusoids(behind.clamp(-self.limit, self.limit), self.width, halves=True).to(query.dtype)
        places = self.net(waves).view(len(behind), *self.position_bias.shape).permute(1, 2, 0)
        scores = view.of_pairs((query + self.position_bias.unsqueeze(1)) @ places)
        if self.segments is not None and self.segment_bias is not None and view.differs is not None:
            same, other = ((query + self.segment_bias.unsqueeze(1)) @ self.segments.permute(1, 2, 0)).unbind(-1)
            scores = scores + torch.where(view.differs.unsqueeze(1), other.unsqueeze(-1), same.unsqueeze(-1))
        return scores


def relation(spec: Spec) -> Nezha | TransformerXL | Disentangled | None:
    """The scheme inside attention that a spec names; None if it names none."""
    for name, make in (("nezha", Nezha), ("transformer-xl", TransformerXL), ("disentangled", Disentangled)):
        if name in spec.positions:
            return make(spec)
    return None
