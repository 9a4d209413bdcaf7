"""GPT: predict the next token; and the same from right to left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.data.corpus import Pieces
from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.data.streams import Segment
from masquerade.layout import IGNORE
from masquerade.masks import backward, causal
from masquerade.objectives.base import Objective, until_end
from masquerade.text.vocabulary import ABSENT, Vocabulary


@dataclass(frozen=True)
class NextToken(Objective):
    """Each token predicts the next one; the last predicts nothing. Only documents end in [SEP], not every piece."""

    vocabulary: Vocabulary

    def config(self) -> dict[str, int]:
        tokens = {"bos_token_id": self.vocabulary.cls, "eos_token_id": self.vocabulary.sep}
        return {key: token for key, token in tokens.items() if token != ABSENT}

    def enclosed(self, pieces: Pieces, number: int) -> list[int]:
        return until_end(super().enclosed(pieces, number), self.vocabulary, pieces.closes(number))

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        return Example(causal(ids).replace(label=[*ids[1:], IGNORE]))

    def segment(self, segment: Segment, rng: Rng) -> Example:
        last = IGNORE if segment.following is None else segment.following
        return Example(causal(segment.ids).replace(label=[*segment.ids[1:], last]))


@dataclass(frozen=True)
class PreviousToken(Objective):
    """Each token predicts the one before it; the first predicts nothing. Only documents begin with [CLS], which ends
    them here."""

    vocabulary: Vocabulary

    def enclosed(self, pieces: Pieces, number: int) -> list[int]:
        ids = super().enclosed(pieces, number)
        return ids[1:] if ids[0] == self.vocabulary.cls and not pieces.opens(number) else ids

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        return Example(backward(ids).replace(label=[IGNORE, *ids[:-1]]))
