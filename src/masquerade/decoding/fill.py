"""Filling [MASK]s: all of them in one parallel step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from masquerade.errors import MasqueradeError
from masquerade.masks import bidirectional
from masquerade.nn.model import Model


@dataclass(frozen=True)
class Guess:
    """A word for a [MASK], and how probable the model holds it."""

    token: str
    id: int
    probability: float


@torch.inference_mode()
def fill(model: Model, text: str, top: int = 5) -> list[list[Guess]]:
    """The ``top`` most probable words for each [MASK] of the text, best first, one list a mask from left to right."""
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise MasqueradeError("This model came without a tokenizer, so it cannot read text; add its vocab.txt.")
    if top < 1:
        raise MasqueradeError(f"The best {top} words cannot be listed; ask for at least one.")
    layout = bidirectional(tokenizer.encode(text, specials=True))
    masks = layout.ids == tokenizer.special("mask")
    if not masks.any():
        raise MasqueradeError("The text has no [MASK] to fill; put [MASK] where a word is missing.")
    device = model.embeddings.token.weight.device
    probabilities = model.scores(layout.to(device), "lm", at=masks.to(device)).softmax(-1)
    values, ids = probabilities.topk(min(top, probabilities.shape[-1]))
    return [
        [Guess(tokenizer.tokens([number])[0], number, value) for value, number in zip(row, numbers, strict=True)]
        for row, numbers in zip(values.tolist(), ids.tolist(), strict=True)
    ]
