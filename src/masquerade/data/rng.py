"""Random numbers of a run: one generator for each part of the data, independent of the order and of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from masquerade.errors import MasqueradeError

Rng = np.random.Generator
PieceRng = Callable[[int, int], Rng]  # (epoch, number of the piece in the corpus) → its generator


def rng_for(seed: int, *key: int) -> Rng:
    """The generator of a part of a run, named by numbers such as epoch and piece."""
    return np.random.default_rng([seed, *key])


def choose(candidates: Iterable[int], count: int, rng: Rng) -> list[int]:
    """``count`` random candidates, in ascending order."""
    options = list(candidates)
    return sorted(int(index) for index in rng.permutation(options)[:count]) if options else []


def spread(place: int, shift: int = 0) -> float:
    """A number from 0 to 1 (excluded) for a place in a sequence; those of neighbours are spread evenly (multiples of
    the golden ratio, modulo 1). ``shift`` gives another such sequence."""
    return (0.5 + place * 0.6180339887498949 + shift * 0.7548776662466927) % 1


def dynamic_masks(seed: int) -> PieceRng:
    """RoBERTa's dynamic masking: a piece gets a new mask in every epoch."""
    return lambda epoch, piece: rng_for(seed, epoch, piece)


def static_masks(seed: int, copies: int = 10) -> PieceRng:
    """BERT's static masking: every piece has ``copies`` fixed masks, and the epochs take them in turn. With as many
    copies as epochs the masks are those of ``dynamic_masks``."""
    if copies < 1:
        raise MasqueradeError(f"A piece cannot have {copies} masks; use 1 copy or more.")
    return lambda epoch, piece: rng_for(seed, epoch % copies, piece)
