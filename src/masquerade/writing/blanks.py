"""Filling every blank of a text, one after the other: GLM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.writing.generate import GeneratedText, Method, Prompt, encode, generate
from masquerade.writing.prompts import Blank, frame_for


@dataclass(frozen=True)
class Infilled:
    """A text whose blanks are filled, and what was written into each of them, from left to right."""

    text: str
    ids: list[int]
    blanks: list[GeneratedText]


def fill_blanks(model: Model, prompt: Prompt, method: str | Method = "greedy", **settings: Any) -> Infilled:
    """Fill the blanks of a prompt ([MASK]; one at its end if it has none) from left to right, each seeing those before
    it; the settings are those of ``generate``."""
    frame = frame_for(model)
    if not isinstance(frame, Blank):
        raise MasqueradeError("This model does not write into blanks of any length; GLM does, and masks are for fill.")
    ids, places = frame.context(encode(model, frame, [prompt])[0])
    blanks: list[GeneratedText] = []
    for _ in places:
        now = replace(frame, filled=tuple(tuple(each.ids) for each in blanks))
        blanks += generate(model, [ids], method, frame=now, **settings)
    written = {place: each.ids for place, each in zip(places, blanks, strict=True)}
    whole = [number for place, token in enumerate(ids) for number in written.get(place, [token])]
    return Infilled("" if not model.has_tokenizer else model.tokenizer.decode(whole), whole, blanks)
