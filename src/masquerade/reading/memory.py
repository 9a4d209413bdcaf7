"""Passages that are kept as far as the network has read them, so that later questions cost only themselves.

Through the layers that a passage is shared by its questions, nothing about it depends on them: its keys and values
there, and its states behind them, are computed once and kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade.layout import Layout, batch, join
from masquerade.nn.attention import KeyValues
from masquerade.nn.cache import Cache
from masquerade.nn.model import Model
from masquerade.reading.layouts import Sheet, Window
from masquerade.reading.span_scores import Rows


@dataclass(frozen=True)
class Kept:
    """A passage as far as it is shared: its states (n, width), and in each layer keys and values (2, heads, n, d)."""

    layout: Layout  # (n,)
    states: Tensor
    layers: tuple[Tensor, ...]

    @property
    def size(self) -> int:
        """How many bytes it takes."""
        parts = (self.layout.stacked, self.states, *self.layers)
        return sum(each.numel() * each.element_size() for each in parts)

    def to(self, dtype: torch.dtype) -> Kept:
        """The same with keys and values in another precision, and apart from what it was read together with. The
        states stay as they are: they go through all layers to come, and rounding them can change an answer."""
        return Kept(self.layout, self.states.clone(), tuple(layer.to(dtype) for layer in self.layers))


class Memory:
    """Passages by their ids, in a bounded number of bytes: what was not asked of for longest goes first."""

    def __init__(self, size: int, dtype: torch.dtype) -> None:
        self.size, self.dtype, self.used = size, dtype, 0
        self.held: OrderedDict[tuple[int, ...], Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self.held)

    def get(self, ids: tuple[int, ...]) -> Kept | None:
        """A passage, if it is still held."""
        if ids not in self.held:
            return None
        self.held.move_to_end(ids)
        return self.held[ids]

    def put(self, ids: tuple[int, ...], kept: Kept) -> None:
        """Hold a passage; others go until there is room, and one that is larger than all the room is not held."""
        stored = kept.to(self.dtype)
        if stored.size > self.size:
            return
        if ids in self.held:
            self.used -= self.held.pop(ids).size
        self.held[ids] = stored
        self.used += stored.size
        while self.used > self.size:
            self.used -= self.held.popitem(last=False)[1].size


def encode(model: Model, sheet: Sheet, windows: Sequence[Window]) -> list[Kept]:
    """Windows of passages, read as far as they are shared."""
    if not windows:
        return []
    trunks = [sheet.trunk(window.ids).to(model.device) for window in windows]
    layout, cache = batch(trunks, model.spec.pad), Cache()
    states = model.stack(model.embed(layout), layout, cache, steps=range(_shared(model))).states
    found = []
    for row, trunk in enumerate(trunks):
        n = len(trunk)
        layers = tuple(torch.stack([key[row, :, :n], value[row, :, :n]]) for key, value in cache.layers)
        found.append(Kept(trunk, states[row, :n], layers))
    return found


def recall(model: Model, sheet: Sheet, passages: Sequence[Kept], questions: Sequence[Sequence[Sequence[int]]]) -> Rows:
    """The questions (ids) of each passage, read with it to the end: a row for each of them, in their order."""
    trunk = batch([kept.layout for kept in passages], model.spec.pad)
    branches = [join([sheet.branch(ids, number) for number, ids in enumerate(asked, start=1)]) for asked in questions]
    asked, cache = batch(branches, model.spec.pad).to(model.device), Cache()
    layers = [
        _together([kept.layers[step] for kept in passages], len(trunk)) for step in range(len(passages[0].layers))
    ]
    cache.keep(trunk, [KeyValues(pair.unbind(1)) for pair in layers], [])
    states = model.stack(model.embed(asked), asked, cache, steps=range(_shared(model))).states
    whole, before = join([trunk, asked]), _together([kept.states for kept in passages], len(trunk))
    rest = range(_shared(model), len(model.spec.order) + 1)
    flow = model.stack(torch.cat([before, states], dim=1), whole, steps=rest)
    return Rows(flow.states, flow.layout, sheet)


def _shared(model: Model) -> int:
    """The number of layers through which a passage is shared by its questions."""
    return model.spec.fork or 0


def _together(parts: Sequence[Tensor], length: int) -> Tensor:
    """Tensors (…, n, d) of any n as one, (rows, …, length, d), with zeros behind the shorter ones."""
    whole = torch.zeros(len(parts), *parts[0].shape[:-2], length, parts[0].shape[-1], device=parts[0].device)
    for row, part in enumerate(parts):
        whole[row, ..., : part.shape[-2], :] = part
    return whole
