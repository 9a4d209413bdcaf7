"""Multi-head attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade import kernels
from masquerade.nn.disentangled import Disentangled
from masquerade.nn.relations import Nezha, TransformerXL, View, relation
from masquerade.nn.spec import Spec

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

SMALLEST = 64  # the least number of tokens that a growing buffer of keys has room for


class KeyValues(tuple[Tensor, Tensor]):
    """Keys and values of one layer, each (rows, heads, n, d).

    Without gradients they grow in place: a buffer has room for further tokens, which are written into it instead of
    copying all of them for each new one. So the same object must not be extended twice, unless the cache is cropped
    in between.
    """

    buffer: tuple[Tensor, Tensor] | None = None  # each (rows, heads, more than n, d), with these as the first n

    def first(self, n: int) -> KeyValues:
        """Those of the first ``n`` tokens."""
        return KeyValues._of(self.buffer or self, n, self.buffer)

    @staticmethod
    def _of(tokens: tuple[Tensor, Tensor], n: int, buffer: tuple[Tensor, Tensor] | None) -> KeyValues:
        made = KeyValues((tokens[0][:, :, :n], tokens[1][:, :, :n]))
        made.buffer = buffer
        return made

    def extended(self, key: Tensor, value: Tensor) -> KeyValues:
        """These, and those of m further tokens, (rows, heads, m, d)."""
        if torch.is_grad_enabled():
            return KeyValues((torch.cat([self[0], key], dim=2), torch.cat([self[1], value], dim=2)))
        n, total = self[0].shape[2], self[0].shape[2] + key.shape[2]
        buffer = self.buffer
        if buffer is None or buffer[0].shape[2] < total or (buffer[0].is_inference() and not key.is_inference()):
            size = max(2 * total, SMALLEST)
            buffer = (_enlarged(self[0], size), _enlarged(self[1], size))
        buffer[0][:, :, n:total], buffer[1][:, :, n:total] = key, value
        return KeyValues._of(buffer, total, buffer)

    def moved(self, rows: Tensor, changing: Tensor, alike: int) -> KeyValues:
        """Row i becomes a copy of row rows[i]. Only the rows ``changing``, (m,), differ from before, and their first
        ``alike`` tokens do not: a buffer is changed in place, from there on."""
        fixed = self[0].is_inference() and not torch.is_inference_mode_enabled()
        if self.buffer is None or torch.is_grad_enabled() or fixed:
            return KeyValues(each.index_select(0, rows) for each in self)
        origin = rows[changing]
        for each in self:
            late = each[:, :, alike:]
            late.index_copy_(0, changing, late.index_select(0, origin))
        return self


def _enlarged(x: Tensor, size: int) -> Tensor:
    """(rows, heads, n, d) → (rows, heads, size, d) with the same first n."""
    buffer = x.new_empty(*x.shape[:2], size, x.shape[3])
    buffer[:, :, : x.shape[2]] = x
    return buffer


class Attention(nn.Module):
    """Each query gives the weighted mean of the values it sees. Keys and values are of the same stack, or with
    ``cross`` of another stack's states."""

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
        if isinstance(self.relation, Disentangled):
            self.scale *= self.relation.scale

    def forward(self, x: Tensor, view: View, past: KeyValues | None = None) -> tuple[Tensor, KeyValues]:
        """x (rows, q, width) → the same shape, and the keys and values of all tokens so far."""
        key, value = self.key_values(x)
        if view.rotation is not None:
            key = view.rotation(key)
        pair = KeyValues((key, value)) if past is None else past.extended(key, value)
        return self.attend(x, view, pair), pair

    def key_values(self, x: Tensor) -> KeyValues:
        """Keys and values of states: (rows, k, width) → two of (rows, heads, k, d)"""
        return KeyValues((self._split(self.key(x)), self._split(self.value(x))))

    def attend(self, x: Tensor, view: View, pair: KeyValues) -> Tensor:
        """Attention of x (rows, q, width) to keys and values → (rows, q, width). If keys have fewer rows than x, each
        of their rows serves equally many consecutive rows of x, which are then computed as one."""
        (key, value), bias, blind, (rows, q, _) = pair, view.bias, view.blind, x.shape
        together = rows // max(len(key), 1)
        if together > 1:
            x = x.reshape(len(key), -1, x.shape[2])
            bias, blind = (None if part is None else _one_row(part, together) for part in (bias, blind))
        query = self._split(self.query(x))
        if view.rotation is not None:
            query = view.rotation(query)
        dropout = self.dropout if self.training else 0.0
        if isinstance(self.relation, Disentangled) and view.runs is not None:
            mixed = self.relation.attend(query, key, value, *view.runs, (self.query, self.key), self.scale)
            return cast(Tensor, self.output(mixed.transpose(1, 2).flatten(2)))
        if self.relation is not None:
            if isinstance(self.relation, Disentangled):
                relative = self.relation.scores(query, key, view, self.query, self.key) * self.scale
            else:
                relative = self.relation.scores(query, view) * self.scale
            bias = relative if bias is None else bias + relative
        if isinstance(self.relation, TransformerXL):
            query = self.relation.content(query)
        apart = together > 1 or isinstance(self.relation, Nezha)  # few keys and many queries; NEZHA needs the weights
        if apart or (view.blocks is None and kernels.uses_products(query, key)):
            mixed, weights = kernels.products(query, key, value, bias, self.scale, dropout)
            if isinstance(self.relation, Nezha):
                mixed = mixed + self.relation.values(weights, view)
        elif view.blocks is not None:
            mixed = _flex(query.device.type)[1](query, key, value, block_mask=view.blocks, scale=self.scale)
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, bias, dropout, scale=self.scale)
        if blind is not None:
            mixed = mixed.masked_fill(blind, 0.0)
        out: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return out.view(rows, q, out.shape[2])

    def _split(self, x: Tensor) -> Tensor:
        """(rows, n, heads · d) → (rows, heads, n, d)"""
        return x.view(*x.shape[:2], self.heads, x.shape[2] // self.heads).transpose(1, 2)


def block_mask(
    mask: Callable[[Any, Any, Any, Any], Tensor], rows: int, queries: int, keys: int, device: torch.device
) -> BlockMask:
    """FlexAttention's mask of a function (row, head, q, k) → bool."""
    made: BlockMask = _flex(device.type)[0](mask, rows, None, queries, keys, device=device)
    return made


@cache
def _flex(device: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """FlexAttention's mask constructor and kernel, compiled on a GPU. It is imported late: that takes long."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if device == "cpu":
        return create_block_mask, flex_attention
    return torch.compile(create_block_mask), torch.compile(flex_attention)


def _one_row(x: Tensor, together: int) -> Tensor:
    """Each ``together`` consecutive rows as one: (rows, 1, q, last) → (rows / together, 1, together · q, last)"""
    return x.reshape(len(x) // together, 1, -1, x.shape[3])
