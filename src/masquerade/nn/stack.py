"""Layers, and the stack of them."""

from __future__ import annotations

from torch import Tensor, nn

from masquerade.layout import Layout, additive, visible
from masquerade.nn.attention import Attention, KeyValues, View
from masquerade.nn.cache import Cache
from masquerade.nn.feedforward import FeedForward
from masquerade.nn.norms import norm
from masquerade.nn.positions import Buckets
from masquerade.nn.spec import Spec


class Layer(nn.Module):
    """Attention, then feed-forward, each added to what came in and normalised after (or before) it."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.attention = Attention(spec)
        self.attention_norm = norm(spec)
        self.feedforward = FeedForward(spec)
        self.feedforward_norm = norm(spec)
        self.dropout = nn.Dropout(spec.dropout)
        self.norm_first = spec.norm_first

    def forward(self, x: Tensor, view: View, past: KeyValues | None = None) -> tuple[Tensor, KeyValues]:
        """x (rows, q, width) → the same shape, and this layer's keys and values."""
        if self.norm_first:
            change, kept = self.attention(self.attention_norm(x), view, past)
            x = x + self.dropout(change)
            return x + self.dropout(self.feedforward(self.feedforward_norm(x))), kept
        change, kept = self.attention(x, view, past)
        x = self.attention_norm(x + self.dropout(change))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x))), kept


class Stack(nn.Module):
    """The layers in their order; a layer whose weights are shared appears in it several times."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.order = spec.order
        self.layers = nn.ModuleList(Layer(spec) for _ in range(max(self.order) + 1))
        self.buckets = Buckets(spec) if "buckets" in spec.positions else None
        self.asks_distance = "nezha" in spec.positions
        self.norm = norm(spec) if spec.norm_first else None

    def forward(self, x: Tensor, layout: Layout, cache: Cache | None = None) -> Tensor:
        """x (rows, q, width), one vector a token of the layout → the same shape. With a cache, the rows also see the
        tokens in it, and are in it afterwards."""
        keys = layout if cache is None else cache.extended(layout)
        past = cache.layers if cache is not None else []
        view, kept = self._view(layout, keys, x), []
        for step, index in enumerate(self.order):
            x, pair = self.layers[index](x, view, past[step] if past else None)
            if cache is not None:
                kept.append(pair)
        if cache is not None:
            cache.keep(keys, kept)
        return x if self.norm is None else self.norm(x)

    def _view(self, queries: Layout, keys: Layout, like: Tensor) -> View:
        seen = visible(queries, keys)
        mask, distance = additive(seen, like.dtype), None
        if self.buckets is not None or self.asks_distance:
            distance = keys.position.unsqueeze(-2) - queries.position.unsqueeze(-1)
        if self.buckets is not None and distance is not None:
            mask = mask + self.buckets(distance)
        blind = (queries.real & ~seen.any(-1))[:, None, :, None]  # the first word of an order is asked of nothing
        return View(mask, distance, blind if bool(blind.any()) else None)
