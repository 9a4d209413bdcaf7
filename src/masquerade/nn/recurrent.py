"""The stack of a recurrent language model, in place of attention layers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from masquerade.errors import LayoutError
from masquerade.layout import FAR, Kind, Layout
from masquerade.nn.attention import KeyValues
from masquerade.nn.between import Flow
from masquerade.nn.cache import Cache
from masquerade.nn.norms import norm
from masquerade.nn.spec import Spec
from masquerade.nn.stack import Encoded

CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class RecurrentStack(nn.Module):
    """LSTM or GRU layers with dropout between and after them. Each document of a row is read from left to right, from
    a state of zeros, so the layout has to be causal."""

    def __init__(self, spec: Spec, kind: str) -> None:
        super().__init__()
        dropout = spec.dropout if spec.layers > 1 else 0.0
        self.cells = CELLS[kind](spec.width, spec.width, spec.layers, batch_first=True, dropout=dropout)
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
        With ``at``, bool (rows, n), the states are those of the m tokens there, (m, width)."""
        if cache is not None or source is not None:
            raise _no_keys()
        out = self._states(x, layout)
        return Flow(out if at is None else out[at], layout, layout, inputs or {})

    def _states(self, x: Tensor, layout: Layout) -> Tensor:
        """(rows, n, width) → the same shape"""
        if not bool(layout.real.any()):
            return torch.zeros_like(x)
        document, place = _documents(layout)  # (tokens,) each
        apart = x.new_zeros(int(document.max()) + 1, int(place.max()) + 1, x.shape[-1])
        apart[document, place] = x[layout.real]
        states = self.cells(apart)[0][document, place]  # padding comes last, and no token follows it
        states = self.dropout(states if self.norm is None else self.norm(states))
        out: Tensor = states.new_zeros(x.shape)
        out[layout.real] = states
        return out

    def key_values(self, states: Tensor) -> list[KeyValues]:
        """An error: recurrent layers have no keys and values."""
        raise _no_keys()


def _no_keys() -> LayoutError:
    return LayoutError(
        "A recurrent model has no attention, so it takes neither a cache nor a source; lay out the whole text."
    )


def _documents(layout: Layout) -> tuple[Tensor, Tensor]:
    """For each real token of a batch, row by row: the number of its document, counted over all rows, and its index in
    it, both (tokens,). An error unless every token sees exactly itself and the tokens before it."""
    real = layout.real
    rows = torch.arange(layout.rows, device=real.device).unsqueeze(-1)
    named = (rows * (layout.document.max() + 1) + layout.document)[real]
    order = named.argsort(stable=True)
    starts = torch.ones_like(named, dtype=torch.bool)  # in that order: whether a document begins here
    starts[1:] = named[order][1:] != named[order][:-1]
    rank = layout.rank[real][order]
    rises = starts[1:] | (rank[1:] > rank[:-1])
    document, place = torch.empty_like(named), torch.empty_like(named)
    document[order] = starts.cumsum(0) - 1
    index = torch.arange(len(named), device=named.device)
    place[order] = index - (index * starts).cummax(0).values
    plain = (layout.kind == Kind.CONTENT) & (layout.branch == 0) & (layout.reach == FAR)
    if not bool(rises.all() & (plain & (layout.horizon == layout.rank))[real].all()):
        raise LayoutError(
            "A recurrent model needs a causal layout: every token sees itself and all tokens before it; "
            "lay the text out with masks.causal."
        )
    return document, place
