"""Beam search: the best unfinished texts of every prompt, extended by one token a step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade.decoding.autoregressive import AutoregressiveDecoding, best
from masquerade.decoding.constraints import State
from masquerade.decoding.loop import Commit, DecodingRun, DecodingTask, Hypothesis, StepInput
from masquerade.errors import MasqueradeError


@dataclass(frozen=True)
class Beam:
    """Beam search with ``beams`` beams, returning the ``copies`` best texts of each prompt.

    The score of a text is its log-probability divided by its length (the end token included) to the power of
    ``length_penalty``; above 0 this favours long texts. The search for a prompt ends once it has as many finished texts
    as beams and ``early_stopping`` is true; or the best beam would, if it ended now, score worse than all of them; or,
    with ``early_stopping`` "never", it would score worse at any length. One beam is greedy.
    """

    beams: int = 4
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    copies: int = 1

    def __post_init__(self) -> None:
        if self.beams < 1:
            raise MasqueradeError(f"A search with {self.beams} beams finds nothing; give at least one.")
        if not 1 <= self.copies <= self.beams:
            raise MasqueradeError(f"{self.beams} beams cannot give {self.copies} texts; give 1 to {self.beams}.")
        if self.early_stopping not in (True, False, "never"):
            raise MasqueradeError(f"'early_stopping' is true, false or 'never', not '{self.early_stopping}'.")

    def start(self, task: DecodingTask) -> DecodingRun:
        return (
            AutoregressiveDecoding(task, best, penalty=self.length_penalty)
            if self.beams == 1
            else BeamSearch(task, self)
        )


class BeamSearch:
    """A run of beam search. Every prompt still searched has the same number of rows in the session."""

    def __init__(self, task: DecodingTask, settings: Beam) -> None:
        self.task, self.settings = task, settings
        device = task.session.owner.device
        self.live = list(range(len(task.limits)))  # the prompts still searched
        self.found: list[list[Hypothesis]] = [[] for _ in self.live]  # finished texts, the best first
        self.ids = torch.zeros(len(self.live), 0, dtype=torch.long, device=device)  # (rows, done)
        self.scores = torch.zeros(len(self.live), 1, device=device)  # (prompts, beams), log-probabilities
        self.states: list[State] = task.states(self.live)  # one a row
        canvas = task.session.canvas
        self.forced = canvas.before.shape[1] - 1 if canvas.source is not None else 0  # a second start token counts

    def next_input(self) -> StepInput | None:
        """The newest tokens, in the first step the prompts; and masks for the next tokens, if the canvas has them."""
        if not self.live:
            return None
        canvas, done = self.task.session.canvas, self.ids.shape[1]
        return canvas.place(self.ids[:, -1:], done - 1) if done else canvas.prompt, canvas.queries(done)

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        """Scores (rows, 1, vocab): extend every beam by every token, and keep the best."""
        task, session, (prompts, beams), width = self.task, self.task.session, self.scores.shape, self.settings.beams
        done, vocab = self.ids.shape[1], scores.shape[-1]
        owners = [prompt for prompt in self.live for _ in range(beams)]
        history = torch.cat([session.canvas.history, self.ids], dim=1)
        logs = task.allowed_scores(scores[:, 0].log_softmax(-1), history, done, owners, self.states)
        # one candidate of each beam may be the end token, so 2 · width candidates leave width unfinished ones
        logs, tokens = logs.topk(min(2 * width, vocab))
        total = (self.scores.view(-1, 1) + logs).view(prompts, -1)
        top, places = total.topk(min(2 * width, total.shape[1]))
        parent, token = places // logs.shape[1], tokens.view(prompts, -1).gather(1, places)
        limits = torch.tensor([task.limits[prompt] for prompt in self.live], device=token.device)
        ends = (done + 1 >= limits)[:, None].expand_as(token)
        if task.end is not None:
            ends = ends | (token == task.end)
        rows = parent + self._starts()
        self._finish(top[:, :width], rows[:, :width], token[:, :width], ends[:, :width])
        running, order = top.masked_fill(ends, -torch.inf).topk(min(width, top.shape[1]))
        going = [item for item, best in enumerate(running[:, 0].tolist()) if not self._over(item, best, done + 1)]
        commits = [each for item in set(range(prompts)) - set(going) for each in self._best(self.live[item])]
        self._go_on(going, running, parent.gather(1, order), token.gather(1, order))
        return commits

    def results(self) -> list[list[Hypothesis]]:
        """The best finished texts of each prompt."""
        for number, found in zip(self.task.numbers, self.found, strict=True):
            if not found:
                raise MasqueradeError(f"The search found nothing for prompt {number}; allow more tokens or beams.")
        return [found[: self.settings.copies] for found in self.found]

    def _finish(self, scores: Tensor, rows: Tensor, tokens: Tensor, ends: Tensor) -> None:
        """Add finished candidates, each (prompts, width), to the found texts."""
        length = self.ids.shape[1] + 1 + self.forced
        for item, place in (ends & scores.isfinite()).nonzero().tolist():
            prompt, token = self.live[item], int(tokens[item, place])
            ids = [*self.ids[rows[item, place]].tolist(), token]
            score = float(scores[item, place]) / length**self.settings.length_penalty
            trace = [Commit(prompt, index, index, number) for index, number in enumerate(ids)]
            ended = token == self.task.end
            self.found[prompt].append(Hypothesis(ids[:-1] if ended else ids, score, ended, trace))
            self.found[prompt].sort(key=lambda text: -text.score)
            del self.found[prompt][self.settings.beams :]

    def _over(self, item: int, running: float, done: int) -> bool:
        """Whether no better text can be found for this prompt."""
        prompt, settings = self.live[item], self.settings
        if running == -torch.inf:
            return True
        if len(self.found[prompt]) < settings.beams:
            return False
        if settings.early_stopping is True:
            return True
        longest = settings.early_stopping == "never" and settings.length_penalty > 0
        length = self.forced + (self.task.limits[prompt] if longest else done)
        hoped: float = running / length**settings.length_penalty
        return hoped <= self.found[prompt][-1].score

    def _go_on(self, going: list[int], running: Tensor, parent: Tensor, token: Tensor) -> None:
        """Continue the prompts at ``going`` with their best beams: their scores, the beam that each extends, and the
        token it adds, each (prompts, beams)."""
        beams, parents = parent.shape[1], parent.tolist()
        taken = [beams * item + child for item in going for child in _in_place(parents[item])]
        order = torch.tensor(taken, dtype=torch.long, device=token.device)
        chosen = (parent + self._starts()).flatten()[order]
        tokens = token.flatten()[order]
        self.live = [self.live[item] for item in going]
        self.scores = running.flatten()[order].view(-1, beams)
        alive = self.scores.flatten().isfinite().tolist()
        owners = [prompt for prompt in self.live for _ in range(beams)]
        self.states = [
            self.task.advance(owner, self.states[row], number) if lives else None
            for owner, row, number, lives in zip(owners, chosen.tolist(), tokens.tolist(), alive, strict=True)
        ]
        self.ids = torch.cat([self.ids[chosen], tokens[:, None]], dim=1)
        if self.live:
            self.task.session.select(chosen)

    def _starts(self) -> Tensor:
        """The first of each prompt's rows, (prompts, 1)."""
        prompts, beams = self.scores.shape
        return beams * torch.arange(prompts, device=self.scores.device)[:, None]

    def _best(self, prompt: int) -> list[Commit]:
        return self.found[prompt][0].trace if self.found[prompt] else []


def _in_place(parents: list[int]) -> list[int]:
    """An order of the new beams in which as many as possible keep the row of the beam they extend, so that the cache
    need not be moved; ``parents`` gives the beam that each extends."""
    first = {parent: child for child, parent in reversed(list(enumerate(parents)))}
    others = iter(child for child, parent in enumerate(parents) if first[parent] != child)
    return [first[place] if place in first else next(others) for place in range(len(parents))]
