"""The loop: lay out the next tokens, run the network, commit some of them, until nothing is left to write.

Every method is a Writing: it says what to lay out, and takes the scores. One token a step is GPT, all of them at once
is the parallel reader; the loop does not know which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import torch
from torch import Tensor

from masquerade import kernels
from masquerade.decoding.canvas import Canvas
from masquerade.decoding.constraints import END, Constraint, State, TokenSet
from masquerade.decoding.logits import Processor
from masquerade.errors import MasqueradeError
from masquerade.layout import Layout, join
from masquerade.nn.cache import Cache
from masquerade.nn.model import Model
from masquerade.nn.stack import Encoded

# Tokens to show the model for good, tokens that ask, and tokens that are shown for this turn alone.
StepInput = tuple[Layout | None, Layout | None] | tuple[Layout | None, Layout | None, Layout | None]


@dataclass(frozen=True)
class Commit:
    """A token that was written for good: for which prompt, at which step, as which token of the text."""

    prompt: int
    step: int
    index: int
    id: int


@dataclass(frozen=True)
class Hypothesis:
    """What was written for a prompt: its ids without the end token, whether it came to its end, and how good it is."""

    ids: list[int]
    score: float
    ended: bool
    trace: list[Commit] = field(default_factory=list)


class DecodingRun(Protocol):
    """A batch of prompts being written."""

    def next_input(self) -> StepInput | None:
        """What to run next; None when everything is written."""

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        """Take the scores of what was asked, (rows, m, vocab), and say which tokens are now written."""

    def results(self) -> list[list[Hypothesis]]:
        """For each prompt, what was written, the best first."""


class Session:
    """What a model has been shown so far, and the only place where it is run: a row for each hypothesis.

    Keys and values are kept from one pass to the next, which is exact where no token shown before sees a later one;
    with ``cached`` false everything is run again each time.
    """

    @torch.inference_mode()
    def __init__(self, model: Model, canvas: Canvas, cached: bool = True) -> None:
        self.model, self.cached, self.prompts = model, cached, canvas.to(model.device)
        self.encoded = None if self.prompts.source is None else model.encode(self.prompts.source)
        self.clear()

    def clear(self) -> None:
        """Back to a row for each prompt, with nothing shown."""
        self.canvas, self.source = self.prompts, self.encoded
        self.owner = torch.arange(self.canvas.first.rows, device=self.model.device)  # which prompt each row is for
        self.cache = Cache() if self.cached else None
        self.shown: Layout | None = None  # without a cache, all that was kept

    @torch.inference_mode()
    def run(self, kept: Layout | None, asked: Layout | None, around: Layout | None = None) -> Tensor:
        """Show tokens that stay, and tokens that ask and are gone afterwards, as are those ``around`` them; what stays
        must not see what goes.

        Gives the scores at each asked token, (rows, m, vocab); where nothing is asked, those at the last token of each
        row that stays, (rows, 1, vocab).
        """
        new = join([part for part in (kept, around, asked) if part is not None])
        asks, stays = (0 if part is None else len(part) for part in (asked, kept))
        goes = len(new) - stays
        if self.cache is not None and (stays or len(self.cache)):
            with kernels.for_tokens(new.ids.numel()):
                states = self.model.hidden(new, self.cache, self.source)
            self.cache.crop(len(self.cache) - goes)
        else:
            whole = new if self.shown is None else join([self.shown, new])
            states = self.model.hidden(whole, source=self.source)[:, len(whole) - len(new) :]
            self.shown = whole[: len(whole) - goes] if goes < len(whole) else None
        if asks or len(new) == 1:
            asking = states[:, len(new) - max(asks, 1) :]
        else:
            last = (new.real * torch.arange(len(new), device=states.device)).argmax(-1)
            asking = states[torch.arange(len(states), device=states.device), last][:, None]
        return self.logits(asking, new, states)

    def logits(self, asking: Tensor, new: Layout, states: Tensor) -> Tensor:
        """The scores at states that ask, (rows, m, width) → (rows, m, vocab); ``new`` (rows, n) is all that was shown
        in this turn, with its states (rows, n, width)."""
        return self.model.head("lm", asking).float()

    @torch.inference_mode()
    def select(self, rows: Tensor) -> None:
        """Go on with these rows, (m,), in this order; a row may be named several times."""
        if torch.equal(rows, torch.arange(len(self.owner), device=rows.device)):
            return
        owner = self.owner[rows]
        stays = torch.equal(owner, self.owner)  # rows change places among those of a prompt, which need not move
        if self.cache is not None:
            self.cache.select(rows, siblings=stays)
        if self.shown is not None:
            self.shown = self.shown.select(rows)
        if not stays:
            self.canvas, self.owner = self.canvas.select(rows), owner
        if not stays and self.source is not None:
            layout = self.source.layout.select(rows)
            self.source = Encoded(self.source.states[rows], layout)


@dataclass
class DecodingTask:
    """What is to be written, whatever the method: the session with its prompts, and the rules that hold for all."""

    session: Session
    end: int | None  # the token that ends a text
    limits: list[int]  # how many tokens may be written for each prompt, the end included
    least: int = 0  # how many have to be written before the end
    processors: Sequence[Processor] = ()
    constraints: list[Constraint | None] = field(default_factory=list)  # one a prompt, or none at all
    numbers: list[int] = field(default_factory=list)  # what prompts are called in sentences; by default 1, 2, 3 …

    def __post_init__(self) -> None:
        self.constraints = self.constraints or [None] * len(self.limits)
        self.numbers = self.numbers or list(range(1, len(self.limits) + 1))
        for number, constraint, limit in zip(self.numbers, self.constraints, self.limits, strict=True):
            if constraint is None:
                continue
            if self.end is None and not isinstance(constraint, TokenSet):
                raise MasqueradeError(
                    "This constraint says where a text may end, but here texts have no end token; a set of tokens "
                    "does without."
                )
            if not len(self.allowed(constraint, constraint.start(), limit)):
                raise MasqueradeError(
                    f"The constraint on prompt {number} cannot be met within {limit} tokens: {constraint.hint}."
                )

    def states(self, owners: Sequence[int]) -> list[State]:
        """Where the constraints of these prompts begin."""
        held = (self.constraints[owner] for owner in owners)
        return [None if constraint is None else constraint.start() for constraint in held]

    def advance(self, owner: int, state: State, token: int) -> State:
        """Where a prompt's constraint is after a token."""
        constraint = self.constraints[owner]
        return state if constraint is None or token == self.end else constraint.advance(state, token)

    def allowed_scores(
        self, scores: Tensor, history: Tensor, done: int, owners: Sequence[int], states: list[State]
    ) -> Tensor:
        """Scores (rows, vocab) with −∞ for what may not be written next, after ``done`` tokens: under the processors,
        the least length and the constraints. A constraint always holds; where the others leave nothing of what it
        allows, they give way."""
        kept = scores
        for processor in self.processors:
            kept = processor(kept, history)
        if self.end is not None and done < self.least:
            kept = kept.index_fill(-1, torch.tensor([self.end], device=kept.device), -torch.inf)
        if all(constraint is None for constraint in self.constraints):
            return kept
        open_to = torch.full_like(scores, -torch.inf)
        for row, (owner, state) in enumerate(zip(owners, states, strict=True)):
            constraint = self.constraints[owner]
            if constraint is None:
                open_to[row] = 0
            elif state is not None:
                allowed = self.allowed(constraint, state, self.limits[owner] - done)
                if not len(allowed):
                    raise MasqueradeError("A constraint leaves nothing to write next; does it hold the end token?")
                open_to[row, allowed.to(scores.device)] = 0
        kept = kept + open_to
        stuck = kept.isneginf().all(-1, keepdim=True)
        return torch.where(stuck, scores + open_to, kept)

    def allowed(self, constraint: Constraint, state: State, room: int) -> Tensor:
        """The ids that a constraint allows, (m,), with the model's own end token, if it has one."""
        ids = constraint.allowed(state, room)
        ids = ids[ids != (END if self.end is None else self.end)]
        vocab = self.session.model.spec.vocab
        if len(ids) and int(ids.max()) >= vocab:
            raise MasqueradeError(f"A constraint allows token {int(ids.max())}, but this model has only {vocab}.")
        return ids if self.end is None else ids.masked_fill(ids == END, self.end)


def write(session: Session, writing: DecodingRun) -> Iterator[list[Commit]]:
    """The one loop. Gives what each step committed."""
    for step in count():
        turn = writing.next_input()
        if turn is None:
            return
        yield writing.commit(session.run(*turn), step)
