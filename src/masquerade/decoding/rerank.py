"""Drafts written all at once, and chosen by the same network reading them word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from masquerade.decoding.canvas import NO_TOKEN, without
from masquerade.decoding.lengths import Lengths
from masquerade.decoding.loop import Commit, DecodingTask, Hypothesis, StepInput
from masquerade.decoding.masked_decoding import MaskedDecoding
from masquerade.decoding.plans import Diffusion, MaskPredict, Parallel
from masquerade.errors import MasqueradeError
from masquerade.layout import Kind, Layout


@dataclass(frozen=True)
class Given:
    """Drafts that are there already, some for each prompt, as ids without their ends."""

    texts: Sequence[Sequence[Sequence[int]]]

    @property
    def copies(self) -> int:
        return max(map(len, self.texts))

    def start(self, task: DecodingTask) -> FinishedRun:
        return FinishedRun([[Hypothesis(list(text), 0.0, len(text) < limit) for text in texts]
                        for texts, limit in zip(self.texts, task.limits, strict=True)])  # fmt: skip


@dataclass(frozen=True)
class FinishedRun:
    """A batch of prompts that is written already."""

    found: list[list[Hypothesis]]

    def next_input(self) -> StepInput | None:
        return None

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        return []

    def results(self) -> list[list[Hypothesis]]:
        return self.found


Drafting = Parallel | MaskPredict | Diffusion | Given


@dataclass(frozen=True)
class Rerank:
    """The best of several parallel ``drafts``: so many of Parallel, of the ``lengths`` that are said, if any; or the
    copies of another method; or those that are given.

    All drafts are scored in one pass under the mask that writes word by word, each word asked for by a mask that sees
    the words before it. A draft's score is its log-probability divided by its length (the end included) to the power of
    ``length_penalty``, as a beam's is. The ``copies`` best are given.
    """

    drafts: int | Drafting = 8
    lengths: Lengths | None = None
    length_penalty: float = 1.0
    copies: int = 1

    def __post_init__(self) -> None:
        count = self._method().copies
        if not isinstance(self.drafts, int) and self.lengths is not None:
            raise MasqueradeError("'lengths' belongs to the method that writes the drafts; set it where that is made.")
        if not 1 <= self.copies <= count:
            raise MasqueradeError(f"Of {count} drafts {self.copies} cannot be the best; ask for 1 to {count} copies.")

    def _method(self) -> Drafting:
        return Parallel(self.lengths, self.drafts) if isinstance(self.drafts, int) else self.drafts

    def start(self, task: DecodingTask) -> Reranking:
        return Reranking(task, self._method().start(task), self)


class Reranking:
    """Drafts being written, then scored."""

    def __init__(self, task: DecodingTask, drafting: MaskedDecoding | FinishedRun, settings: Rerank) -> None:
        self.task, self.drafting, self.settings = task, drafting, settings
        self.found: list[list[Hypothesis]] = []
        self.drafts: list[tuple[int, Hypothesis]] = []  # with their prompts
        self.shown = self.over = False

    def next_input(self) -> StepInput | None:
        """What the drafts need; then the prompts, once each; then all drafts behind them."""
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
        """Masks that ask for each word of the drafts, and the words: each (rows, longest)."""
        canvas, ids = self.task.session.canvas, self._ids()
        words = without(canvas.place(ids.clamp(min=0), 0), ids == NO_TOKEN)
        return words.replace(ids=canvas.mask, kind=Kind.PEER, horizon=words.rank - 1), words

    def _ids(self) -> Tensor:
        """The drafts with their ends, (rows, longest); NO_TOKEN behind them."""
        texts = [[*text.ids, *([self.task.end] if text.ended else [])] for _, text in self.drafts]
        longest = max(map(len, texts))
        rows = [text + [NO_TOKEN] * (longest - len(text)) for text in texts]
        return torch.tensor(rows, device=self.task.session.owner.device)

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        """Scores of what is asked: (rows, m, vocab)."""
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
