"""A mixture of objectives: each piece becomes an example of one of them, in given shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from masquerade.data.corpus import Pieces, Tokens
from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.errors import MasqueradeError
from masquerade.objectives.base import Objective
from masquerade.objectives.loss import Term
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class MixedPieces(Pieces):
    """The pieces of a mixture, and those of each of its parts."""

    parts: tuple[Pieces, ...]


@dataclass(frozen=True)
class ObjectiveMixture(Objective):
    """Objectives by name, each with the share of the examples that it makes. Successive examples have these shares
    almost exactly. Terms of the loss that several objectives have are averaged over all of their predictions."""

    vocabulary: Vocabulary
    parts: Mapping[str, Objective]
    shares: Mapping[str, float]

    def __post_init__(self) -> None:
        for name, part in self.parts.items():
            if type(part).loss is not Objective.loss:
                raise MasqueradeError(f"The objective '{name}' has a loss of its own, so it cannot be mixed.")
        self.terms()

    def cut(self, tokens: Tokens, length: int) -> Pieces:
        cut = tuple(part.cut(tokens, length) for part in self.parts.values())
        longest = max(cut, key=len)
        return MixedPieces(tokens, longest.spans, cut)

    def example(self, pieces: Pieces, number: int, rng: Rng, draw: float) -> Example:
        if not isinstance(pieces, MixedPieces):
            raise TypeError("the pieces of a mixture are made by its 'cut'")
        left, total = draw * sum(self.shares.values()), list(self.parts.items())
        for (name, part), own in zip(total, pieces.parts, strict=True):
            share = self.shares[name]
            if left < share or name == total[-1][0]:
                return part.example(own, number % len(own), rng, min(left / share, 1 - 1e-9) if share else 0.0)
            left -= share
        raise AssertionError("the last part takes what is left")

    def terms(self) -> dict[str, Term]:
        found: dict[str, Term] = {}
        for name, part in self.parts.items():
            for key, term in part.terms().items():
                if found.setdefault(key, term) != term:
                    raise MasqueradeError(f"The loss '{key}' of '{name}' is not that of the others.")
        return found

    def config(self) -> dict[str, int]:
        return reduce(lambda one, other: {**other, **one}, [part.config() for part in self.parts.values()])
