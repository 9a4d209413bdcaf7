"""One token a step: greedy, and by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from masquerade.decoding.constraints import State
from masquerade.decoding.logits import Processor, chance, draw, temperature, top_k, top_p
from masquerade.decoding.loop import Commit, Hypothesis, Job, Turn
from masquerade.errors import MasqueradeError

Chances = Sequence[torch.Generator]  # one a row
Picker = Callable[[Tensor, Tensor, Chances], Tensor]  # scores (rows, vocab), tokens so far (rows, n) → ids (rows,)


@dataclass
class Draft:
    """A text on the way, one row of the desk."""

    prompt: int
    state: State
    chance: torch.Generator
    ids: list[int] = field(default_factory=list)
    trace: list[Commit] = field(default_factory=list)
    score: float = 0.0
    ended: bool = False


class Sequential:
    """Texts that grow by one token a step until each has come to its end; those that have leave the desk. A text's
    score is its log-probability, divided by its length to the power of ``penalty``."""

    def __init__(self, job: Job, pick: Picker, copies: int = 1, seed: int = 0, penalty: float = 0.0) -> None:
        self.job, self.pick, self.copies, self.penalty = job, pick, copies, penalty
        prompts = job.desk.page.prompts()
        self.drafts = [
            Draft(owner, state, chance(seed, prompts[owner], copy))
            for owner, state in enumerate(job.states(range(len(prompts))))
            for copy in range(copies)
        ]
        self.live = list(self.drafts)
        self.last: Tensor | None = None  # (rows, 1), the newest token of each live text
        self.history: Tensor | None = None  # (rows, n), what each continues and its own tokens

    def lay_out(self) -> Turn | None:
        """The newest tokens, or at first the prompts, and masks for the next ones where they are asked for."""
        if not self.live:
            return None
        page, done = self.job.desk.page, len(self.live[0].ids)
        return page.prompt if self.last is None else page.lay(self.last, done - 1), page.ask(done)

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        """Scores (rows, 1, vocab): choose one token for each text."""
        job, desk = self.job, self.job.desk
        if self.history is None:
            rows = torch.arange(len(scores), device=scores.device).repeat_interleave(self.copies)
            desk.select(rows)
            scores, self.history = scores[rows], desk.page.before
        owners, states = [draft.prompt for draft in self.live], [draft.state for draft in self.live]
        done = len(self.live[0].ids)
        admitted = job.admit(scores[:, 0], self.history, done, owners, states)
        tokens = self.pick(admitted, self.history, [draft.chance for draft in self.live])
        logs = scores[:, 0].log_softmax(-1).gather(1, tokens[:, None])[:, 0].tolist()
        commits, going = [], []
        for row, (draft, token, log) in enumerate(zip(self.live, tokens.tolist(), logs, strict=True)):
            draft.score += log
            draft.trace.append(Commit(draft.prompt, step, done, token))
            draft.ended = token == job.end
            draft.ids.append(token)
            commits.append(draft.trace[-1])
            if not draft.ended and len(draft.ids) < job.limits[draft.prompt]:
                draft.state = job.advance(draft.prompt, draft.state, token)
                going.append(row)
        rows = torch.tensor(going, dtype=torch.long, device=scores.device)
        self.live = [self.live[row] for row in going]
        if self.live:
            desk.select(rows)
            self.last = tokens[rows, None]
            self.history = torch.cat([self.history[rows], self.last], dim=1)
        return commits

    def results(self) -> list[list[Hypothesis]]:
        """The copies of each prompt, in the order in which they were drawn."""
        found: list[list[Hypothesis]] = [[] for _ in self.job.limits]
        for draft in self.drafts:
            ids = draft.ids[:-1] if draft.ended else draft.ids
            score = draft.score / len(draft.ids) ** self.penalty
            found[draft.prompt].append(Hypothesis(ids, score, draft.ended, draft.trace))
        return found


def best(scores: Tensor, history: Tensor, chances: Chances) -> Tensor:
    """The best token of each row: (rows, vocab) → (rows,)"""
    return scores.argmax(-1)


@dataclass(frozen=True)
class Greedy:
    """Always the most probable token."""

    def start(self, job: Job) -> Sequential:
        return Sequential(job, best)


@dataclass(frozen=True)
class Sample:
    """Tokens by chance, as probable as the model holds them; ``copies`` texts for each prompt."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None  # None: any
    copies: int = 1

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise MasqueradeError(f"{self.copies} texts cannot be drawn for a prompt; ask for at least one.")
        self._processors()

    def _processors(self) -> list[Processor]:
        """In the usual order: temperature, the best k of them, and of these the best of probability p."""
        made = [temperature(self.temperature)]
        if self.top_k is not None:
            made.append(top_k(self.top_k))
        if self.top_p is not None:
            made.append(top_p(self.top_p))
        return made

    def start(self, job: Job) -> Sequential:
        processors = self._processors()
        seed = int(torch.randint(2**31 - 1, ())) if self.seed is None else self.seed

        def pick(scores: Tensor, history: Tensor, chances: Chances) -> Tensor:
            for processor in processors:
                scores = processor(scores, history)
            return draw(scores, chances)

        return Sequential(job, pick, self.copies, seed)
