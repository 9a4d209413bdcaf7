"""A layer, and the stack of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from masquerade.errors import LayoutError
from masquerade.layout import PADDING, Layout, additive, all_visible, mask_mod, visible
from masquerade.nn.attention import Attention, KeyValues, block_mask
from masquerade.nn.between import Between, Flow, make_between
from masquerade.nn.cache import Cache
from masquerade.nn.disentangled import RelativeTable
from masquerade.nn.feedforward import FeedForward
from masquerade.nn.norms import norm
from masquerade.nn.positions import Alibi, Buckets, Rotation
from masquerade.nn.relations import TransformerXL, View
from masquerade.nn.runs import rows_of_runs
from masquerade.nn.spec import DISTANCES, Spec

LONG = 2048  # keys from which a GPU runs FlexAttention, whose memory does not grow with queries × keys


@dataclass(frozen=True)
class Encoded:
    """A source for a decoder: its states (rows, n, width), their layout, and the extra outputs of its stack."""

    states: Tensor
    layout: Layout
    outputs: Mapping[str, Tensor] = field(default_factory=dict)


class Layer(nn.Module):
    """Self-attention, in a decoder attention to the source, then feed-forward. Each has a residual connection and a
    norm, after it or before it."""

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
        m tokens there go through the feed-forward part and are returned: (m, width)."""
        change, pair = self.attention(self.attention_input(x), view, past)
        x = self._after(self.attention_norm, x, change)
        if self.cross is not None and self.cross_norm is not None:
            if source_view is None or source is None:
                raise TypeError("a decoder's layer needs a source")
            change = self.cross.attend(self._before(self.cross_norm, x), source_view, source)
            x = self._after(self.cross_norm, x, change)
        x = x if at is None else x[at]
        change = self.feedforward(self._before(self.feedforward_norm, x))
        return self._after(self.feedforward_norm, x, change), pair

    def attention_input(self, x: Tensor) -> Tensor:
        """The input of self-attention: normalised states if the norm comes first. (rows, n, width) → same shape"""
        return self._before(self.attention_norm, x)

    def _before(self, normalise: nn.Module, x: Tensor) -> Tensor:
        out: Tensor = normalise(x) if self.norm_first else x
        return out

    def _after(self, normalise: nn.Module, x: Tensor, change: Tensor) -> Tensor:
        x = x + self.dropout(change)
        out: Tensor = x if self.norm_first else normalise(x)
        return out


class Stack(nn.Module):
    """The layers in their order, and the parts that run between them. A layer whose weights are shared appears
    several times."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.order = spec.order
        self.layers = nn.ModuleList(Layer(spec) for _ in range(max(self.order) + 1))
        self.between = make_between(spec)
        self.buckets = Buckets(spec) if "buckets" in spec.positions else None
        self.alibi = Alibi(spec) if "alibi" in spec.positions else None
        self.relative = RelativeTable(spec) if "disentangled" in spec.positions else None
        self.needs_distance = bool((set(DISTANCES) - {"rotary"}) & set(spec.positions))
        self.needs_segment = spec.segment_relation
        self.rotary_width = spec.head_width if "rotary" in spec.positions else None
        self.dropout, self.attention_dropout = spec.dropout, spec.attention_dropout
        self.norm = norm(spec) if spec.final_norm else None
        self.recompute = False  # gradient checkpointing: layers run again in the backward pass
        self.attention = "auto"  # the kernel: "sdpa", "flex", or "auto" for flex where it pays
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
        inputs: Mapping[str, Tensor] | None = None,
    ) -> Flow:
        """The flow behind the last layer, for states x (rows, q, width) of a layout (rows, q).

        With a cache, the rows also see the tokens in it, and it holds theirs afterwards. A decoder's rows also see a
        source. With ``at``, bool (rows, q), the states are those of the m tokens there, (m, width), and the last layer
        computes no others. ``steps`` runs some layers only, and the cache is of these; step i is what runs before
        layer i and the layer itself, and the step after the last layer is what runs behind it. ``inputs`` are for the
        parts between the layers.
        """
        last = len(self.order)
        steps = range(last + 1) if steps is None else steps
        parts = {int(layer): part for layer, part in self.between.items() if isinstance(part, Between)}
        if at is not None and any(part.moves_tokens for layer, part in parts.items() if layer in steps):
            raise LayoutError("A part between the layers moves tokens, so 'at' cannot name them; leave 'at' out.")
        keys = layout if cache is None else cache.extended(layout)
        flow = Flow(x, layout, keys, inputs or {}, {}, cached=cache is not None)
        past = cache.past(self.past_key_values) if cache is not None else []
        sources = [] if source is None else (cache.source if cache is not None else []) or self._sources(source)
        pairs, view, source_view = list[KeyValues](), None, None
        for step in steps:
            if step in parts:
                flow, view = self._run(parts[step], flow, fixed=cache is not None or source is not None), None
            if step == last:
                break
            if view is None:
                view = self._view(flow.layout, flow.keys, flow.states)
                source_view = None if source is None else masked(flow.layout, source.layout, flow.states)
            if cache is not None:
                cache.watch(flow.states)
            past_here, source_here = past[len(pairs)] if past else None, sources[step] if sources else None
            wanted = at if step == last - 1 and last not in parts else None
            arguments = (flow.states, view, past_here, source_view, source_here, wanted)
            layer = self.layers[self.order[step]]
            if self.recompute and self.training:
                states, pair = checkpoint(layer, *arguments, use_reentrant=False)
            else:
                states, pair = layer(*arguments)
            flow = replace(flow, states=self.norm(states) if self.norm is not None and step == last - 1 else states)
            if cache is not None:
                pairs.append(pair)
        if cache is not None:
            cache.keep(keys, pairs, sources)
        return flow if at is None or flow.states.dim() == 2 else replace(flow, states=flow.states[at])

    def key_values(self, states: Tensor) -> list[KeyValues]:
        """The keys and values of every layer if its input were these states, (rows, n, width)."""
        return self._pairs([states] * len(self.order))

    def past_key_values(self, states: Sequence[Tensor], layout: Layout) -> list[KeyValues]:
        """The keys and values of every layer for its own input, each (rows, n, width), of tokens of a layout."""
        pairs = self._pairs(states)
        if self.rotary_width is None:
            return pairs
        rotation = Rotation(layout.position, self.rotary_width, states[0].dtype)
        return [KeyValues((rotation(key), value)) for key, value in pairs]

    def _pairs(self, states: Sequence[Tensor]) -> list[KeyValues]:
        layers = [layer for layer in self.layers if isinstance(layer, Layer)]
        inputs = zip(self.order, states, strict=True)
        return [layers[index].attention.key_values(layers[index].attention_input(each)) for index, each in inputs]

    def _run(self, part: Between, flow: Flow, fixed: bool) -> Flow:
        """A part's flow. If rows and tokens are fixed, by a cache or a source, it must not change their number."""
        after: Flow = part(flow)
        if fixed and after.layout.shape != flow.layout.shape:
            raise LayoutError(
                f"A {type(part).__name__} changed the rows or tokens of a pass with a cache or a source; "
                "run it without."
            )
        return after

    def _view(self, queries: Layout, keys: Layout, like: Tensor) -> View:
        """What all layers of this pass share about pairs of its queries and keys."""
        if self._runs_flex(queries, keys, like):
            rotation = None if self.rotary_width is None else Rotation(queries.position, self.rotary_width, like.dtype)
            blocks = block_mask(mask_mod(queries, keys), queries.rows, len(queries), len(keys), like.device)
            return View(None, rotation=rotation, blocks=blocks)
        if self.relative is not None and queries is keys and self._by_rows(like):
            rows = rows_of_runs(queries)
            if rows:
                return View(None, runs=(rows, self.relative))
        view, distance, differs, rotation, consecutive = masked(queries, keys, like), None, None, None, False
        bias = view.bias
        if self.needs_distance:
            distance, consecutive = _distance(queries, keys)
        for part in (self.buckets, self.alibi):
            if part is not None and distance is not None:
                near = part(distance)
                bias = near if bias is None else bias + near
        if self.needs_segment:
            differs = keys.segment.unsqueeze(-2) != queries.segment.unsqueeze(-1)
        if self.rotary_width is not None:
            rotation = Rotation(queries.position, self.rotary_width, like.dtype)
        relative = None
        if self.relative is not None and distance is not None:
            relative = self.relative(distance, consecutive)
        return View(bias, view.blind, distance, consecutive, relative, differs, rotation)

    def _by_rows(self, like: Tensor) -> bool:
        """Whether relative positions may be scored row by row: on a CPU, without dropout or other scores of pairs."""
        others = self.buckets is not None or self.alibi is not None or self.needs_segment
        dropout = self.training and (self.dropout or self.attention_dropout)
        return not (others or self.rotary_width is not None or dropout) and like.device.type == "cpu"

    def _runs_flex(self, queries: Layout, keys: Layout, like: Tensor) -> bool:
        """Whether attention runs through FlexAttention. It cannot where scores get a bias or weights a dropout, nor
        with gradients on a CPU."""
        if self.attention == "sdpa" or (self.attention == "auto" and not (like.is_cuda and len(keys) >= LONG)):
            return False
        dropout = self.attention_dropout and self.training
        possible = not (self.needs_distance or self.needs_segment or dropout)
        return possible and (like.is_cuda or not torch.is_grad_enabled()) and not all_visible(queries, keys)

    def _sources(self, source: Encoded) -> list[KeyValues]:
        """The source's keys and values for each layer."""
        layers = [layer for layer in self.layers if isinstance(layer, Layer) and layer.cross is not None]
        pairs = [layer.cross.key_values(source.states) for layer in layers if layer.cross is not None]
        return [pairs[index] for index in self.order]

    def _share_biases(self) -> None:
        """Give all layers the first layer's two biases of Transformer-XL."""
        relations = [part for part in self.modules() if isinstance(part, TransformerXL)]
        for each in relations[1:]:
            each.content_bias, each.position_bias = relations[0].content_bias, relations[0].position_bias


def masked(queries: Layout, keys: Layout, like: Tensor) -> View:
    """The attention mask by the rule, and the rows that see no token. Such a row, as the first query of an order is,
    must not depend on tokens it does not see."""
    if all_visible(queries, keys):
        return View(None)  # attention is fastest without a mask
    real = keys.real
    if queries is keys and bool(real[:, 0].all()) and all_visible(filled := _filled(queries, real), filled):
        return View(additive(real.unsqueeze(1), like.dtype))  # only padding is not seen: one line for all queries
    seen = visible(queries, keys)
    blind = (queries.real & ~seen.any(-1))[:, None, :, None]
    return View(additive(seen, like.dtype), blind if bool(blind.any()) else None)


def _filled(layout: Layout, real: Tensor) -> Layout:
    """A batch whose padding is replaced by the first token of its row, which is not padding."""
    return Layout(torch.where(real, layout.stacked, layout.stacked[:, :, :1]))


def _distance(queries: Layout, keys: Layout) -> tuple[Tensor, bool]:
    """Key position minus query position, (rows, q, k), or (1, q, k) where all rows have the same; and whether tokens
    are consecutive, so that these are the distances of places in the row. Pairs of different documents, which do not
    see each other, may then have any distance."""
    q, k = queries.position, keys.position
    consecutive = _consecutive(queries, keys)
    if consecutive:
        k = torch.arange(len(keys), device=k.device).unsqueeze(0)
        q = k[:, len(keys) - len(queries) :]
    elif bool((q == q[:1]).all()) and bool((k == k[:1]).all()):
        q, k = q[:1], k[:1]
    return k.unsqueeze(-2) - q.unsqueeze(-1), consecutive


def _consecutive(queries: Layout, keys: Layout) -> bool:
    """Whether the queries are the last keys, and each document's tokens lie side by side in the order of their
    positions, with none left out. Padding may follow."""
    past, document, position = len(keys) - len(queries), keys.document, keys.position
    if queries is not keys:
        same = past >= 0 and torch.equal(position[:, past:], queries.position)
        if not (same and torch.equal(document[:, past:], queries.document)):
            return False
    first, then = document[:, :-1], document[:, 1:]
    follows = (first == then) & (position.diff() == 1)
    return bool((follows | ((then > first) & (first != PADDING)) | (then == PADDING)).all())
