"""The memory of segment recurrence in training (Transformer-XL, XLNet)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from masquerade.errors import LayoutError
from masquerade.layout import FAR, PADDING, Kind, Layout
from masquerade.nn.attention import KeyValues
from masquerade.nn.cache import Cache

RELATIVE = ("transformer-xl", "buckets", "alibi", "nezha", "rotary")  # position schemes that know distances only


class SegmentMemory(Cache):
    """What the rows of one pass remember of the segments before it: the input of every layer at the last tokens.

    A plain cache keeps keys and values, which is exact as long as the weights stay the same. In training they change
    from segment to segment. So keys and values are computed anew from the remembered states: the states themselves get
    no gradient, but the projections of keys and values do.
    """

    def __init__(self, valid: Tensor, states: Tensor) -> None:
        """``valid``, bool (rows, m): the tokens that exist; ``states``: (layers, rows, m, width), without gradient. The
        last of the m tokens is the one right before the segment."""
        super().__init__()
        rows, m = valid.shape
        self.states = states
        self.inputs: list[Tensor] = []  # the input of each layer in this pass, each (rows, n, width)
        self.layout = Layout.of(
            torch.zeros(rows, m, dtype=torch.long, device=valid.device),
            position=torch.arange(-m, 0, device=valid.device),
            document=torch.where(valid, 0, PADDING),
            rank=-FAR,
        )

    def past(self, key_values: Callable[[Sequence[Tensor], Layout], list[KeyValues]]) -> list[KeyValues]:
        if self.layout is None or not len(self.layout):
            return []
        return key_values(list(self.states), self.layout)

    def watch(self, states: Tensor) -> None:
        self.inputs.append(states.detach())

    def after(self, m: int) -> tuple[Tensor, Tensor]:
        """The memory behind the pass: the last ``m`` content tokens of the last document of each row, as ``valid`` and
        ``states`` of the next one."""
        whole = self.layout
        if whole is None or bool((whole.kind == Kind.PLACEHOLDER).any()):
            raise LayoutError("A memory cannot go with placeholders, since its tokens would have to see them.")
        last = whole.document.amax(-1, keepdim=True)
        own = (whole.document == last) & whole.real & (whole.kind == Kind.CONTENT)  # (rows, old + n)
        short = m - own.shape[1]
        chosen = own.long().argsort(dim=-1, stable=True)[:, -m:]  # the tokens to keep are last, in reading order
        states = torch.stack([torch.cat(pair, dim=1) for pair in zip(self.states, self.inputs, strict=True)])
        kept = states.gather(2, chosen[None, :, :, None].expand(len(states), -1, -1, states.shape[-1]))
        valid = own.gather(1, chosen)
        if short > 0:
            kept = torch.cat([kept.new_zeros(*kept.shape[:2], short, kept.shape[3]), kept], dim=2)
            valid = torch.cat([valid.new_zeros(len(valid), short), valid], dim=1)
        return valid, kept * valid[None, :, :, None]

    def keep(self, layout: Layout, layers: list[KeyValues], source: list[KeyValues]) -> None:
        self.layout = layout


class StreamMemory:
    """The memories of all streams of a run, each stream a text that is read segment by segment."""

    def __init__(self, streams: int, m: int, layers: int, width: int) -> None:
        self.m = m
        self.valid = torch.zeros(streams, m, dtype=torch.bool)
        self.states = torch.zeros(layers, streams, m, width)

    def before(self, streams: Tensor, continued: Tensor) -> SegmentMemory:
        """The memory of a pass over these streams, (rows,). It is empty where ``continued``, (rows,), is 0, because the
        row begins with a new document."""
        self.valid, self.states = self.valid.to(streams.device), self.states.to(streams.device)
        valid = self.valid[streams] & continued.bool()[:, None]
        return SegmentMemory(valid, self.states[:, streams])

    def keep(self, streams: Tensor, memory: SegmentMemory) -> None:
        """Store what the streams remember after a pass."""
        valid, states = memory.after(self.m)
        self.valid[streams], self.states[:, streams] = valid, states.to(self.states.dtype)

    def clear(self) -> None:
        """Forget everything."""
        self.valid.zero_()
        self.states.zero_()
