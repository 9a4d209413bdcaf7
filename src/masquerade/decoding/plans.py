"""Several tokens a step: all at once, in rounds, in blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from masquerade.decoding.lengths import Lengths
from masquerade.decoding.loop import DecodingTask
from masquerade.decoding.masked_decoding import MaskedDecoding, Plan, Schedule
from masquerade.errors import MasqueradeError


def cosine(done: float) -> float:
    """A schedule that commits little at first, and more the more is known."""
    return 1 - math.cos(math.pi / 2 * done)


SCHEDULES: dict[str, Schedule] = {"linear": float, "cosine": cosine}


@dataclass(frozen=True)
class Parallel:
    """All words in one pass, each the most probable one in its place, up to the first end.

    ``lengths`` says how many words there are, or several numbers of them to try in one batch, of which the one wins
    whose words are most probable on average; then the end stands behind them from the first. With ``copies``, the next
    best texts of the same pass as well. Without ``both_ways`` the words see the prompt, but it does not see them.
    """

    lengths: Lengths | None = None
    copies: int = 1
    both_ways: bool = True

    def __post_init__(self) -> None:
        self._plan()

    def _plan(self) -> Plan:
        return Plan(lengths=self.lengths, copies=self.copies, both_ways=self.both_ways, vary=True)

    def start(self, task: DecodingTask) -> MaskedDecoding:
        return MaskedDecoding(task, self._plan())


@dataclass(frozen=True)
class MaskPredict:
    """All words in one pass; then, so many ``rounds`` in all, the least certain ones are masked and written again, ever
    fewer of them. ``lengths`` are as for Parallel, and with several of them there can be as many copies."""

    rounds: int = 4
    lengths: Lengths | None = None
    copies: int = 1
    both_ways: bool = True

    def __post_init__(self) -> None:
        self._plan()

    def _plan(self) -> Plan:
        return Plan(self.rounds, lengths=self.lengths, copies=self.copies, both_ways=self.both_ways, revise=True)

    def start(self, task: DecodingTask) -> MaskedDecoding:
        return MaskedDecoding(task, self._plan())


@dataclass(frozen=True)
class Diffusion:
    """Masked diffusion: every round keeps the words that are most certain, for good, and asks for the others again.

    As many are kept as the ``schedule`` says, "linear" or "cosine", or just so many in ``each`` round. With a
    ``temperature`` words are drawn by chance, and ``copies`` of the text with them.
    """

    rounds: int = 8
    schedule: str = "linear"
    each: int | None = None
    temperature: float | None = None
    seed: int | None = None  # None: any
    lengths: Lengths | None = None
    copies: int = 1
    both_ways: bool = True

    def __post_init__(self) -> None:
        self._plan(0)

    def _plan(self, seed: int) -> Plan:
        schedule = _schedule(self.schedule)
        return Plan(
            self.rounds, None, self.both_ways, schedule=schedule, each=self.each, lengths=self.lengths,
            temperature=self.temperature, seed=seed, copies=self.copies,
        )  # fmt: skip

    def start(self, task: DecodingTask) -> MaskedDecoding:
        return MaskedDecoding(task, self._plan(_seed(self.seed)))


@dataclass(frozen=True)
class Blocks:
    """Block diffusion: blocks of ``size`` tokens from left to right, each written as by Diffusion, in one round if no
    more are asked for. A block sees what is before it, which never changes again, so that keys and values are kept.
    Size 1 is greedy; a size of everything is Diffusion."""

    size: int = 4
    rounds: int = 1
    schedule: str = "linear"
    each: int | None = None
    temperature: float | None = None
    seed: int | None = None  # None: any
    copies: int = 1

    def __post_init__(self) -> None:
        self._plan(0)

    def _plan(self, seed: int) -> Plan:
        schedule = _schedule(self.schedule)
        return Plan(
            self.rounds, self.size, schedule=schedule, each=self.each, temperature=self.temperature, seed=seed,
            copies=self.copies,
        )  # fmt: skip

    def start(self, task: DecodingTask) -> MaskedDecoding:
        return MaskedDecoding(task, self._plan(_seed(self.seed)))


def _schedule(name: str) -> Schedule:
    if name not in SCHEDULES:
        raise MasqueradeError(f"There is no schedule '{name}'; choose from {', '.join(SCHEDULES)}.")
    return SCHEDULES[name]


def _seed(seed: int | None) -> int:
    return int(torch.randint(2**31 - 1, ())) if seed is None else seed
