"""Recurrent stacks in place of attention layers: language models, encoders that read both ways, and decoders that
attend to a source."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from masquerade.errors import LayoutError
from masquerade.layout import Layout
from masquerade.nn.attention import KeyValues
from masquerade.nn.between import Flow
from masquerade.nn.cache import Cache
from masquerade.nn.cells import (
    CELLS,
    CellState,
    run_cells,
    states_before,
    states_kept,
    token_states,
    zero_states,
)
from masquerade.nn.documents import (
    ROW,
    check_bidirectional,
    check_causal,
    check_one_document,
    documents,
    last_real,
)
from masquerade.nn.norms import norm
from masquerade.nn.source_attention import source_attention
from masquerade.nn.spec import Spec
from masquerade.nn.stack import Encoded, masked


class RecurrentStack(nn.Module):
    """LSTM or GRU layers with dropout between and after them. Each document of a row is read on its own.

    A causal stack reads from left to right, from a state of zeros. An encoder, whose mask is bidirectional, reads both
    ways, and a token's state is half of the one and half of the other. A decoder begins with a state that it computes
    from its source, and mixes the source into its states: tanh(W [state; weighted mean of the source]). That attention
    comes after the cells and does not enter their next step, so that a whole target is read in one pass.
    """

    def __init__(self, spec: Spec, kind: str) -> None:
        super().__init__()
        self.both_ways = spec.mask == "bidirectional"
        self.cells = CELLS[kind](
            spec.width,
            spec.width // 2 if self.both_ways else spec.width,
            spec.layers,
            batch_first=True,
            dropout=spec.dropout if spec.layers > 1 else 0.0,
            bidirectional=self.both_ways,
        )
        self.cross = source_attention(spec) if spec.cross else None
        parts = spec.layers * (2 if kind == "lstm" else 1)
        self.first = nn.Linear(spec.width, parts * spec.width) if spec.cross else None
        self.combine = nn.Linear(2 * spec.width, spec.width) if spec.cross else None
        self.dropout = nn.Dropout(spec.dropout)
        self.norm = norm(spec) if spec.final_norm else None
        self.recompute = False  # trainers set it; it does nothing here, where one module holds all layers

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        cache: Cache | None = None,
        source: Encoded | None = None,
        at: Tensor | None = None,
        inputs: Mapping[str, Tensor] | None = None,
    ) -> Flow:
        """The flow behind the last layer, for x (rows, n, width) of a layout (rows, n); states are zeros at padding.
        With ``at``, bool (rows, n), the states are those of the m tokens there, (m, width). A cache keeps the states
        behind every token, and needs rows of one document each."""
        if self.both_ways and cache is not None:
            raise LayoutError("A recurrent encoder reads in both directions, so it takes no cache; leave it out.")
        if cache is None:
            states, keys = self._states(x, layout, source), layout
        else:
            states, keys = self._cached(x, layout, cache, source)
        if self.cross is not None and self.combine is not None and source is not None:
            pair = cache.source[0] if cache is not None else self.cross.key_values(source.states)
            context = self.cross.attend(states, masked(layout, source.layout, states), pair)
            states = torch.tanh(self.combine(torch.cat([self.dropout(states), context], -1)))
        states = self.dropout(states if self.norm is None else self.norm(states)) * layout.real.unsqueeze(-1)
        return Flow(states if at is None else states[at], layout, keys, inputs or {}, cached=cache is not None)

    def _states(self, x: Tensor, layout: Layout, source: Encoded | None) -> Tensor:
        """The output of the cells: (rows, n, width) → the same shape"""
        if not bool(layout.real.any()):
            return torch.zeros_like(x)
        found = documents(layout)
        if not self.both_ways:
            check_causal(layout, found)
            apart = found.gather(x)  # padding comes last, and no token follows it
            before = self._first_states(apart, found.name, source)
            return found.scatter(run_cells(self.cells, apart, before), layout.shape)
        check_bidirectional(layout)
        packed = pack_padded_sequence(found.gather(x), found.lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.cells(packed)[0], batch_first=True)
        return found.scatter(states, layout.shape)

    def _cached(self, x: Tensor, layout: Layout, cache: Cache, source: Encoded | None) -> tuple[Tensor, Layout]:
        """The output of the cells for tokens after those of a cache, which then has these too: (rows, n, width) → the
        same shape; and the layout of all tokens."""
        keys, old = cache.extended(layout), len(cache)
        check_one_document(keys)
        kept = cache.source
        if self.cross is not None and source is not None and not kept:
            kept = [self.cross.key_values(source.states)]
        last, layers = last_real(keys[:old]), cache.layers if old else []
        if bool((last >= 0).all()):
            first = zero_states(self.cells, x)  # which no row needs
        else:
            first = self._first_states(x, torch.arange(len(x), device=x.device) * ROW, source)
        found = token_states(self.cells, x, states_before(layers, last, first))
        cache.keep(keys, states_kept(layers, found), kept)
        return found[-1][0], keys

    def _first_states(self, x: Tensor, names: Tensor, source: Encoded | None) -> list[CellState]:
        """The states before the first token of each document, for x (documents, …) and their names
        (documents,): zeros, or for a decoder a function of its source's summary."""
        if self.first is None or source is None:
            return zero_states(self.cells, x)
        summary = source_summary(source, names)
        parts = torch.tanh(self.first(summary)).chunk(self.first.out_features // x.shape[-1], -1)
        if isinstance(self.cells, nn.LSTM):
            return list(zip(parts[::2], parts[1::2], strict=True))
        return [(part, part[:, :0]) for part in parts]

    def key_values(self, states: Tensor) -> list[KeyValues]:
        """An error: recurrent layers have no keys and values."""
        raise LayoutError("A recurrent model has no attention between its tokens, so it takes no memory of keys.")


def source_summary(source: Encoded, names: Tensor) -> Tensor:
    """One vector for each document of a target, given by name (documents,), from its source's states: the first half of
    the last token's, and the second half of the first token's, (documents, width). In a recurrent encoder these have
    read all of it."""
    own = documents(source.layout)
    place = own.places(names)
    states = source.states.flatten(0, 1)
    last = own.token.gather(1, (own.lengths - 1).unsqueeze(-1))[place, 0]
    half = states.shape[-1] // 2
    return torch.cat([states[last][:, :half], states[own.token[place, 0]][:, half:]], -1)
