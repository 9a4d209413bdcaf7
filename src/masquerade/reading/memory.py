"""Encoded passages, kept so that later questions cost only their own tokens.

Up to the layer where a passage is forked nothing about it depends on its questions: its keys and values there, and its
states after them, are computed once and kept. A reader that encodes questions apart needs no keys and values: only the
states are kept, and what the scores of blocks are computed from.
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
from masquerade.nn.between import Fork
from masquerade.nn.blocks import BlockScorer
from masquerade.nn.cache import Cache
from masquerade.nn.model import Model
from masquerade.reading.layouts import ReaderLayout, Window
from masquerade.reading.span_scores import ReaderRows


@dataclass(frozen=True)
class EncodedPassage:
    """A passage at the fork: its states (n, width); keys and values (2, heads, n, d) of each layer below, unless
    questions are encoded apart; and its projected tokens (n, size), if its blocks are scored."""

    layout: Layout  # (n,)
    states: Tensor
    layers: tuple[Tensor, ...]
    tokens: Tensor | None = None

    @property
    def size(self) -> int:
        """The number of bytes."""
        parts = [self.layout.stacked, self.states, *self.layers, *([] if self.tokens is None else [self.tokens])]
        return sum(each.numel() * each.element_size() for each in parts)

    def part(self, chosen: Sequence[int]) -> EncodedPassage:
        """Some of its tokens, by their indices; the last one, [SEP], always stays. For questions encoded apart."""
        index = torch.tensor([*chosen, len(self.layout) - 1], device=self.states.device)
        return EncodedPassage(self.layout[index], self.states[index], ())

    def to(self, dtype: torch.dtype) -> EncodedPassage:
        """A copy in another precision. Where there are keys and values, the states keep theirs: they go through all
        further layers, and rounding both can change an answer."""
        tokens = None if self.tokens is None else self.tokens.to(dtype)
        states = self.states.clone() if self.layers else self.states.to(dtype, copy=True)
        return EncodedPassage(self.layout, states, tuple(each.to(dtype) for each in self.layers), tokens)


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
    layout, cache = batch(trunks, model.spec.pad), None if sizes.apart else Cache()
    states = model.stack(model.embed(layout), layout, cache, steps=range(_shared(model))).states
    scorer = block_scorer(model)
    tokens = None if scorer is None else scorer.token(states)
    found = []
    for row, trunk in enumerate(trunks):
        n, pairs = len(trunk), [] if cache is None else cache.layers
        layers = tuple(torch.stack([key[row, :, :n], value[row, :, :n]]) for key, value in pairs)
        found.append(EncodedPassage(trunk, states[row, :n], layers, None if tokens is None else tokens[row, :n]))
    return found


def encode_questions(
    model: Model, sizes: ReaderLayout, passages: Sequence[EncodedPassage], questions: Sequence[Sequence[Sequence[int]]]
) -> ReaderRows:
    """The questions (ids) of each encoded passage, run with it through all layers: a row for each of them, in order."""
    trunk = batch([each.layout for each in passages], model.spec.pad)
    branches = [join([sizes.branch(ids, number) for number, ids in enumerate(some, start=1)]) for some in questions]
    asked = batch(branches, model.spec.pad).to(model.device)
    if sizes.apart:
        states = _apart(model, sizes, questions, len(asked))
    else:
        cache, steps = Cache(), range(_shared(model))
        layers = [_together([each.layers[step] for each in passages], len(trunk)) for step in steps]
        cache.keep(trunk, [KeyValues(pair.unbind(1)) for pair in layers], [])
        states = model.stack(model.embed(asked), asked, cache, steps=steps).states
    whole, before = join([trunk, asked]), _together([each.states for each in passages], len(trunk))
    rest = range(_shared(model), len(model.spec.order) + 1)
    flow = model.stack(torch.cat([before, states], dim=1), whole, steps=rest)
    return ReaderRows(flow.states, flow.layout, sizes)


def block_scorer(model: Model) -> BlockScorer | None:
    """What scores the blocks of a passage at the fork; None if the model does not."""
    forks = [part for part in model.stack.modules() if isinstance(part, Fork)]
    return forks[0].blocks if forks else None


def encode_apart(model: Model, sizes: ReaderLayout, questions: Sequence[Sequence[int]]) -> list[Tensor]:
    """The states at the fork of questions that are encoded apart from passages: (tokens, width) each."""
    layouts = [sizes.branch(ids) for ids in questions]
    layout = batch(layouts, model.spec.pad).to(model.device)
    states = model.stack(model.embed(layout), layout, steps=range(_shared(model))).states
    return [states[row, : len(each)] for row, each in enumerate(layouts)]


def _apart(model: Model, sizes: ReaderLayout, questions: Sequence[Sequence[Sequence[int]]], length: int) -> Tensor:
    """The states of the questions of each passage, one after the other: (passages, length, width). A question of
    several passages is encoded once."""
    unique = list(dict.fromkeys(tuple(ids) for some in questions for ids in some))
    states = dict(zip(unique, encode_apart(model, sizes, unique), strict=True))
    return _together([torch.cat([states[tuple(ids)] for ids in some]) for some in questions], length)


def _shared(model: Model) -> int:
    """The number of layers below the fork."""
    return model.spec.fork or 0


def _together(parts: Sequence[Tensor], length: int) -> Tensor:
    """Tensors (…, n, d) of any n as one, (rows, …, length, d), padded with zeros."""
    whole = torch.zeros(len(parts), *parts[0].shape[:-2], length, parts[0].shape[-1], device=parts[0].device)
    for row, part in enumerate(parts):
        whole[row, ..., : part.shape[-2], :] = part
    return whole
