"""Encoded passages, kept so that later questions cost only their own tokens.

Up to the layer where a passage is forked nothing about it depends on its questions: its keys and values there, and its
states after them, are computed once and kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import torch
from torch import Tensor

from masquerade.layout import Layout, batch, join
from masquerade.nn.attention import KeyValues
from masquerade.nn.cache import Cache
from masquerade.nn.model import Model
from masquerade.reading.layouts import ReaderLayout, Window
from masquerade.reading.span_scores import ReaderRows


@dataclass(frozen=True)
class EncodedPassage:
    """A passage at the fork: its states (n, width), and keys and values (2, heads, n, d) of each layer below."""

    layout: Layout  # (n,)
    states: Tensor
    layers: tuple[Tensor, ...]

    @property
    def size(self) -> int:
        """The number of bytes."""
        parts = (self.layout.stacked, self.states, *self.layers)
        return sum(each.numel() * each.element_size() for each in parts)

    def to(self, dtype: torch.dtype) -> EncodedPassage:
        """A copy with keys and values in another precision. The states keep theirs: they go through all further layers,
        and rounding them can change an answer."""
        return EncodedPassage(self.layout, self.states.clone(), tuple(layer.to(dtype) for layer in self.layers))


class Memory:
    """Encoded passages by their ids, up to a number of bytes; the least recently used ones are dropped first. It may be
    used from several threads."""

    def __init__(self, size: int, dtype: torch.dtype) -> None:
        self.size, self.dtype, self.used = size, dtype, 0
        self.held: OrderedDict[tuple[int, ...], EncodedPassage] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self.held)

    def __contains__(self, ids: object) -> bool:
        return ids in self.held

    def get(self, ids: tuple[int, ...]) -> EncodedPassage | None:
        """A passage; None if it is not held."""
        with self._lock:
            if ids in self.held:
                self.held.move_to_end(ids)
            return self.held.get(ids)

    def put(self, ids: tuple[int, ...], passage: EncodedPassage) -> None:
        """Hold a passage and drop others until there is room. One that is larger than the whole memory is not held."""
        stored = passage.to(self.dtype)
        if stored.size > self.size:
            return
        with self._lock:
            if ids in self.held:
                self.used -= self.held.pop(ids).size
            self.held[ids] = stored
            self.used += stored.size
            while self.used > self.size:
                self.used -= self.held.popitem(last=False)[1].size


def encode_passages(model: Model, sizes: ReaderLayout, windows: Sequence[Window]) -> list[EncodedPassage]:
    """Windows of passages, run through the layers below the fork."""
    if not windows:
        return []
    trunks = [sizes.trunk(window.ids).to(model.device) for window in windows]
    layout, cache = batch(trunks, model.spec.pad), Cache()
    states = model.stack(model.embed(layout), layout, cache, steps=range(_shared(model))).states
    found = []
    for row, trunk in enumerate(trunks):
        n = len(trunk)
        layers = tuple(torch.stack([key[row, :, :n], value[row, :, :n]]) for key, value in cache.layers)
        found.append(EncodedPassage(trunk, states[row, :n], layers))
    return found


def encode_questions(
    model: Model, sizes: ReaderLayout, passages: Sequence[EncodedPassage], questions: Sequence[Sequence[Sequence[int]]]
) -> ReaderRows:
    """The questions (ids) of each encoded passage, run with it through all layers: a row for each of them, in order."""
    trunk = batch([each.layout for each in passages], model.spec.pad)
    branches = [join([sizes.branch(ids, number) for number, ids in enumerate(some, start=1)]) for some in questions]
    asked, cache = batch(branches, model.spec.pad).to(model.device), Cache()
    layers = [_together([each.layers[step] for each in passages], len(trunk)) for step in range(_shared(model))]
    cache.keep(trunk, [KeyValues(pair.unbind(1)) for pair in layers], [])
    states = model.stack(model.embed(asked), asked, cache, steps=range(_shared(model))).states
    whole, before = join([trunk, asked]), _together([each.states for each in passages], len(trunk))
    rest = range(_shared(model), len(model.spec.order) + 1)
    flow = model.stack(torch.cat([before, states], dim=1), whole, steps=rest)
    return ReaderRows(flow.states, flow.layout, sizes)


def _shared(model: Model) -> int:
    """The number of layers below the fork."""
    return model.spec.fork or 0


def _together(parts: Sequence[Tensor], length: int) -> Tensor:
    """Tensors (…, n, d) of any n as one, (rows, …, length, d), padded with zeros."""
    whole = torch.zeros(len(parts), *parts[0].shape[:-2], length, parts[0].shape[-1], device=parts[0].device)
    for row, part in enumerate(parts):
        whole[row, ..., : part.shape[-2], :] = part
    return whole
