"""PALM: first the encoder learns masked tokens, then encoder and decoder learn to continue a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE
from masquerade.objectives.bart import decoder_layout
from masquerade.objectives.base import Objective, decoding_tokens
from masquerade.objectives.masked import MaskedTokens
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Palm(Objective):
    """Stage 1 is BERT's: the encoder alone predicts masked tokens, and the example has no source. In stage 2 the
    encoder reads the first part of a text, masked the same way, and the decoder writes the rest.

    ``share`` is the encoder's part of the tokens; it gets the [SEP] of the text, if there is one. ``start`` is the
    first token of the decoder's input, [CLS] if not given.
    """

    vocabulary: Vocabulary
    stage: int = 2
    share: float = 0.8
    rate: float = 0.15
    start: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stage not in (1, 2):
            raise MasqueradeError(f"PALM has stages 1 and 2, but 'stage' is {self.stage}.")

    @property
    def first(self) -> int:
        """The first token of the decoder's input."""
        return self.vocabulary.cls if self.start is None else self.start

    def config(self) -> dict[str, int]:
        return decoding_tokens(self.vocabulary.sep, self.first)

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        masked = MaskedTokens(self.vocabulary, self.rate)
        if self.stage == 1:
            return masked(ids, rng)
        maskable = self.vocabulary.maskable(ids)
        count = max(1, min(len(maskable) - 1, round(self.share * len(maskable))))
        cut = maskable[count] if count < len(maskable) else len(ids)
        ends = bool(ids) and ids[-1] == self.vocabulary.sep and cut < len(ids)
        source = masked([*ids[:cut], self.vocabulary.sep] if ends else ids[:cut], rng).layout.replace(label=IGNORE)
        return Example(decoder_layout(ids[cut:], self.vocabulary, self.first), source=source)
