"""The state of a text after each decoding step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.decoding.loop import Commit


@dataclass(frozen=True)
class Step:
    """The tokens after a step, None for unknown ones, and the indices that it wrote."""

    number: int
    ids: list[int | None]
    new: frozenset[int]


def steps(trace: Sequence[Commit]) -> list[Step]:
    """The steps of a trace; a token that is written again replaces the earlier one."""
    ids: list[int | None] = [None] * (1 + max((commit.index for commit in trace), default=-1))
    found = []
    for number in sorted({commit.step for commit in trace}):
        now = [commit for commit in trace if commit.step == number]
        for commit in now:
            ids[commit.index] = commit.id
        found.append(Step(number, list(ids), frozenset(commit.index for commit in now)))
    return found
