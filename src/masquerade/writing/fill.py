"""Filling [MASK]s and blanks: each [MASK] by itself in one pass, or together by any decoding method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from masquerade.errors import MasqueradeError
from masquerade.layout import Kind
from masquerade.masks import bidirectional
from masquerade.nn.model import Model
from masquerade.writing.generate import GeneratedText, Method, Prompt, encode, generate
from masquerade.writing.prompts import Blank, Cloze, frame_for


@dataclass(frozen=True)
class Guess:
    """A token for a [MASK], and its probability."""

    word: str
    id: int
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text with its [MASK]s filled."""

    text: str  # with the most probable token in every [MASK], as the tokenizer spells it
    guesses: list[list[Guess]]  # for each [MASK] from left to right, the most probable tokens first


@dataclass(frozen=True)
class Infilled:
    """A text with its [MASK]s or blanks filled, and the texts that were written into it, from left to right."""

    text: str
    ids: list[int]
    written: list[GeneratedText]  # one for each blank; one for all [MASK]s together


@torch.inference_mode()
def fill(model: Model, text: str, top: int = 5) -> Filled:
    """The text with each [MASK] filled by itself, and the ``top`` most probable tokens for each."""
    tokenizer = model.tokenizer
    if top < 1:
        raise MasqueradeError(f"The best {top} words cannot be listed; ask for at least one.")
    _check_fills(model)
    layout = bidirectional(tokenizer.encode(text, specials=True)).to(model.device)
    masks = layout.ids == tokenizer.special("mask")
    if not masks.any():
        raise MasqueradeError("The text has no [MASK] to fill; put [MASK] where a word is missing.")
    if model.spec.query_vector:  # XLNet predicts a token from a query at its position
        layout = layout.replace(kind=masks.long() * int(Kind.QUERY))
    probabilities = model.scores(layout, "lm", at=masks).softmax(-1)
    values, ids = probabilities.topk(min(top, probabilities.shape[-1]))
    guesses = [
        [Guess(tokenizer.word(number), number, value) for value, number in zip(row, numbers, strict=True)]
        for row, numbers in zip(values.tolist(), ids.tolist(), strict=True)
    ]
    return Filled(tokenizer.decode(layout.ids.masked_scatter(masks, ids[:, 0]).tolist()), guesses)


def _check_fills(model: Model) -> None:
    """Refuse models that do not predict a [MASK] from both of its sides in one pass."""
    if model.spec.decoder is not None or model.spec.mask == "causal":
        raise MasqueradeError(
            "This model writes from left to right, so it cannot see what follows a [MASK]; use 'masquerade generate'."
        )
    if "inner" in model.spec.positions:
        raise MasqueradeError("A GLM writes its blanks token by token; fill them with a method: --method greedy.")


def infill(model: Model, prompt: Prompt, method: str | Method = "greedy", **settings: Any) -> Infilled:
    """The prompt with its gaps filled by a method of ``generate``, with its settings. GLM writes texts of any length
    into its blanks, from left to right; other models write one token for each [MASK]."""
    frame = frame_for(model)
    if isinstance(frame, Blank):
        ids, places = frame.context(encode(model, frame, [prompt])[0])
        written: list[GeneratedText] = []
        for _ in places:  # each blank sees the texts in those before it
            now = replace(frame, filled=tuple(tuple(each.ids) for each in written))
            written += generate(model, [ids], method, frame=now, **settings)
        pieces = {place: each.ids for place, each in zip(places, written, strict=True)}
    else:
        cloze = frame_for(model, "masks")
        ids = encode(model, cloze, [prompt])[0]
        written = generate(model, [ids], method, frame=cloze, **settings)
        places = [place for place, number in enumerate(ids) if isinstance(cloze, Cloze) and number == cloze.mask]
        pieces = {place: [number] for place, number in zip(places, written[0].ids, strict=True)}
    whole = [number for place, token in enumerate(ids) for number in pieces.get(place, [token])]
    return Infilled(model.tokenizer.decode(whole) if model.has_tokenizer else "", whole, written)
