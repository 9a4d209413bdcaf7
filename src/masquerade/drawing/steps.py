"""How a text came about: step by step, which of its tokens were there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.decoding.loop import Commit


@dataclass(frozen=True)
class Step:
    """The tokens that stood after a step, None for those still missing, and which of them it wrote."""

    number: int
    ids: list[int | None]
    new: frozenset[int]


def steps(trace: Sequence[Commit]) -> list[Step]:
    """A text's trace as one line a step; a token that is written again takes the place of the one before it."""
    ids: list[int | None] = [None] * (1 + max((commit.index for commit in trace), default=-1))
    found = []
    for number in sorted({commit.step for commit in trace}):
        now = [commit for commit in trace if commit.step == number]
        for commit in now:
            ids[commit.index] = commit.id
        found.append(Step(number, list(ids), frozenset(commit.index for commit in now)))
    return found
