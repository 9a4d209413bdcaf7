"""The γ-mixture of an autoregressive and a non-autoregressive half: its losses, its γ in training, and decoding from
the second half in one pass. The network is ``masquerade.nn.mixture``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from masquerade.data.packing import Batch
from masquerade.decoding.loop import Commit, DecodingTask, Hypothesis, StepInput
from masquerade.decoding.strings import variations
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE, join
from masquerade.nn.mixture import MixtureHead, MixtureStack, gamma_logit, mixed_by
from masquerade.nn.model import Model
from masquerade.objectives.loss import StatesAt, Term, TokenTerm

HALVES = ("autoregressive", "parallel")


def mixture_of(model: Model) -> MixtureStack | None:
    """The decoder of a model that is a mixture; None of any other."""
    stack = None if model.decoder is None else model.decoder.stack
    return stack if isinstance(stack, MixtureStack) else None


@contextmanager
def with_gamma(model: Model, gamma: float | None) -> Iterator[None]:
    """The model with another γ, for a while; None: with its own. A model that is no mixture takes none."""
    stack = mixture_of(model)
    if stack is None:
        if gamma is not None:
            raise MasqueradeError("This model is no mixture, so it takes no 'gamma'; leave it out.")
        yield
        return
    with mixed_by(stack, gamma):
        yield


def set_gamma(model: Model, gamma: float, learned: bool) -> None:
    """Set the γ of a mixture, and whether training changes it. A learned γ begins between 0 and 1."""
    stack = mixture_of(model)
    if stack is None:
        raise MasqueradeError("This model is no mixture, so it takes no 'gamma'; leave it out.")
    if learned and gamma in (0, 1):
        raise MasqueradeError(f"A learned γ cannot begin at {gamma}, where one half gets no gradient; try 0.5.")
    with torch.no_grad():
        stack.logit.fill_(gamma_logit(gamma))
    stack.logit.requires_grad_(learned)


@dataclass(frozen=True)
class HalfTerm(TokenTerm):
    """The loss of one half alone. Without it a half that starts worse gets less and less of the mixture's gradient, and
    a learned γ goes to the other."""

    half: int = 0  # of HALVES

    def losses(self, model: Model, states: StatesAt, batch: Batch) -> Tensor:
        labelled, head = batch.layout.label != IGNORE, model.heads["lm"]
        if not isinstance(head, MixtureHead):
            raise TypeError("the 'lm' head of a mixture is a MixtureHead")
        logs = head.halves(states[labelled], model.words.logits)[self.half]
        return F.nll_loss(logs, batch.layout.label[labelled], reduction="none")


def mixture_terms() -> dict[str, Term]:
    """The loss of the mixture, and those of its halves."""
    return {"tokens": TokenTerm(), **{name: HalfTerm(half=number) for number, name in enumerate(HALVES)}}


@dataclass(frozen=True)
class AllSteps:
    """Decoding from the second half: all steps in one pass, each the most probable token, up to the first end. With
    ``copies``, the next best texts of the same pass as well. The model has to have a γ of 1 meanwhile."""

    copies: int = 1

    def start(self, task: DecodingTask) -> AllStepsRun:
        if any(constraint is not None for constraint in task.constraints) or task.processors:
            raise MasqueradeError("Constraints and penalties need tokens one by one; use the method greedy or beam.")
        return AllStepsRun(task, self.copies)


class AllStepsRun:
    """A run of one pass. The tokens of the target are all the start token, and the second half reads none of them."""

    def __init__(self, task: DecodingTask, copies: int) -> None:
        self.task, self.copies = task, copies
        self.found: list[list[Hypothesis]] = []

    def next_input(self) -> StepInput | None:
        """The prompt and all steps but the last, whose token is never an input."""
        if self.found:
            return None
        canvas, steps = self.task.session.canvas, max(self.task.limits) - 1
        blank = canvas.prompt.ids[:, -1:].expand(-1, steps)
        return None, join([canvas.prompt, canvas.place(blank, 0)])

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        """Scores (texts, prompt and steps, vocab): choose the tokens of every text."""
        logs = scores.log_softmax(-1)[:, len(self.task.session.canvas.prompt) - 1 :]
        end, least = self.task.end, self.task.least
        if end is not None and least:
            logs = logs.clone()
            logs[:, :least, end] = -torch.inf
        for prompt, (limit, table) in enumerate(zip(self.task.limits, logs, strict=True)):
            texts = []
            for ids in variations(table[:limit], end, self.copies):
                score = sum(float(table[place, number]) for place, number in enumerate(ids))
                trace = [Commit(prompt, step, place, number) for place, number in enumerate(ids)]
                ended = ids[-1:] == [end]
                texts.append(Hypothesis(ids[:-1] if ended else ids, score, ended, trace))
            self.found.append(texts)
        return [commit for texts in self.found for commit in texts[0].trace]

    def results(self) -> list[list[Hypothesis]]:
        """The texts of each prompt, the best first."""
        return self.found
