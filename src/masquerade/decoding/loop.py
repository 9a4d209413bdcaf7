"""The decoding loop: lay out the next tokens, run the network, commit some tokens, until all texts are finished.

Every method is a DecodingRun, which lays out inputs and takes scores. It may commit one token a step, as GPT, or all of
them at once, as the parallel reader; the loop is the same.
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

# The input of a step: tokens that stay in the context, tokens to predict at, and perhaps tokens for this step only.
StepInput = tuple[Layout | None, Layout | None] | tuple[Layout | None, Layout | None, Layout | None]


@dataclass(frozen=True)
class Commit:
    """A final token: its prompt, the step that wrote it, its index in the text, its id."""

    prompt: int
    step: int
    index: int
    id: int


@dataclass(frozen=True)
class Hypothesis:
    """A text for a prompt: its ids without the end token, its score, and whether it has an end token."""

    ids: list[int]
    score: float
    ended: bool
    trace: list[Commit] = field(default_factory=list)


class DecodingRun(Protocol):
    """A method at work on a batch of prompts."""

    def next_input(self) -> StepInput | None:
        """The next input of the network; None when all texts are finished."""

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        """Take the scores at the queried tokens, (rows, m, vocab); returns the tokens that are now final."""

    def results(self) -> list[list[Hypothesis]]:
        """The texts of each prompt, the best first."""


class Session:
    """The model, its cache and the layout so far, with one row for each hypothesis. All passes run here.

    Keys and values are cached, which is exact if no earlier token sees a later one; with ``cached`` false every pass
    runs all tokens again.
    """

    @torch.inference_mode()
    def __init__(self, model: Model, canvas: Canvas, cached: bool = True) -> None:
        self.model, self.cached, self.prompts = model, cached, canvas.to(model.device)
        self.encoded = None if self.prompts.source is None else model.encode(self.prompts.source)
        self.clear()

    def clear(self) -> None:
        """Reset to one row for each prompt and an empty context."""
        self.canvas, self.source = self.prompts, self.encoded
        self.owner = torch.arange(self.canvas.first.rows, device=self.model.device)  # the prompt of each row
        self.cache = Cache() if self.cached else None
        self.shown: Layout | None = None  # without a cache, the context so far

    @torch.inference_mode()
    def run(self, kept: Layout | None, queried: Layout | None, around: Layout | None = None) -> Tensor:
        """Run the network on tokens that stay in the context, ``kept``, and on tokens that do not: those ``queried``
        and those ``around`` them. Kept tokens must not see the others.

        Returns the scores at each queried token, (rows, m, vocab); if there are none, at the last kept token of each
        row, (rows, 1, vocab).
        """
        new = join([part for part in (kept, around, queried) if part is not None])
        queries, stays = (0 if part is None else len(part) for part in (queried, kept))
        goes = len(new) - stays
        if self.cache is not None and (stays or len(self.cache)):
            with kernels.for_tokens(new.ids.numel()):
                states = self.model.hidden(new, self.cache, self.source)
            self.cache.crop(len(self.cache) - goes)
        else:
            whole = new if self.shown is None else join([self.shown, new])
            states = self.model.hidden(whole, source=self.source)[:, len(whole) - len(new) :]
            self.shown = whole[: len(whole) - goes] if goes < len(whole) else None
        if queries or len(new) == 1:
            at_queries = states[:, len(new) - max(queries, 1) :]
        else:
            last = (new.real * torch.arange(len(new), device=states.device)).argmax(-1)
            at_queries = states[torch.arange(len(states), device=states.device), last][:, None]
        return self.logits(at_queries, new, states)

    def logits(self, at_queries: Tensor, new: Layout, states: Tensor) -> Tensor:
        """The scores for the states of queried tokens, (rows, m, width) → (rows, m, vocab); ``new`` (rows, n) is the
        whole input of this step, with its states (rows, n, width)."""
        return self.model.head("lm", at_queries).float()

    @torch.inference_mode()
    def select(self, rows: Tensor) -> None:
        """Keep these rows, (m,), in this order; a row may occur several times."""
        if torch.equal(rows, torch.arange(len(self.owner), device=rows.device)):
            return
        owner = self.owner[rows]
        stays = torch.equal(owner, self.owner)  # rows of a prompt change places only among themselves
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
    """A batch of prompts with limits, processors and constraints, independent of the method."""

    session: Session
    end: int | None  # the token that ends a text
    limits: list[int]  # the most tokens for each prompt, the end token included
    least: int = 0  # the fewest tokens before the end token
    processors: Sequence[Processor] = ()
    constraints: list[Constraint | None] = field(default_factory=list)  # one a prompt, or empty
    numbers: list[int] = field(default_factory=list)  # the numbers of prompts in messages; by default 1, 2, 3 …

    def __post_init__(self) -> None:
        self.constraints = self.constraints or [None] * len(self.limits)
        self.numbers = self.numbers or list(range(1, len(self.limits) + 1))
        for number, constraint, limit in zip(self.numbers, self.constraints, self.limits, strict=True):
            if constraint is None:
                continue
            if self.end is None and not isinstance(constraint, TokenSet):
                raise MasqueradeError(
                    "This constraint needs an end token, but the texts of this frame have none; use a TokenSet."
                )
            if not len(self.allowed(constraint, constraint.start(), limit)):
                raise MasqueradeError(
                    f"The constraint on prompt {number} cannot be met within {limit} tokens: {constraint.hint}."
                )

    def states(self, owners: Sequence[int]) -> list[State]:
        """The start states of the constraints of these prompts."""
        held = (self.constraints[owner] for owner in owners)
        return [None if constraint is None else constraint.start() for constraint in held]

    def advance(self, owner: int, state: State, token: int) -> State:
        """The state of a prompt's constraint after a token."""
        constraint = self.constraints[owner]
        return state if constraint is None or token == self.end else constraint.advance(state, token)

    def allowed_scores(
        self, scores: Tensor, history: Tensor, done: int, owners: Sequence[int], states: list[State]
    ) -> Tensor:
        """Scores (rows, vocab) with −∞ for tokens that are not allowed after ``done`` tokens, by the processors, the
        least length and the constraints. Where the first two leave none of the tokens that a constraint allows, they
        are ignored."""
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
                    raise MasqueradeError(
                        "A constraint allows no next token; check whether its strings contain the end token."
                    )
                open_to[row, allowed.to(scores.device)] = 0
        kept = kept + open_to
        stuck = kept.isneginf().all(-1, keepdim=True)
        return torch.where(stuck, scores + open_to, kept)

    def allowed(self, constraint: Constraint, state: State, room: int) -> Tensor:
        """The ids that a constraint allows, (m,), with END replaced by the model's end token."""
        ids = constraint.allowed(state, room)
        ids = ids[ids != (END if self.end is None else self.end)]
        vocab = self.session.model.spec.vocab
        if len(ids) and int(ids.max()) >= vocab:
            raise MasqueradeError(
                f"A constraint allows token {int(ids.max())}, but the vocabulary of this model has {vocab}."
            )
        return ids if self.end is None else ids.masked_fill(ids == END, self.end)


def write(session: Session, writing: DecodingRun) -> Iterator[list[Commit]]:
    """Run the decoding loop; yields the final tokens of each step."""
    for step in count():
        turn = writing.next_input()
        if turn is None:
            return
        yield writing.commit(session.run(*turn), step)
