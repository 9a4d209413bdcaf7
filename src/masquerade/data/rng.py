"""Random numbers of a run: one generator for each place in the data, the same whoever asks, in any order or process."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from masquerade.errors import MasqueradeError

Rng = np.random.Generator
PieceRng = Callable[[int, int], Rng]  # (epoch, number of the piece in the corpus) → its generator


def rng_for(seed: int, *places: int) -> Rng:
    """The generator of one place (epoch, row …) of a run."""
    return np.random.default_rng([seed, *places])


def choose(candidates: Iterable[int], count: int, rng: Rng) -> list[int]:
    """``count`` of the candidates, drawn at random, in ascending order."""
    options = list(candidates)
    return sorted(int(index) for index in rng.permutation(options)[:count]) if options else []


def dynamic_masks(seed: int) -> PieceRng:
    """RoBERTa's dynamic masking: a piece is masked anew in every epoch."""
    return lambda epoch, piece: rng_for(seed, epoch, piece)


def static_masks(seed: int, copies: int = 10) -> PieceRng:
    """BERT's static masking: every piece is masked in ``copies`` fixed ways, and the epochs go through them in turn.

    With as many copies as epochs the masks are those of ``dynamic_masks``, which makes the two comparable.
    """
    if copies < 1:
        raise MasqueradeError(f"A piece cannot be masked in {copies} ways; use 1 copy or more.")
    return lambda epoch, piece: rng_for(seed, epoch % copies, piece)
