"""Slots: the places of tokens that are written together, what is known of them, and how they are laid out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from masquerade.decoding.canvas import NO_TOKEN, without
from masquerade.decoding.loop import DecodingTask, StepInput
from masquerade.errors import MasqueradeError
from masquerade.layout import Kind, Layout


class Slots:
    """Slots of several rows, (rows, n), in blocks of ``size``: those of the block being written are a window on them.

    ``prompts`` are the prompts of the rows. A row has as many slots as its prompt's limit; or, where its length is said
    in ``lengths``, that many and one for the end, which stands there from the first. Where a text goes on from its
    prompt in blocks, the end of the prompt shares a block with what is written, and has slots, too.
    """

    def __init__(
        self,
        task: DecodingTask,
        prompts: Sequence[int],
        lengths: Sequence[int | None],
        size: int | None,
        both_ways: bool,
    ) -> None:
        self.session, self.both_ways = task.session, both_ways and size is None
        device = self.session.owner.device
        tail = torch.zeros(len(self.session.owner), 0, dtype=torch.long, device=device)
        if not self.both_ways and self.session.canvas.before.shape[1]:
            longest = int(self.session.canvas.first.position.max()) + max(task.limits)
            self.session.canvas, tail = self.session.canvas.blocked(size or longest)
        owners = torch.tensor(prompts, device=device)
        self.session.select(owners)
        tail = tail[owners]
        said = torch.tensor([length is not None for length in lengths], device=device)
        closing = int(task.end is not None)
        wanted = [task.limits[p] if n is None else n + closing for p, n in zip(prompts, lengths, strict=True)]
        self.offset = (tail != NO_TOKEN).sum(1)  # (rows,), the slots before the first that is written
        self.count = self.offset + torch.tensor(wanted, device=device)  # (rows,)
        index = torch.arange(int(self.count.max()), device=device)
        self.real = index < self.count[:, None]
        self.given = index < self.offset[:, None]  # known from the first
        self.ids = torch.full(self.real.shape, self.session.canvas.mask, device=device)
        self.ids[:, : tail.shape[1]] = tail.where(tail != NO_TOKEN, self.session.canvas.mask)
        if task.end is not None:
            last = said[:, None] & (index == self.count[:, None] - 1)
            self.ids, self.given = self.ids.masked_fill(last, task.end), self.given | last
        self.known = self.given.clone()
        self.logs = torch.zeros(self.real.shape, device=device)  # of the words, when they were written
        self.size, self.block, self.fresh = size or len(index), 0, True

    @property
    def window(self) -> slice:
        """The slots of the block that is being written."""
        return slice(self.block * self.size, min((self.block + 1) * self.size, self.ids.shape[1]))

    @property
    def whole(self) -> Tensor:
        """Which slots are known, or not there: (rows, n)"""
        return self.known | ~self.real

    def own(self, row: int) -> slice:
        """The slots of the window that hold what is written in a row."""
        now, first, count = self.window, int(self.offset[row]), int(self.count[row])
        start = max(first - now.start, 0)
        return slice(start, max(min(count, now.stop) - now.start, start))

    def next_input(self) -> StepInput:
        """The block's slots, those that are not known as masks; before its first round what it looks back at, the block
        before or the prompts; or in every round the prompts, if these look at the slots."""
        canvas, now = self.session.canvas, self.window
        shown = self.ids[:, now].where(self.known[:, now], canvas.mask)
        asked = self._there(canvas.slots(shown, now.start, None if self.both_ways else self.block), now)
        if self.both_ways:
            return None, asked, canvas.around()
        fresh, self.fresh = self.fresh, False
        if not fresh:
            return None, asked
        if self.block:
            past = slice(now.start - self.size, now.start)
            return self._there(canvas.settled(self.ids[:, past], past.start, self.block - 1), past), asked
        return canvas.prompt if len(canvas.prompt) else None, asked

    def _there(self, layout: Layout, where: slice) -> Layout:
        """Without the slots that a row does not have."""
        return without(layout, ~self.real[:, where])

    def next_block(self) -> None:
        """Go on behind the block that is written."""
        self.block, self.fresh = self.block + 1, True

    def select(self, rows: list[int]) -> None:
        """Go on with these rows."""
        if len(rows) == len(self.ids):
            return
        chosen = torch.tensor(rows, dtype=torch.long, device=self.ids.device)
        for name in ("offset", "count", "real", "given", "ids", "known", "logs"):
            setattr(self, name, getattr(self, name)[chosen])
        if rows:
            self.session.select(chosen)


def check_masks(task: DecodingTask) -> None:
    """Refuse models and frames whose masks do not let several words be written at once."""
    canvas, spec = task.session.canvas, task.session.model.spec
    if canvas.query_kind is Kind.CONTENT and spec.mask != "causal":
        return
    if canvas.source is not None:
        why = "its decoder sees only the words before"
    elif canvas.query_kind is Kind.QUERY:
        why = "its queries do not see each other"
    elif spec.mask == "causal":
        why = "under its causal mask a word sees only those before it"
    elif "inner" in spec.positions:
        why = "it writes into its blanks word by word"
    else:
        why = "this frame asks the word before instead of a [MASK]"
    raise MasqueradeError(
        f"This model cannot write several words at once: {why}; take one of BERT's kind in the frame 'prefix', "
        "'continue' or 'masks', or write by greedy, sample or beam."
    )
