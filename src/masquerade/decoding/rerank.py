"""Parallel drafts, scored by the same network under its autoregressive mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from masquerade.decoding.canvas import NO_TOKEN, without
from masquerade.decoding.loop import Commit, DecodingTask, Hypothesis, StepInput
from masquerade.decoding.masked_decoding import Lengths, MaskedDecoding, Plan
from masquerade.decoding.plans import parallel
from masquerade.errors import MasqueradeError
from masquerade.layout import Kind, Layout


@dataclass(frozen=True)
class Given:
    """Existing drafts, some for each prompt, as ids without end tokens."""

    texts: Sequence[Sequence[Sequence[int]]]

    @property
    def copies(self) -> int:
        return max(map(len, self.texts))

    def start(self, task: DecodingTask) -> FinishedRun:
        return FinishedRun([[Hypothesis(list(text), 0.0, len(text) < limit) for text in texts]
                        for texts, limit in zip(self.texts, task.limits, strict=True)])  # fmt: skip


@dataclass(frozen=True)
class FinishedRun:
    """A run that is already finished."""

    found: list[list[Hypothesis]]

    def next_input(self) -> StepInput | None:
        return None

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        return []

    def results(self) -> list[list[Hypothesis]]:
        return self.found


Drafting = Plan | Given


@dataclass(frozen=True)
class Rerank:
    """The ``copies`` best of several ``drafts``: a number of drafts by ``parallel`` with these ``lengths``, the copies
    of another plan, or given drafts.

    All drafts are scored in one pass under the autoregressive mask, with a [MASK] for each token that sees the tokens
    before it. The score of a draft is its log-probability divided by its length (the end token included) to the power
    of ``length_penalty``, as in Beam. ``both_ways`` is that of ``parallel``.
    """

    drafts: int | Drafting = 8
    lengths: Lengths | None = None
    length_penalty: float = 1.0
    copies: int = 1
    both_ways: bool = True

    def __post_init__(self) -> None:
        count = self._method().copies
        if not isinstance(self.drafts, int) and self.lengths is not None:
            raise MasqueradeError("'lengths' belongs to the method that writes the drafts; set it where that is made.")
        if not 1 <= self.copies <= count:
            raise MasqueradeError(f"{count} drafts cannot give {self.copies} texts; give 1 to {count} copies.")

    def _method(self) -> Drafting:
        return parallel(self.lengths, self.drafts, self.both_ways) if isinstance(self.drafts, int) else self.drafts

    def start(self, task: DecodingTask) -> Reranking:
        return Reranking(task, self._method().start(task), self)


class Reranking:
    """A run that writes drafts, then scores them."""

    def __init__(self, task: DecodingTask, drafting: MaskedDecoding | FinishedRun, settings: Rerank) -> None:
        self.task, self.drafting, self.settings = task, drafting, settings
        self.found: list[list[Hypothesis]] = []
        self.drafts: list[tuple[int, Hypothesis]] = []  # with their prompts
        self.shown = self.over = False

    def next_input(self) -> StepInput | None:
        """The inputs of the drafts; then the prompts, once each; then all drafts after them."""
        if self.over:
            return None
        if not self.drafts:
            turn = self.drafting.next_input()
            if turn is not None:
                return turn
            self.task.session.clear()
            self.drafts = [(prompt, text) for prompt, texts in enumerate(self.drafting.results()) for text in texts]
        if not self.shown:
            return self.task.session.canvas.prompt, None
        return None, *self._read()

    def _read(self) -> tuple[Layout, Layout]:
        """The tokens of the drafts, and a [MASK] for each of them: each (rows, longest)."""
        canvas, ids = self.task.session.canvas, self._ids()
        words = without(canvas.place(ids.clamp(min=0), 0), ids == NO_TOKEN)
        return words.replace(ids=canvas.mask, kind=Kind.PEER, horizon=words.rank - 1), words

    def _ids(self) -> Tensor:
        """The drafts with their ends, (rows, longest); NO_TOKEN after them."""
        texts = [[*text.ids, *([self.task.end] if text.ended else [])] for _, text in self.drafts]
        longest = max(map(len, texts))
        rows = [text + [NO_TOKEN] * (longest - len(text)) for text in texts]
        return torch.tensor(rows, device=self.task.session.owner.device)

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        """Take scores (rows, m, vocab): of the drafts' run, of the prompts, or of the finished drafts."""
        if not self.drafts:
            self.drafting.commit(scores, step)
            return []
        if not self.shown:
            self.task.session.select(torch.tensor([prompt for prompt, _ in self.drafts], device=scores.device))
            self.shown = True
            return []
        ids = self._ids()
        logs = scores.log_softmax(-1).gather(-1, ids.clamp(min=0)[..., None])[..., 0].masked_fill(ids == NO_TOKEN, 0.0)
        lengths = (ids != NO_TOKEN).sum(1)
        totals = logs.sum(1) / lengths**self.settings.length_penalty
        self.found = [[] for _ in self.task.limits]
        for (prompt, text), score in zip(self.drafts, totals.tolist(), strict=True):
            self.found[prompt].append(replace(text, score=score))
        for texts in self.found:
            texts.sort(key=lambda text: -text.score)
        self.over = True
        last = ({commit.index: commit for commit in texts[0].trace} for texts in self.found)
        return [commit for written in last for commit in written.values()]

    def results(self) -> list[list[Hypothesis]]:
        """The best drafts of each prompt."""
        return [texts[: self.settings.copies] for texts in self.found]
