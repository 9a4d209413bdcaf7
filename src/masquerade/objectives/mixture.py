"""A mixture of objectives: each piece becomes an example of one of them, in given shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from masquerade.data.corpus import Pieces, Tokens
from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.errors import MasqueradeError
from masquerade.layout import join
from masquerade.masks import bidirectional
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
    prefixes: Mapping[str, Sequence[int]] = field(default_factory=dict)  # ids put before the source, by objective (T5)

    def __post_init__(self) -> None:
        for name, part in self.parts.items():
            if type(part).loss is not Objective.loss:
                raise MasqueradeError(f"The objective '{name}' has a loss of its own, so it cannot be mixed.")
        self.terms()

    def cut(self, tokens: Tokens, length: int) -> Pieces:
        room = [length - len(self.prefixes.get(name, ())) for name in self.parts]
        if min(room) < 4:
            raise MasqueradeError(f"A text prefix leaves {min(room)} of {length} tokens for the text; raise 'length'.")
        cut = tuple(part.cut(tokens, each) for part, each in zip(self.parts.values(), room, strict=True))
        longest = max(cut, key=len)
        return MixedPieces(tokens, longest.spans, cut)

    def example(self, pieces: Pieces, number: int, rng: Rng, draw: float) -> Example:
        if not isinstance(pieces, MixedPieces):
            raise TypeError("the pieces of a mixture are made by its 'cut'")
        left, total = draw * sum(self.shares.values()), list(self.parts.items())
        for (name, part), own in zip(total, pieces.parts, strict=True):
            share = self.shares[name]
            if left < share or name == total[-1][0]:
                made = part.example(own, number % len(own), rng, min(left / share, 1 - 1e-9) if share else 0.0)
                return _prefixed(made, self.prefixes.get(name, ()), self.vocabulary.cls)
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


def _prefixed(example: Example, prefix: Sequence[int], cls: int) -> Example:
    """The example with a text before its source, behind [CLS] if it begins with that."""
    source = example.source
    if source is None or not prefix:
        return example
    first = int(source.ids[:1].tolist() == [cls])
    moved = source.replace(position=source.position + len(prefix))
    text = bidirectional(prefix)
    parts = [source[:first], text.replace(position=text.position + first), moved[first:]]
    return replace(example, source=join(parts))
