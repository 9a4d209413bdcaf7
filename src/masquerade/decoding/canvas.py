"""The canvas: laid-out prompts, and the layout of the tokens that are written after or into them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from masquerade.layout import IGNORE, PADDING, Kind, Layout, join
from masquerade.nn.spec import Spec

NO_TOKEN = -1  # the id where a row has no token

FORWARD = ("position", "rank", "horizon")  # the fields that count up along a text
INSIDE = ("inner", "rank", "horizon")  # … and inside a blank, which has one position


@dataclass(frozen=True)
class Canvas:
    """A batch of laid-out prompts, one a row, and the layout of the tokens to be written."""

    prompt: Layout  # (rows, n), the first input of the model
    first: Layout  # (rows, 1), the layout of the first new token
    increments: tuple[str, ...]  # the fields that grow by one for each further token
    before: Tensor  # (rows, h), the tokens that the text continues, padded on the left with NO_TOKEN
    source: Layout | None = None  # (rows, s), the input of the encoder
    query_kind: Kind | None = None  # the kind of the masks that predict the next token; None: the last token does
    mask: int = 0  # the id of these masks
    places: Tensor | None = None  # (rows, m), the positions of new tokens if not consecutive, or NO_TOKEN
    segment_shift: int = (
        0  # subtracted from segments under the bidirectional mask: UniLM has other segments for each mask
    )
    known: int = 0  # the rank of the prompt under the bidirectional mask

    @property
    def texts(self) -> int:
        """The number of texts that are written."""
        return self.first.rows

    @property
    def history(self) -> Tensor:
        """The tokens that each text continues, (texts, h)."""
        return self.before

    def place(self, ids: Tensor, at: int) -> Layout:
        """The layout of new tokens, (rows, m), the first of which is number ``at`` of the text."""
        steps = at + torch.arange(ids.shape[1], device=ids.device)
        moved = {name: getattr(self.first, name) + steps for name in self.increments}
        laid = Layout(self.first.stacked.expand(-1, -1, ids.shape[1])).replace(ids=ids, **moved)
        if self.places is None:
            return laid
        places = self.places[:, at : at + ids.shape[1]]
        return without(laid.replace(position=places), places == NO_TOKEN)

    def queries(self, at: int, count: int = 1) -> Layout | None:
        """Masks for the tokens ``at`` and following, (rows, count); None if the last token predicts the next one."""
        if self.query_kind is None:
            return None
        masks = torch.full((self.texts, count), self.mask, device=self.first.ids.device)
        return self.place(masks, at).replace(kind=self.query_kind)

    def with_targets(self, texts: Tensor) -> Layout:
        """The prompts with whole texts after them, (rows, m), and NO_TOKEN after the end of a text: the input of one
        pass that predicts every token from those before it. Tokens that predict have the token to predict as their
        label."""
        gone = texts == NO_TOKEN
        words, label = without(self.place(texts.clamp(min=0), 0), gone), texts.masked_fill(gone, IGNORE)
        if self.query_kind is not None:  # a mask for each token, which sees the tokens before it and itself
            kind = Kind.QUERY if self.query_kind is Kind.QUERY else Kind.PEER
            asked = words.replace(ids=self.mask, kind=kind, horizon=words.rank - 1, label=label)
            return join([self.prompt, words, asked])
        whole = join([self.prompt, words])
        rows = torch.arange(whole.rows, device=texts.device)
        last = (self.prompt.real * torch.arange(len(self.prompt), device=texts.device)).argmax(-1)
        labels = torch.full_like(whole.ids, IGNORE)
        labels[rows, last] = label[:, 0]
        labels[:, len(self.prompt) : -1] = label[:, 1:]
        return whole.replace(label=labels)

    def slots(self, ids: Tensor, at: int, block: int | None = None) -> Layout:
        """The layout of tokens that are written together, (rows, m), from number ``at`` on, and see each other. Those
        of a block also see the prompt and the blocks before it; without a block, all tokens see each other."""
        laid = self.place(ids, at)
        if block is None:
            return self._open(laid)
        rank = (self.first.rank + block).expand(ids.shape)
        return laid.replace(rank=rank, horizon=rank - 1, kind=Kind.PEER)

    def settled(self, ids: Tensor, at: int, block: int) -> Layout:
        """The layout of the tokens of a finished block, (rows, m), which later blocks see."""
        rank = (self.first.rank + block).expand(ids.shape)
        return self.place(ids, at).replace(rank=rank, horizon=rank)

    def open_prompt(self) -> Layout:
        """The layout of the prompt where it sees the new tokens."""
        return self._open(self.prompt)

    def _open(self, layout: Layout) -> Layout:
        rank, horizon = layout.rank.clamp(max=self.known), layout.horizon.clamp(max=self.known)
        return layout.replace(rank=rank, horizon=horizon, segment=layout.segment - self.segment_shift * layout.real)

    def blocked(self, size: int) -> tuple[Canvas, Tensor]:
        """The canvas with its prompt in blocks of ``size`` tokens; and the prompt tokens, (rows, t), that share a block
        with the first new tokens and are laid out with them, NO_TOKEN where a row has fewer."""
        length, index = self.first.position, self.prompt.position
        begin = length - length % size
        inside = self.prompt.document.masked_fill(index >= begin, PADDING)
        prompt = self.prompt.replace(rank=index // size, horizon=index // size, document=inside)
        first = self.first.replace(position=begin, rank=begin // size, horizon=begin // size)
        places = begin + torch.arange(int((length - begin).max()), device=index.device)
        tail = self.prompt.ids.gather(1, places.clamp(max=len(self.prompt) - 1)).where(places < length, NO_TOKEN)
        return replace(self, prompt=prompt[: int(begin.max())], first=first), tail

    def select(self, rows: Tensor) -> Canvas:
        """The canvas of these rows, (m,), in this order."""
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
        """The number of tokens that can be written in each row: limited by its positions and those of the model."""
        writer = spec.decoder or spec
        last = 1 if self.query_kind is None else 0  # the last token is never an input
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
