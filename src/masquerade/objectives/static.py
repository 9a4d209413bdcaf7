"""Masks made once or made anew: where an objective's chance comes from.

An objective takes its chance from outside, so whether its masks are static or dynamic is not its concern: whoever
trains asks for the chance of (epoch, document) and hands it over, ``objective(ids, chances(epoch, document))``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from masquerade.errors import MasqueradeError
from masquerade.objectives.base import Rng, chance

Chances = Callable[[int, int], Rng]  # (epoch, the document's number in the corpus) → its chance


@dataclass(frozen=True)
class Dynamic:
    """RoBERTa: a new mask whenever a document is read."""

    seed: int

    def __call__(self, epoch: int, document: int) -> Rng:
        return chance(self.seed, epoch, document)


@dataclass(frozen=True)
class Static:
    """BERT: every document is prepared in ``copies`` fixed ways, and the epochs go through them in turn, so that over
    40 epochs each of 10 masks is seen four times. With as many copies as epochs it is ``Dynamic``, mask for mask, which
    makes the two comparable. ``document`` must be the document's number in the corpus, not its place in a shuffled
    epoch."""

    seed: int
    copies: int = 10

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise MasqueradeError(f"A document cannot be prepared in {self.copies} ways; make one copy or more.")

    def __call__(self, epoch: int, document: int) -> Rng:
        return chance(self.seed, epoch % self.copies, document)
