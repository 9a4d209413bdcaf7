"""LSTM and GRU layers token by token, which gives the state behind every token; PyTorch's own return only the last."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.nn.attention import KeyValues

Cells = nn.LSTM | nn.GRU
CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}

# The state of one layer: hidden and cell of an LSTM; of a GRU the hidden state, and a second tensor of width 0.
CellState = tuple[Tensor, Tensor]


def token_states(cells: Cells, x: Tensor, before: Sequence[CellState]) -> list[CellState]:
    """The states of each layer behind every token, each (rows, n, width), for inputs (rows, n, width) and the states
    of each layer before the first token, each (rows, width). The last layer's hidden states are the output."""
    found: list[CellState] = []
    for layer, (hidden, cell) in enumerate(before):
        weights = [getattr(cells, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        if layer:
            x = F.dropout(x, cells.dropout, cells.training)
        behind: list[CellState] = []
        for token in x.unbind(1):
            if isinstance(cells, nn.LSTM):
                hidden, cell = torch.lstm_cell(token, (hidden, cell), *weights)
            else:
                hidden = torch.gru_cell(token, hidden, *weights)
            behind.append((hidden, cell))
        found.append((torch.stack([one for one, _ in behind], 1), torch.stack([two for _, two in behind], 1)))
        x = found[-1][0]
    return found


def run_cells(cells: Cells, x: Tensor, before: Sequence[CellState]) -> Tensor:
    """The output behind every token, (rows, n, width), by PyTorch's own loop."""
    hidden = torch.stack([one for one, _ in before])
    if isinstance(cells, nn.LSTM):
        out: Tensor = cells(x, (hidden, torch.stack([two for _, two in before])))[0]
    else:
        out = cells(x, hidden)[0]
    return out


def zero_states(cells: Cells, x: Tensor) -> list[CellState]:
    """States of zeros for each layer, for inputs (rows, …)."""
    zeros = x.new_zeros(len(x), cells.hidden_size)
    return [(zeros, zeros if isinstance(cells, nn.LSTM) else zeros[:, :0]) for _ in range(cells.num_layers)]


def states_before(kept: Sequence[KeyValues], last: Tensor, first: Sequence[CellState]) -> list[CellState]:
    """The states of each layer before new tokens, each (rows, width): those that a cache keeps behind the last token of
    each row, given by its index (rows,); or where that is below 0, or nothing is kept, those before the first token."""
    if not kept:
        return list(first)
    row, index, begun = torch.arange(len(last), device=last.device), last.clamp(min=0), (last >= 0).unsqueeze(-1)
    return [
        (torch.where(begun, hidden[row, 0, index], one), torch.where(begun, cell[row, 0, index], two))
        for (hidden, cell), (one, two) in zip(kept, first, strict=True)
    ]


def states_kept(kept: Sequence[KeyValues], new: Sequence[CellState]) -> list[KeyValues]:
    """What a cache keeps of each layer, each (rows, 1, n, width), with the states behind new tokens added, each
    (rows, m, width)."""
    layers = [KeyValues((hidden.unsqueeze(1), cell.unsqueeze(1))) for hidden, cell in new]
    return [past.extended(*more) for past, more in zip(kept, layers, strict=True)] if kept else layers
