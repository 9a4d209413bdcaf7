"""Multi-head attention under a View: who sees whom and how far apart, worked out once a pass for all layers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.nn.positions import Nezha
from masquerade.nn.spec import Spec

KeyValues = tuple[Tensor, Tensor]  # keys and values of one layer, each (rows, heads, k, d)


@dataclass(frozen=True)
class View:
    """What the rows of one pass see of its keys."""

    bias: Tensor  # (rows, 1 or heads, q, k), added to the scores
    distance: Tensor | None = None  # (rows, q, k), key position minus query position, where a scheme asks for it
    blind: Tensor | None = None  # (rows, 1, q, 1), which rows see nothing at all, where there are such


class Attention(nn.Module):
    """Each row asks the keys it may see and takes home a mean of their values."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.query = nn.Linear(spec.width, spec.width)
        self.key = nn.Linear(spec.width, spec.width)
        self.value = nn.Linear(spec.width, spec.width)
        self.output = nn.Linear(spec.width, spec.width)
        self.heads, self.dropout = spec.heads, spec.attention_dropout
        self.relation = Nezha(spec) if "nezha" in spec.positions else None

    def forward(self, x: Tensor, view: View, past: KeyValues | None = None) -> tuple[Tensor, KeyValues]:
        """x (rows, q, width) → the same shape, and the keys and values of all tokens seen so far."""
        query, key, value = (self._split(part(x)) for part in (self.query, self.key, self.value))
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        dropout = self.dropout if self.training else 0.0
        if self.relation is None or view.distance is None:
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=view.bias, dropout_p=dropout)
        else:
            scores = query @ key.transpose(-1, -2) + self.relation.scores(query, view.distance)
            weights = F.softmax(scores / math.sqrt(query.shape[-1]) + view.bias, dim=-1)
            weights = F.dropout(weights, dropout, self.training)
            mixed = weights @ value + self.relation.values(weights, view.distance)
        if view.blind is not None:
            mixed = mixed.masked_fill(view.blind, 0.0)
        return self.output(mixed.transpose(1, 2).flatten(2)), (key, value)

    def _split(self, x: Tensor) -> Tensor:
        """(rows, n, width) → (rows, heads, n, d)"""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
