"""A page: prompts laid out, and where the tokens that are written behind them will stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from masquerade.layout import FIELDS, Kind, Layout
from masquerade.nn.spec import Spec

NOTHING = -1  # the id of a token that is not there, in what a text continues

FORWARD = ("position", "rank", "horizon")  # what counts up along a text
INSIDE = ("inner", "rank", "horizon")  # what counts up inside a blank, which stands in one place


@dataclass(frozen=True)
class Page:
    """A batch of prompts laid out, a row each, and how the tokens that are written behind them will be."""

    prompt: Layout  # (rows, n), what the model is shown first
    first: Layout  # (rows, 1), how the first written token is laid out
    moves: tuple[str, ...]  # the fields that are one higher for each further token
    before: Tensor  # (rows, h), the tokens that the writing continues, to the right; NOTHING where a row has fewer
    source: Layout | None = None  # (rows, s), what an encoder reads
    asking: Kind | None = None  # the kind of the masks that ask for the next token; None: the last token is asked
    mask: int = 0  # … and their id

    def lay(self, ids: Tensor, at: int) -> Layout:
        """Written tokens, (rows, m), the first of which is number ``at`` of what is written."""
        steps = at + torch.arange(ids.shape[1], device=ids.device)
        fields = {name: getattr(self.first, name) for name in FIELDS if name != "ids"}
        moved = {name: field + steps if name in self.moves else field for name, field in fields.items()}
        return Layout(ids=ids, **{name: field.expand(ids.shape) for name, field in moved.items()})

    def ask(self, at: int, count: int = 1) -> Layout | None:
        """Masks in the places of tokens ``at`` and following, (rows, count); None where the last token is asked."""
        if self.asking is None:
            return None
        masks = torch.full((self.first.rows, count), self.mask, device=self.first.ids.device)
        return self.lay(masks, at).replace(kind=self.asking)

    def select(self, rows: Tensor) -> Page:
        """These rows, (m,), in this order."""
        return self._map(lambda field: field[rows])

    def to(self, device: torch.device) -> Page:
        """The page on another device."""
        return self._map(lambda field: field.to(device))

    def _map(self, change: Callable[[Tensor], Tensor]) -> Page:
        source = None if self.source is None else self.source.map(change)
        prompt, first = self.prompt.map(change), self.first.map(change)
        return replace(self, prompt=prompt, first=first, source=source, before=change(self.before))

    def prompts(self) -> list[list[int]]:
        """The ids of each prompt: of its source, where it has one."""
        layout = self.prompt if self.source is None else self.source
        return [layout.row(row).ids.tolist() for row in range(layout.rows)]

    def room(self, spec: Spec) -> list[int]:
        """How many tokens can be written in each row before the model's positions are used up."""
        writer = spec.decoder or spec
        last = 1 if self.asking is None else 0  # the last token that is chosen need not be run
        tables = {"learned": "position", "inner": "inner"}
        rooms = torch.full((self.first.rows,), torch.iinfo(torch.long).max)
        for scheme, field in tables.items():
            if scheme not in writer.positions:
                continue
            limit = writer.longest - writer.position_offset
            if field in self.moves:
                rooms = torch.minimum(rooms, limit - getattr(self.first, field)[:, 0].cpu() + last)
            rooms = rooms.where((getattr(self.prompt, field) < limit).all(-1).cpu(), 0)
        if self.source is not None and "learned" in spec.positions:
            rooms = rooms.where((self.source.position < spec.longest - spec.position_offset).all(-1).cpu(), 0)
        return [int(room) for room in rooms]
