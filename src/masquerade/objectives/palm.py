"""PALM: first the encoder learns to read, then encoder and decoder learn to go on with a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE
from masquerade.objectives.bart import written
from masquerade.objectives.base import Objective
from masquerade.objectives.masked import MaskedTokens
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Palm(Objective):
    """Stage 1 is BERT's: the encoder alone fills masked words, and the example has no source. In stage 2 the encoder
    reads the first part of a passage, masked the same way, and the decoder writes the rest word by word: unlike MASS
    and BART it never writes what the encoder has read, but what comes of it, as an answer does.

    ``share`` is the encoder's part of the words; it keeps the [SEP] of the passage, if there is one. ``start`` opens
    the decoder's input, [CLS] if not given.
    """

    vocabulary: Vocabulary
    stage: int = 2
    share: float = 0.8
    rate: float = 0.15
    start: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stage not in (1, 2):
            raise MasqueradeError(f"PALM is trained in stages 1 and 2; there is no stage {self.stage}.")

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        reading = MaskedTokens(self.vocabulary, self.rate)
        if self.stage == 1:
            return reading(ids, rng)
        words = self.vocabulary.maskable(ids)
        count = max(1, min(len(words) - 1, round(self.share * len(words))))
        cut = words[count] if count < len(words) else len(ids)
        ends = bool(ids) and ids[-1] == self.vocabulary.sep and cut < len(ids)
        source = reading([*ids[:cut], self.vocabulary.sep] if ends else ids[:cut], rng).layout.replace(label=IGNORE)
        start = self.vocabulary.cls if self.start is None else self.start
        return Example(written(ids[cut:], self.vocabulary, start), source=source)
