"""Relations: position schemes that live inside attention, where each query asks about distances."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from masquerade.nn.positions import Turn, sinusoids
from masquerade.nn.spec import Spec


@dataclass(frozen=True)
class View:
    """What the rows of one pass see of its keys: worked out once, shared by all layers."""

    bias: Tensor | None  # (rows or 1, heads or 1, q, k), added to the scores; None where everybody sees everybody
    blind: Tensor | None = None  # (rows, 1, q, 1), which rows see nothing at all, where there are such
    distance: Tensor | None = None  # (rows or 1, q, k), key position minus query position, where a scheme asks for it
    differs: Tensor | None = None  # (rows, q, k), is the key of another segment? where a scheme asks for it
    turn: Turn | None = None  # how to turn this pass's queries and keys, under rotary positions

    @cached_property
    def reach(self) -> tuple[int, int]:
        """The least and the greatest distance that occurs."""
        if self.distance is None or not self.distance.numel():
            return 0, 0
        return int(self.distance.min()), int(self.distance.max())


class Nezha(nn.Module):
    """NEZHA's relative positions: a fixed sinusoidal vector for each distance up to ``max_distance``, asked by the
    query like a key and carried home like a value."""

    table: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.limit = spec.max_distance
        distances = torch.arange(2 * self.limit + 1)
        self.register_buffer("table", sinusoids(distances, spec.head_width), persistent=False)

    def scores(self, query: Tensor, view: View) -> Tensor:
        """(rows, heads, q, d) → what a query asks of each key's distance, (rows, heads, q, k). It is asked once about
        every distance there is, not once about every key."""
        asked = query @ self.table.T
        return asked.gather(-1, self._index(view).expand(*query.shape[:2], -1, -1))

    def values(self, weights: Tensor, view: View) -> Tensor:
        """Attention weights (rows, heads, q, k) → the mean distance vector, (rows, heads, q, d): the weights are
        gathered by distance first, so no vector a pair is ever made."""
        by_distance = weights.new_zeros(*weights.shape[:-1], self.table.shape[0])
        return by_distance.scatter_add(-1, self._index(view).expand_as(weights), weights) @ self.table

    def _index(self, view: View) -> Tensor:
        if view.distance is None:
            raise TypeError("a view for NEZHA carries distances")
        return (view.distance.clamp(-self.limit, self.limit) + self.limit).unsqueeze(1)


class TransformerXL(nn.Module):
    """Transformer-XL's relative positions: a learned map of each distance's sinusoids is asked by the query, with one
    bias for content and one for positions. XLNet also asks whether the key is of the same segment."""

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
        """The query that asks keys: (rows, heads, q, d) → the same shape"""
        return query + self.content_bias.unsqueeze(1)

    def scores(self, query: Tensor, view: View) -> Tensor:
        """(rows, heads, q, d) → what a query asks of each key's distance and segment, (rows, heads, q, k)"""
        if view.distance is None:
            raise TypeError("a view for Transformer-XL carries distances")
        least, greatest = view.reach
        behind = -torch.arange(least, greatest + 1, device=query.device)  # how far a key lies behind the query
        waves = sinusoids(behind.clamp(-self.limit, self.limit), self.width, halves=True).to(query.dtype)
        places = self.net(waves).view(len(behind), *self.position_bias.shape).permute(1, 2, 0)
        asked = (query + self.position_bias.unsqueeze(1)) @ places  # (rows, heads, q, distances)
        index = (view.distance - least).unsqueeze(1).expand(*query.shape[:2], -1, -1)
        scores: Tensor = asked.gather(-1, index)
        if self.segments is not None and self.segment_bias is not None and view.differs is not None:
            same, other = ((query + self.segment_bias.unsqueeze(1)) @ self.segments.permute(1, 2, 0)).unbind(-1)
            scores = scores + torch.where(view.differs.unsqueeze(1), other.unsqueeze(-1), same.unsqueeze(-1))
        return scores


def relation(spec: Spec) -> Nezha | TransformerXL | None:
    """The relation that a spec names, if any."""
    if "nezha" in spec.positions:
        return Nezha(spec)
    return TransformerXL(spec) if "transformer-xl" in spec.positions else None
