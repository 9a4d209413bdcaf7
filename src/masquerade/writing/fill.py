"""Filling [MASK]s: each by itself in one parallel step, or together, by any method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from masquerade.errors import MasqueradeError
from masquerade.masks import bidirectional
from masquerade.nn.model import Model
from masquerade.writing.blanks import Infilled
from masquerade.writing.generate import Method, Prompt, encode, generate
from masquerade.writing.prompts import Cloze, frame_for


@dataclass(frozen=True)
class Guess:
    """A word for a [MASK], and how probable the model holds it."""

    word: str
    id: int
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text with its [MASK]s filled."""

    text: str  # with the best word in every [MASK], as the tokenizer spells it
    guesses: list[list[Guess]]  # for each [MASK] from left to right, the best words first


@torch.inference_mode()
def fill(model: Model, text: str, top: int = 5) -> Filled:
    """Fill each [MASK] of the text by itself, and list the ``top`` most probable words for it."""
    tokenizer = model.tokenizer
    if top < 1:
        raise MasqueradeError(f"The best {top} words cannot be listed; ask for at least one.")
    layout = bidirectional(tokenizer.encode(text, specials=True)).to(model.device)
    masks = layout.ids == tokenizer.special("mask")
    if not masks.any():
        raise MasqueradeError("The text has no [MASK] to fill; put [MASK] where a word is missing.")
    probabilities = model.scores(layout, "lm", at=masks).softmax(-1)
    values, ids = probabilities.topk(min(top, probabilities.shape[-1]))
    guesses = [
        [Guess(tokenizer.word(number), number, value) for value, number in zip(row, numbers, strict=True)]
        for row, numbers in zip(values.tolist(), ids.tolist(), strict=True)
    ]
    return Filled(tokenizer.decode(layout.ids.masked_scatter(masks, ids[:, 0]).tolist()), guesses)


def fill_by(model: Model, prompt: Prompt, method: str | Method = "mask-predict", **settings: Any) -> Infilled:
    """Fill the [MASK]s of a prompt with words that suit each other, by any method of ``generate`` with its settings: in
    rounds, in blocks, from left to right."""
    frame = frame_for(model, "masks")
    if not isinstance(frame, Cloze):
        raise TypeError("the frame 'masks' is a Cloze")
    ids = encode(model, frame, [prompt])[0]
    written = generate(model, [ids], method, frame=frame, **settings)[0]
    words = iter(written.ids)
    whole = [next(words) if number == frame.mask else number for number in ids]
    return Infilled("" if not model.has_tokenizer else model.tokenizer.decode(whole), whole, [written])
