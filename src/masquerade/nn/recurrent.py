"""The stack of a recurrent language model: what there was before attention, in the place of the attention layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from masquerade.errors import LayoutError
from masquerade.layout import FAR, Kind, Layout
from masquerade.nn.attention import KeyValues
from masquerade.nn.cache import Cache
from masquerade.nn.norms import norm
from masquerade.nn.spec import Spec
from masquerade.nn.stack import Encoded

CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class RecurrentStack(nn.Module):
    """LSTM or GRU layers, with dropout between and behind them. They read each document of a row from left to right,
    beginning from zeros, and one state is all that a token knows of those before it. So there is one part they can
    play: the causal one."""

    def __init__(self, spec: Spec, kind: str) -> None:
        super().__init__()
        between = spec.dropout if spec.layers > 1 else 0.0
        self.cells = CELLS[kind](spec.width, spec.width, spec.layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(spec.dropout)
        self.norm = norm(spec) if spec.final_norm else None
        self.recompute = False  # for the trainer's sake: one module holds all layers, and none can be run again alone

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        cache: Cache | None = None,
        source: Encoded | None = None,
        at: Tensor | None = None,
    ) -> Tensor:
        """x (rows, n, width), one vector a token of the layout → the same shape, zeros at padding; with ``at``, bool
        (rows, n), the states of the m tokens there, (m, width)."""
        if cache is not None or source is not None:
            raise _looks_back()
        if not bool(layout.real.any()):
            return torch.zeros_like(x) if at is None else torch.zeros_like(x[at])
        document, place = _documents(layout)  # (tokens,) each
        apart = x.new_zeros(int(document.max()) + 1, int(place.max()) + 1, x.shape[-1])
        apart[document, place] = x[layout.real]
        states = self.cells(apart)[0][document, place]  # padding comes last, and nobody reads on from it
        states = self.dropout(states if self.norm is None else self.norm(states))
        out: Tensor = states.new_zeros(x.shape)
        out[layout.real] = states
        return out if at is None else out[at]

    def keys(self, states: Tensor) -> list[KeyValues]:
        """What an attention stack would keep; there is nothing of the kind here."""
        raise _looks_back()


def _looks_back() -> LayoutError:
    return LayoutError(
        "A recurrent model looks back at no tokens, so it takes neither a cache nor a source; lay out the whole text."
    )


def _documents(layout: Layout) -> tuple[Tensor, Tensor]:
    """For each real token of a batch, row by row: which document it belongs to, counted over all rows, and its place
    in it, both (tokens,). Refuses a layout under which a token sees anything but its own past, all of it."""
    real = layout.real
    rows = torch.arange(layout.rows, device=real.device).unsqueeze(-1)
    named = (rows * (layout.document.max() + 1) + layout.document)[real]
    order = named.argsort(stable=True)
    starts = torch.ones_like(named, dtype=torch.bool)  # in that order: does a document begin here?
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
            "A recurrent model reads from left to right, but this layout shows tokens something else than all of "
            "their past; lay the text out with masks.causal."
        )
    return document, place
