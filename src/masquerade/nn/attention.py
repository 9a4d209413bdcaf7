"""Multi-head attention under a View."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.nn.relations import Nezha, TransformerXL, View, relation
from masquerade.nn.spec import Spec

SMALLEST = 64  # tokens that there is room for where keys begin to grow


class KeyValues(tuple[Tensor, Tensor]):
    """Keys and values of one layer, each (rows, heads, n, d). Where no gradient is wanted they grow in place: there is
    room for further tokens behind them, which are written there instead of copying everything for each one. So what
    has been extended must not be extended a second time, unless what was behind it is forgotten: a cache's crop."""

    room: tuple[Tensor, Tensor] | None = None  # each (rows, heads, more than n, d); the first n are these

    def first(self, n: int) -> KeyValues:
        """Those of the first ``n`` tokens; the others are forgotten."""
        return KeyValues._of(self.room or self, n, self.room)

    @staticmethod
    def _of(tokens: tuple[Tensor, Tensor], n: int, room: tuple[Tensor, Tensor] | None) -> KeyValues:
        made = KeyValues((tokens[0][:, :, :n], tokens[1][:, :, :n]))
        made.room = room
        return made

    def extended(self, key: Tensor, value: Tensor) -> KeyValues:
        """These and those of further tokens behind them, (rows, heads, m, d)."""
        if torch.is_grad_enabled():
            return KeyValues((torch.cat([self[0], key], dim=2), torch.cat([self[1], value], dim=2)))
        n, total = self[0].shape[2], self[0].shape[2] + key.shape[2]
        room = self.room
        if room is None or room[0].shape[2] < total or (room[0].is_inference() and not key.is_inference()):
            size = max(2 * total, SMALLEST)
            room = (_roomier(self[0], size), _roomier(self[1], size))
        room[0][:, :, n:total], room[1][:, :, n:total] = key, value
        return KeyValues._of(room, total, room)

    def moved(self, rows: Tensor, changing: Tensor, alike: int) -> KeyValues:
        """Row i becomes what row rows[i] is. Only the rows that are ``changing``, (m,), become others, and their first
        tokens are ``alike``: what has room of its own is moved within it, no more of it than need be."""
        fixed = self[0].is_inference() and not torch.is_inference_mode_enabled()
        if self.room is None or torch.is_grad_enabled() or fixed:
            return KeyValues(kept.index_select(0, rows) for kept in self)
        origin = rows[changing]
        for kept in self:
            late = kept[:, :, alike:]
            late.index_copy_(0, changing, late.index_select(0, origin))
        return self


def _roomier(kept: Tensor, size: int) -> Tensor:
    """(rows, heads, n, d) → (rows, heads, size, d), of which the first n are the same."""
    room = kept.new_empty(*kept.shape[:2], size, kept.shape[3])
    room[:, :, : kept.shape[2]] = kept
    return room


class Attention(nn.Module):
    """Each row asks the keys it may see and takes home a mean of their values. Keys are of the rows' own stack, or
    with ``cross`` of another's states."""

    def __init__(self, spec: Spec, cross: bool = False) -> None:
        super().__init__()
        inside = spec.heads * spec.head_width
        self.query = nn.Linear(spec.width, inside, bias=spec.attention_bias)
        self.key = nn.Linear(spec.width, inside, bias=spec.attention_bias)
        self.value = nn.Linear(spec.width, inside, bias=spec.attention_bias)
        self.output = nn.Linear(inside, spec.width, bias=spec.attention_bias)
        self.heads, self.dropout = spec.heads, spec.attention_dropout
        self.scale = 1 / math.sqrt(spec.head_width) if spec.scaled else 1.0
        self.relation = None if cross else relation(spec)

    def forward(self, x: Tensor, view: View, past: KeyValues | None = None) -> tuple[Tensor, KeyValues]:
        """x (rows, q, width) → the same shape, and the keys and values of all tokens seen so far."""
        key, value = self.keys(x)
        if view.turn is not None:
            key = view.turn(key)
        kept = KeyValues((key, value)) if past is None else past.extended(key, value)
        return self.ask(x, view, kept), kept

    def keys(self, x: Tensor) -> KeyValues:
        """The keys and values of states: (rows, k, width) → two of (rows, heads, k, d)"""
        return KeyValues((self._split(self.key(x)), self._split(self.value(x))))

    def ask(self, x: Tensor, view: View, kept: KeyValues) -> Tensor:
        """What rows x (rows, q, width) take home from keys and values → (rows, q, width). Where there are fewer rows of
        keys than of x, as many rows one after another ask the same ones, as if they were one."""
        (key, value), bias, blind, (rows, q, _) = kept, view.bias, view.blind, x.shape
        together = rows // max(len(key), 1)
        if together > 1:
            x = x.reshape(len(key), -1, x.shape[2])
            bias, blind = (None if part is None else _one_row(part, together) for part in (bias, blind))
        query = self._split(self.query(x))
        if view.turn is not None:
            query = view.turn(query)
        dropout = self.dropout if self.training else 0.0
        if self.relation is not None:
            asked = self.relation.scores(query, view) * self.scale
            bias = asked if bias is None else bias + asked
        if isinstance(self.relation, TransformerXL):
            query = self.relation.content(query)
        if together > 1 or isinstance(self.relation, Nezha):
            # a few rows at one set of keys are answered faster by two plain products; and NEZHA needs the weights
            scores = (query * self.scale) @ key.transpose(-1, -2)
            weights = F.dropout(F.softmax(scores if bias is None else scores + bias, dim=-1), dropout)
            mixed = weights @ value
            if isinstance(self.relation, Nezha):
                mixed = mixed + self.relation.values(weights, view)
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, bias, dropout, scale=self.scale)
        if blind is not None:
            mixed = mixed.masked_fill(blind, 0.0)
        out: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return out.view(rows, q, out.shape[2])

    def _split(self, x: Tensor) -> Tensor:
        """(rows, n, heads · d) → (rows, heads, n, d)"""
        return x.view(*x.shape[:2], self.heads, x.shape[2] // self.heads).transpose(1, 2)


def _one_row(x: Tensor, together: int) -> Tensor:
    """So many rows, one after another, as one: (rows, 1, q, last) → (rows / together, 1, together · q, last)"""
    return x.reshape(len(x) // together, 1, -1, x.shape[3])
