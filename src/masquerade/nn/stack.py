"""Layers, and the stack of them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from masquerade.errors import LayoutError
from masquerade.layout import Layout, additive, all_visible, visible
from masquerade.masks import forked, opened
from masquerade.nn.attention import Attention, KeyValues
from masquerade.nn.cache import Cache
from masquerade.nn.feedforward import FeedForward
from masquerade.nn.norms import norm
from masquerade.nn.positions import Buckets, Turn
from masquerade.nn.relations import TransformerXL, View
from masquerade.nn.spec import Spec


@dataclass(frozen=True)
class Encoded:
    """A source that a decoder looks at: its states (rows, n, width), and the layout they are of."""

    states: Tensor
    layout: Layout


class Layer(nn.Module):
    """Attention, in a decoder attention to the source, then feed-forward; each is added to what came in, and
    normalised after it (or before)."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.attention = Attention(spec)
        self.attention_norm = norm(spec)
        self.cross = Attention(spec, cross=True) if spec.cross else None
        self.cross_norm = norm(spec) if spec.cross else None
        self.feedforward = FeedForward(spec)
        self.feedforward_norm = norm(spec)
        self.dropout = nn.Dropout(spec.dropout)
        self.norm_first = spec.norm_first

    def forward(
        self,
        x: Tensor,
        view: View,
        past: KeyValues | None,
        source_view: View | None,
        source: KeyValues | None,
        at: Tensor | None = None,
    ) -> tuple[Tensor, KeyValues]:
        """x (rows, q, width) → the same shape, and this layer's keys and values. With ``at``, bool (rows, q), only the
        m tokens there are carried to the end, (m, width)."""
        change, kept = self.attention(self.before(x), view, past)
        x = self._after(self.attention_norm, x, change)
        if self.cross is not None and self.cross_norm is not None:
            if source_view is None or source is None:
                raise TypeError("a decoder's layer needs a source")
            change = self.cross.ask(self._before(self.cross_norm, x), source_view, source)
            x = self._after(self.cross_norm, x, change)
        x = x if at is None else x[at]
        change = self.feedforward(self._before(self.feedforward_norm, x))
        return self._after(self.feedforward_norm, x, change), kept

    def before(self, x: Tensor) -> Tensor:
        """What this layer's attention reads of the states that come in."""
        return self._before(self.attention_norm, x)

    def _before(self, normalise: nn.Module, x: Tensor) -> Tensor:
        out: Tensor = normalise(x) if self.norm_first else x
        return out

    def _after(self, normalise: nn.Module, x: Tensor, change: Tensor) -> Tensor:
        x = x + self.dropout(change)
        out: Tensor = x if self.norm_first else normalise(x)
        return out


class Stack(nn.Module):
    """The layers in their order; a layer whose weights are shared appears in it several times."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.order, self.fork = spec.order, spec.fork
        self.layers = nn.ModuleList(Layer(spec) for _ in range(max(self.order) + 1))
        self.buckets = Buckets(spec) if "buckets" in spec.positions else None
        self.asks_distance = bool({"nezha", "transformer-xl", "buckets"} & set(spec.positions))
        self.asks_segment = spec.segment_relation
        self.turns = spec.head_width if "rotary" in spec.positions else None
        self.norm = norm(spec) if spec.final_norm else None
        self.recompute = False  # gradient checkpointing: layers are run again for the backward pass
        if spec.share_biases:
            self._share_biases()

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        cache: Cache | None = None,
        source: Encoded | None = None,
        at: Tensor | None = None,
        steps: range | None = None,
    ) -> Tensor:
        """x (rows, q, width), one vector a token of the layout → the same shape. With a cache, the rows also see the
        tokens in it, and are in it afterwards. A decoder's rows also see a source. With ``at``, bool (rows, q), only
        the m tokens there are asked for, (m, width), and the last layer does no more than that takes. With ``steps``,
        only these layers are run, and the cache is of these.

        Where the spec says so, a shared passage is shared through the first layers alone; what comes out is then of
        the rows that ``forked`` makes of the layout."""
        if at is not None and self.fork is not None:
            raise LayoutError("Where a passage is shared, tokens are asked for when it is taken apart; leave 'at' out.")
        last, whole = len(self.order), steps is None
        steps = range(last) if steps is None else steps
        keys = layout if cache is None else cache.extended(layout)
        seen, past = keys, cache.layers if cache is not None else []
        view, source_view, sources = self._view(layout, keys, x), None, []
        if source is not None:
            source_view = _seeing(layout, source.layout, x)
            sources = (cache.source if cache is not None else []) or self._sources(source)
        kept = []
        for number, step in enumerate(steps):
            if step == self.fork:
                x, layout, seen = _apart(x, layout, seen, cache)
                view = self._view(layout, seen, x)
            past_here, source_here = past[number] if past else None, sources[step] if sources else None
            asked = at if step == last - 1 else None
            inputs = (x, view, past_here, source_view, source_here, asked)
            if self.recompute and self.training:
                x, pair = checkpoint(self.layers[self.order[step]], *inputs, use_reentrant=False)
            else:
                x, pair = self.layers[self.order[step]](*inputs)
            if cache is not None:
                kept.append(pair)
        if cache is not None:
            cache.keep(keys, kept, sources)
        x = x if self.norm is None or last - 1 not in steps else self.norm(x)
        if self.fork == last and cache is None and (whole or not steps):  # shared to the very end
            x = _apart(x, layout, seen, cache)[0]
        return x

    def keys(self, states: Tensor) -> list[KeyValues]:
        """The keys and values that every step would have of the same states, (rows, n, width)."""
        layers = [layer for layer in self.layers if isinstance(layer, Layer)]
        return [layers[index].attention.keys(layers[index].before(states)) for index in self.order]

    def _view(self, queries: Layout, keys: Layout, like: Tensor) -> View:
        """What this pass sees of its own stack's tokens."""
        seen = _seeing(queries, keys, like)
        bias, distance, differs, turn = seen.bias, None, None, None
        if self.asks_distance:
            distance = _distance(queries, keys)
        if self.buckets is not None and distance is not None:
            near = self.buckets(distance)
            bias = near if bias is None else bias + near
        if self.asks_segment:
            differs = keys.segment.unsqueeze(-2) != queries.segment.unsqueeze(-1)
        if self.turns is not None:
            turn = Turn(queries.position, self.turns, like.dtype)
        return View(bias, seen.blind, distance, differs, turn)

    def _sources(self, source: Encoded) -> list[KeyValues]:
        """The source's keys and values for each step."""
        layers = [layer for layer in self.layers if isinstance(layer, Layer) and layer.cross is not None]
        pairs = [layer.cross.keys(source.states) for layer in layers if layer.cross is not None]
        return [pairs[index] for index in self.order]

    def _share_biases(self) -> None:
        """Give all layers the first one's two biases of Transformer-XL."""
        relations = [part for part in self.modules() if isinstance(part, TransformerXL)]
        for each in relations[1:]:
            each.content_bias, each.position_bias = relations[0].content_bias, relations[0].position_bias


def _apart(x: Tensor, layout: Layout, keys: Layout, cache: Cache | None) -> tuple[Tensor, Layout, Layout]:
    """States and layouts where a passage ceases to be shared: x (rows, q, width) → (branches, longest, width)."""
    if cache is not None:
        old = None if cache.layout is None else opened(cache.layout)
        if bool((keys.branch > 1).any()) or (old is not None and bool(visible(old, opened(layout)).any())):
            raise LayoutError(
                "A passage that is no longer shared sees its question, so a cache of all layers begins with both, "
                "a question a row; or keep only the layers through which the passage is shared."
            )
        return x, opened(layout), opened(keys)
    rows, index = forked(layout)
    return x if index is None else x.flatten(0, 1)[index], rows, rows


def _seeing(queries: Layout, keys: Layout, like: Tensor) -> View:
    """Who sees whom by the rule, and which rows see nothing at all: the first word of an order is asked of nothing,
    and must not learn from what it does not see."""
    if all_visible(queries, keys):
        return View(None)  # attention is fastest without a mask
    seen = visible(queries, keys)
    blind = (queries.real & ~seen.any(-1))[:, None, :, None]
    return View(additive(seen, like.dtype), blind if bool(blind.any()) else None)


def _distance(queries: Layout, keys: Layout) -> Tensor:
    """Key position minus query position, (rows, q, k); one row of it where all rows are numbered alike."""
    q, k = queries.position, keys.position
    if bool((q == q[:1]).all()) and bool((k == k[:1]).all()):
        q, k = q[:1], k[:1]
    return k.unsqueeze(-2) - q.unsqueeze(-1)
