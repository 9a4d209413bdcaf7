"""The state of masked decoding: which slots there are, which are known, and how they are laid out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from masquerade.decoding.canvas import NO_TOKEN, without
from masquerade.decoding.loop import DecodingTask, StepInput
from masquerade.errors import MasqueradeError
from masquerade.layout import Kind, Layout


class Slots:
    """The slots of several rows, (rows, n), in blocks of ``size``; ``window`` is the block being written.

    ``prompts`` gives the prompt of each row. A row has as many slots as its prompt's limit; or, where ``lengths`` gives
    its length, that many and one that holds the end token. Where a prompt is continued in blocks, its last tokens may
    share a block with the first new ones, and then have slots as well.
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
        self.offset = (tail != NO_TOKEN).sum(1)  # (rows,), the number of slots that hold prompt tokens
        self.count = self.offset + torch.tensor(wanted, device=device)  # (rows,)
        index = torch.arange(int(self.count.max()), device=device)
        self.real = index < self.count[:, None]
        self.given = index < self.offset[:, None]  # known from the start
        self.ids = torch.full(self.real.shape, self.session.canvas.mask, device=device)
        self.ids[:, : tail.shape[1]] = tail.where(tail != NO_TOKEN, self.session.canvas.mask)
        if task.end is not None:
            last = said[:, None] & (index == self.count[:, None] - 1)
            self.ids, self.given = self.ids.masked_fill(last, task.end), self.given | last
        self.known = self.given.clone()
        self.logs = torch.zeros(self.real.shape, device=device)  # log-probability of each token when it was chosen
        self.size, self.block, self.fresh = size or len(index), 0, True

    @property
    def window(self) -> slice:
        """The slots of the block that is being written."""
        return slice(self.block * self.size, min((self.block + 1) * self.size, self.ids.shape[1]))

    @property
    def whole(self) -> Tensor:
        """Which slots are known or do not exist: (rows, n)"""
        return self.known | ~self.real

    def own(self, row: int) -> slice:
        """The slots of the window that hold new tokens of a row."""
        now, first, count = self.window, int(self.offset[row]), int(self.count[row])
        start = max(first - now.start, 0)
        return slice(start, max(min(count, now.stop) - now.start, start))

    def next_input(self) -> StepInput:
        """The block's slots, with masks where the token is unknown. Before the first round of a block also the previous
        block, or the prompts; in every round the prompts, if they see the slots."""
        canvas, now = self.session.canvas, self.window
        shown = self.ids[:, now].where(self.known[:, now], canvas.mask)
        asked = self._existing(canvas.slots(shown, now.start, None if self.both_ways else self.block), now)
        if self.both_ways:
            return None, asked, canvas.open_prompt()
        fresh, self.fresh = self.fresh, False
        if not fresh:
            return None, asked
        if self.block:
            past = slice(now.start - self.size, now.start)
            return self._existing(canvas.settled(self.ids[:, past], past.start, self.block - 1), past), asked
        return canvas.prompt if len(canvas.prompt) else None, asked

    def _existing(self, layout: Layout, where: slice) -> Layout:
        """The layout with padding for slots that a row does not have."""
        return without(layout, ~self.real[:, where])

    def next_block(self) -> None:
        """Begin the next block."""
        self.block, self.fresh = self.block + 1, True

    def select(self, rows: list[int]) -> None:
        """Keep only these rows."""
        if len(rows) == len(self.ids):
            return
        chosen = torch.tensor(rows, dtype=torch.long, device=self.ids.device)
        for name in ("offset", "count", "real", "given", "ids", "known", "logs"):
            setattr(self, name, getattr(self, name)[chosen])
        if rows:
            self.session.select(chosen)


def check_masks(task: DecodingTask) -> None:
    """Raise an error for models and frames whose masks do not allow several tokens to be written at once."""
    canvas, spec = task.session.canvas, task.session.model.spec
    if canvas.query_kind is Kind.CONTENT and spec.mask != "causal":
        return
    if canvas.source is not None:
        why = "its decoder is causal"
    elif canvas.query_kind is Kind.QUERY:
        why = "its query tokens do not see each other"
    elif spec.mask == "causal":
        why = "its mask is causal"
    elif "inner" in spec.positions:
        why = "it fills its blanks one token at a time"
    else:
        why = "this frame predicts from the previous token instead of a [MASK]"
    raise MasqueradeError(
        f"This model cannot write several tokens at once: {why}; use a BERT in the frame 'prefix', 'continue' or "
        "'masks', or the method greedy, sample or beam."
    )
