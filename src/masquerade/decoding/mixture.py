"""A mixture of autoregressive and parallel probabilities, from two masks of one network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade.decoding.beam import Beam
from masquerade.decoding.loop import Commit, DecodingRun, DecodingTask, Hypothesis, StepInput
from masquerade.decoding.slots import Slots, check_masks
from masquerade.errors import MasqueradeError


def linear(first: float, last: float, steps: int) -> Callable[[int], float]:
    """A γ that changes linearly from the first value to the last within ``steps`` tokens, and stays there."""
    _share(first)
    _share(last)
    if steps < 1:
        raise MasqueradeError(f"A γ cannot change in {steps} steps; give at least one.")
    return lambda step: first + (last - first) * min(step / steps, 1.0)


@dataclass(frozen=True)
class Mixture:
    """Beam search by p = (1 − γ) · p(token | tokens before it) + γ · p(token at this position in one parallel pass).
    ``gamma`` is a number, or a function of the number of tokens written so far.

    Without ``both_ways`` the prompt does not see the tokens of the parallel pass, as in a writer that was trained with
    both masks. The other settings are those of Beam. γ = 0 is beam search; γ = 1 with one beam is ``parallel``.
    """

    gamma: float | Callable[[int], float] = 0.5
    beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    copies: int = 1
    both_ways: bool = True

    def __post_init__(self) -> None:
        self._search()
        if not callable(self.gamma):
            _share(self.gamma)

    def _search(self) -> Beam:
        return Beam(self.beams, self.length_penalty, self.early_stopping, self.copies)

    def start(self, task: DecodingTask) -> DecodingRun:
        check_masks(task)
        return MixtureDecoding(task, self._search().start(task), self.gamma, self.both_ways)


class MixtureDecoding:
    """A run whose scores are mixed with those of a parallel pass before it."""

    def __init__(
        self, task: DecodingTask, writing: DecodingRun, gamma: float | Callable[[int], float], both_ways: bool = True
    ) -> None:
        self.task, self.writing, self.gamma, self.both_ways = task, writing, gamma, both_ways
        self.parallel: Tensor | None = None  # (prompts, slots, vocab), log-probabilities

    def next_input(self) -> StepInput | None:
        """The input of the parallel pass; afterwards that of the other run."""
        if self.parallel is not None:
            return self.writing.next_input()
        prompts = range(len(self.task.limits))
        return Slots(self.task, prompts, [None] * len(prompts), None, self.both_ways).next_input()

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        """Keep the scores (rows, slots, vocab) of the parallel pass; then mix them into those of the other run,
        (rows, 1, vocab)."""
        logs = scores.log_softmax(-1)
        if self.parallel is None:
            self.parallel = logs
            self.task.session.clear()  # the other run lays out the prompt itself
            return []
        done = step - 1  # tokens written, one a step after the parallel pass
        gamma = _share(self.gamma(done) if callable(self.gamma) else self.gamma)
        at_once = self.parallel[self.task.session.owner, done][:, None]
        return self.writing.commit(mixed(logs, at_once, gamma), done)

    def results(self) -> list[list[Hypothesis]]:
        """The results of the other run."""
        return self.writing.results()


def mixed(one: Tensor, other: Tensor, gamma: float) -> Tensor:
    """log((1 − γ) · exp(one) + γ · exp(other)), of any shape."""
    if gamma in (0.0, 1.0):
        return other if gamma else one
    return torch.logaddexp(one + math.log(1 - gamma), other + math.log(gamma))


def _share(gamma: float) -> float:
    if not 0 <= gamma <= 1:
        raise MasqueradeError(f"A mixture has no share γ = {gamma}; give a number from 0 to 1.")
    return gamma
