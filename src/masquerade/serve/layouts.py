"""Masks over texts, with the settings of their constructors."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass

from masquerade import masks
from masquerade.drawing.gallery import CLS, EXAMPLES, MASK, MEMORY, SEP, ExampleVocabulary, Parts, picture
from masquerade.drawing.pictures import Picture, svg
from masquerade.errors import LayoutError
from masquerade.layout import Kind, Layout, visible
from masquerade.serve.failures import too_large

FIELDS = ("position", "rank", "horizon", "branch", "document")
SPECIAL = {"cls": CLS, "sep": SEP, "mask": MASK}


@dataclass(frozen=True)
class MaskSettings:
    """What the sliders of the page set."""

    block: int = 2
    seed: int = 4
    known: int | None = None
    prefix: int | None = None
    slots: int = 2
    width: int = 1
    memory: int = 3
    questions: int | None = None


@dataclass(frozen=True)
class DrawnMask:
    """A mask as data, as a picture, and as code."""

    drawn: Picture
    fields: dict[str, list[int]]
    code: str

    @property
    def svg(self) -> str:
        """The picture as SVG."""
        return svg(self.drawn)


def _order(n: int, settings: MaskSettings) -> list[int]:
    return random.Random(settings.seed).sample(range(n), n)


def _prefix(parts: Parts, settings: MaskSettings) -> Layout:
    whole = [number for part in parts for number in part]
    cut = settings.prefix if settings.prefix is not None else len(parts[0]) if len(parts) > 1 else len(whole) // 2
    return masks.prefix(whole[:cut], whole[cut:])


def _compensated(parts: Parts, settings: MaskSettings) -> Layout:
    n = len(parts[0])
    known = n // 2 if settings.known is None else min(settings.known, n)
    return masks.compensated(parts[0], _order(n, settings), known=known, mask=MASK)


def _shared(parts: Parts, settings: MaskSettings) -> Layout:
    asked = parts[1:]
    if settings.questions is not None:
        asked = [asked[number % len(asked)] for number in range(settings.questions)]
    return masks.shared_passage(parts[0], asked, settings.slots, start=None, apart=False, **SPECIAL)


ADJUSTABLE: dict[str, Callable[[Parts, MaskSettings], Layout]] = {
    "permuted": lambda parts, own: masks.permuted(parts[0], _order(len(parts[0]), own)),
    "prefix": _prefix,
    "two_stream": lambda parts, own: masks.two_stream(parts[0], _order(len(parts[0]), own), mask=MASK),
    "compensated": _compensated,
    "blocks": lambda parts, own: masks.blocks(parts[0], own.block, noisy=[MASK] * len(parts[0])),
    "masked_answer": lambda parts, own: masks.masked_answer(parts[0], parts[1], own.slots, **SPECIAL),
    "shared_passage": _shared,
    "window": lambda parts, own: masks.window(masks.bidirectional(parts[0]), own.width),
    "with_memory": lambda parts, own: masks.with_memory(masks.causal(parts[0]), own.memory, ids=[MEMORY] * own.memory),
}


def draw_mask(name: str, text: str | None, settings: MaskSettings, most: int) -> DrawnMask:
    """The mask of a constructor over a text, whose parts are separated by |; at most ``most`` tokens."""
    if name not in EXAMPLES:
        raise LayoutError(f"There is no mask of that name; there are {', '.join(EXAMPLES)}.")
    usual, least, lay_out = EXAMPLES[name]
    words, given = ExampleVocabulary(), usual if text is None or not text.strip() else text
    parts = [words.ids(part) for part in given.split("|")]
    least = 1 if name == "prefix" else least
    if len(parts) < least or not all(parts):
        parts_needed = f"{least} parts with | between them" if least > 1 else "words in it"
        raise LayoutError(f"The mask '{name}' needs a text of {parts_needed}, like '{usual}'.")
    size = sum(map(len, parts))
    if size > most:
        raise too_large("tokens", size, most, "layout_tokens")
    layout = ADJUSTABLE[name](parts, settings) if name in ADJUSTABLE else lay_out(parts)
    if len(layout) > most:
        raise too_large("tokens with those that the mask adds", len(layout), most, "layout_tokens")
    tokens = [words.known[number] for number in layout.ids.tolist()]
    kinds = [Kind(kind).name.lower() for kind in layout.kind.tolist()]
    about = picture(name).caption
    drawn = Picture(name, visible(layout).tolist(), tokens, tokens, kinds, kinds, about)
    fields = {field: getattr(layout, field).tolist() for field in FIELDS}
    return DrawnMask(drawn, fields, inspect.getsource(getattr(masks, name)))
