"""One token a step: greedy decoding and sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from masquerade.decoding.constraints import State
from masquerade.decoding.logits import Processor, any_seed, draw, rng_for_text, temperature, top_k, top_p
from masquerade.decoding.loop import Commit, DecodingTask, Hypothesis, StepInput
from masquerade.errors import MasqueradeError

Rngs = Sequence[torch.Generator]  # one a row
Picker = Callable[[Tensor, Tensor, Rngs], Tensor]  # scores (rows, vocab), tokens so far (rows, n) → ids (rows,)


@dataclass
class Continuation:
    """A text in progress, one row of the session."""

    prompt: int
    state: State
    rng: torch.Generator
    ids: list[int] = field(default_factory=list)
    trace: list[Commit] = field(default_factory=list)
    score: float = 0.0
    ended: bool = False


class AutoregressiveDecoding:
    """A run that adds one token a step to every unfinished text. The score of a text is its log-probability divided
    by its length to the power of ``penalty``."""

    def __init__(self, task: DecodingTask, pick: Picker, copies: int = 1, seed: int = 0, penalty: float = 0.0) -> None:
        self.task, self.pick, self.copies, self.penalty = task, pick, copies, penalty
        prompts = task.session.canvas.prompts()
        self.drafts = [
            Continuation(owner, state, rng_for_text(seed, prompts[owner], copy))
            for owner, state in enumerate(task.states(range(len(prompts))))
            for copy in range(copies)
        ]
        self.live = list(self.drafts)
        self.last: Tensor | None = None  # (rows, 1), the newest token of each live text
        self.history: Tensor | None = None  # (rows, n), the tokens of the prompt and of the text

    def next_input(self) -> StepInput | None:
        """The newest tokens, in the first step the prompts; and masks for the next tokens, if the canvas has them."""
        if not self.live:
            return None
        canvas, done = self.task.session.canvas, len(self.live[0].ids)
        return canvas.prompt if self.last is None else canvas.place(self.last, done - 1), canvas.queries(done)

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        """Scores (rows, 1, vocab): choose one token for each text."""
        task, session = self.task, self.task.session
        if self.history is None:
            rows = torch.arange(len(scores), device=scores.device).repeat_interleave(self.copies)
            session.select(rows)
            scores, self.history = scores[rows], session.canvas.history
        owners, states = [draft.prompt for draft in self.live], [draft.state for draft in self.live]
        done = len(self.live[0].ids)
        admitted = task.allowed_scores(scores[:, 0], self.history, done, owners, states)
        tokens = self.pick(admitted, self.history, [draft.rng for draft in self.live])
        logs = scores[:, 0].log_softmax(-1).gather(1, tokens[:, None])[:, 0].tolist()
        commits, going = [], []
        for row, (draft, token, log) in enumerate(zip(self.live, tokens.tolist(), logs, strict=True)):
            draft.score += log
            draft.trace.append(Commit(draft.prompt, step, done, token))
            draft.ended = token == task.end
            draft.ids.append(token)
            commits.append(draft.trace[-1])
            if not draft.ended and len(draft.ids) < task.limits[draft.prompt]:
                draft.state = task.advance(draft.prompt, draft.state, token)
                going.append(row)
        rows = torch.tensor(going, dtype=torch.long, device=scores.device)
        self.live = [self.live[row] for row in going]
        if self.live:
            session.select(rows)
            self.last = tokens[rows, None]
            self.history = torch.cat([self.history[rows], self.last], dim=1)
        return commits

    def results(self) -> list[list[Hypothesis]]:
        """The texts of each prompt, in the order of their copies."""
        found: list[list[Hypothesis]] = [[] for _ in self.task.limits]
        for draft in self.drafts:
            ids = draft.ids[:-1] if draft.ended else draft.ids
            score = draft.score / len(draft.ids) ** self.penalty
            found[draft.prompt].append(Hypothesis(ids, score, draft.ended, draft.trace))
        return found


def best(scores: Tensor, history: Tensor, rngs: Rngs) -> Tensor:
    """The most probable token of each row: (rows, vocab) → (rows,)"""
    return scores.argmax(-1)


@dataclass(frozen=True)
class Greedy:
    """Chooses the most probable token."""

    def start(self, task: DecodingTask) -> AutoregressiveDecoding:
        return AutoregressiveDecoding(task, best)


@dataclass(frozen=True)
class Sample:
    """Samples tokens by their probability; ``copies`` texts for each prompt."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None  # None: a random one
    copies: int = 1

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise MasqueradeError(f"{self.copies} texts cannot be sampled for a prompt; give at least one.")
        self._processors()

    def _processors(self) -> list[Processor]:
        """The processors in the usual order: temperature, top k, top p."""
        made = [temperature(self.temperature)]
        if self.top_k is not None:
            made.append(top_k(self.top_k))
        if self.top_p is not None:
            made.append(top_p(self.top_p))
        return made

    def start(self, task: DecodingTask) -> AutoregressiveDecoding:
        processors = self._processors()

        def pick(scores: Tensor, history: Tensor, rngs: Rngs) -> Tensor:
            for processor in processors:
                scores = processor(scores, history)
            return draw(scores, rngs)

        return AutoregressiveDecoding(task, pick, self.copies, any_seed(self.seed))
