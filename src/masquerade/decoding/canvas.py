"""A canvas: prompts laid out, and where the tokens that are written behind them will stand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from masquerade.layout import PADDING, Kind, Layout
from masquerade.nn.spec import Spec

NO_TOKEN = -1  # the id of a token that is not there, in what a text continues

FORWARD = ("position", "rank", "horizon")  # what counts up along a text
INSIDE = ("inner", "rank", "horizon")  # what counts up inside a blank, which stands in one place


@dataclass(frozen=True)
class Canvas:
    """A batch of prompts laid out, a row each, and how the tokens that are written behind them will be."""

    prompt: Layout  # (rows, n), what the model is shown first
    first: Layout  # (rows, 1), how the first written token is laid out
    increments: tuple[str, ...]  # the fields that are one higher for each further token
    before: Tensor  # (rows, h), the tokens that the writing continues, to the right; NO_TOKEN where a row has fewer
    source: Layout | None = None  # (rows, s), what an encoder reads
    query_kind: Kind | None = None  # the kind of the masks that ask for the next token; None: the last token is asked
    mask: int = 0  # … and their id
    places: Tensor | None = None  # (rows, m), where each written token stands, if not one behind another; or NO_TOKEN
    segment_shift: int = (
        0  # subtracted from segments under the bidirectional mask: UniLM has other segments for each mask
    )
    known: int = 0  # the rank by which a prompt is known, where everybody sees everybody

    def place(self, ids: Tensor, at: int) -> Layout:
        """Written tokens, (rows, m), the first of which is number ``at`` of what is written."""
        steps = at + torch.arange(ids.shape[1], device=ids.device)
        moved = {name: getattr(self.first, name) + steps for name in self.increments}
        laid = Layout(self.first.stacked.expand(-1, -1, ids.shape[1])).replace(ids=ids, **moved)
        if self.places is None:
            return laid
        places = self.places[:, at : at + ids.shape[1]]
        return without(laid.replace(position=places), places == NO_TOKEN)

    def queries(self, at: int, count: int = 1) -> Layout | None:
        """Masks in the places of tokens ``at`` and following, (rows, count); None where the last token is asked."""
        if self.query_kind is None:
            return None
        masks = torch.full((self.first.rows, count), self.mask, device=self.first.ids.device)
        return self.place(masks, at).replace(kind=self.query_kind)

    def slots(self, ids: Tensor, at: int, block: int | None = None) -> Layout:
        """Tokens that are written together, (rows, m), from number ``at`` on, and see each other: those of a block,
        which also see the prompt and the blocks before, as PEERs; without a block, everybody sees everybody."""
        laid = self.place(ids, at)
        if block is None:
            return self._open(laid)
        rank = (self.first.rank + block).expand(ids.shape)
        return laid.replace(rank=rank, horizon=rank - 1, kind=Kind.PEER)

    def settled(self, ids: Tensor, at: int, block: int) -> Layout:
        """The tokens of a block, (rows, m), once they are written: the blocks behind it see them."""
        rank = (self.first.rank + block).expand(ids.shape)
        return self.place(ids, at).replace(rank=rank, horizon=rank)

    def around(self) -> Layout:
        """The prompt where it sees what is written behind it or into it."""
        return self._open(self.prompt)

    def _open(self, layout: Layout) -> Layout:
        rank, horizon = layout.rank.clamp(max=self.known), layout.horizon.clamp(max=self.known)
        return layout.replace(rank=rank, horizon=horizon, segment=layout.segment - self.segment_shift * layout.real)

    def blocked(self, size: int) -> tuple[Canvas, Tensor]:
        """A prompt that is continued, in blocks of ``size`` tokens as its text is; and those tokens of it, (rows, t),
        that share a block with the first written ones and are laid out with those; NO_TOKEN where a row has fewer."""
        length, index = self.first.position, self.prompt.position
        begin = length - length % size
        inside = self.prompt.document.masked_fill(index >= begin, PADDING)
        prompt = self.prompt.replace(rank=index // size, horizon=index // size, document=inside)
        first = self.first.replace(position=begin, rank=begin // size, horizon=begin // size)
        places = begin + torch.arange(int((length - begin).max()), device=index.device)
        tail = self.prompt.ids.gather(1, places.clamp(max=len(self.prompt) - 1)).where(places < length, NO_TOKEN)
        return replace(self, prompt=prompt[: int(begin.max())], first=first), tail

    def select(self, rows: Tensor) -> Canvas:
        """These rows, (m,), in this order."""
        source = None if self.source is None else self.source.select(rows)
        places = None if self.places is None else self.places[rows]
        prompt, first = self.prompt.select(rows), self.first.select(rows)
        return replace(self, prompt=prompt, first=first, source=source, before=self.before[rows], places=places)

    def to(self, device: torch.device) -> Canvas:
        """The canvas on another device."""
        source = None if self.source is None else self.source.to(device)
        places = None if self.places is None else self.places.to(device)
        prompt, first = self.prompt.to(device), self.first.to(device)
        return replace(self, prompt=prompt, first=first, source=source, before=self.before.to(device), places=places)

    def prompts(self) -> list[list[int]]:
        """The ids of each prompt: of its source, where it has one."""
        layout = self.prompt if self.source is None else self.source
        return [layout.row(row).ids.tolist() for row in range(layout.rows)]

    def room(self, spec: Spec) -> list[int]:
        """How many tokens can be written in each row before its places or the model's positions are used up."""
        writer = spec.decoder or spec
        last = 1 if self.query_kind is None else 0  # the last token that is chosen need not be run
        tables = {"learned": "position", "inner": "inner"}
        rooms = torch.full((self.first.rows,), torch.iinfo(torch.long).max)
        if self.places is not None:
            rooms = (self.places != NO_TOKEN).sum(-1).cpu()
        for scheme, field in tables.items():
            if scheme not in writer.positions:
                continue
            limit = writer.longest - writer.position_offset
            if field in self.increments:
                rooms = torch.minimum(rooms, limit - getattr(self.first, field)[:, 0].cpu() + last)
            rooms = rooms.where((getattr(self.prompt, field) < limit).all(-1).cpu(), 0)
            if self.places is not None and field == "position":
                rooms = rooms.where((self.places < limit).all(-1).cpu(), 0)
        if self.source is not None and "learned" in spec.positions:
            rooms = rooms.where((self.source.position < spec.longest - spec.position_offset).all(-1).cpu(), 0)
        return [int(room) for room in rooms]


def without(layout: Layout, gone: Tensor) -> Layout:
    """A layout in which the tokens at ``gone``, bool (rows, n), are padding."""
    return layout.replace(
        document=layout.document.masked_fill(gone, PADDING), position=layout.position.masked_fill(gone, 0)
    )
