"""Frames: how a prompt is laid out, and where new tokens are placed.

A model continues the prompt, writes a target after a source, fills a blank, or writes with a decoder. In each case the
next token is laid out as the one before, with some fields one higher. A frame turns prompts into a Canvas, so that the
decoding loop does not depend on families.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from masquerade.decoding.canvas import FORWARD, INSIDE, NO_TOKEN, Canvas
from masquerade.errors import MasqueradeError
from masquerade.layout import Kind, Layout, batch
from masquerade.masks import bidirectional, causal, infill
from masquerade.masks import prefix as prefix_mask
from masquerade.nn.model import Model
from masquerade.nn.spec import Spec
from masquerade.text.tokenizer import Tokenizer

Ids = Sequence[int]


class Frame(Protocol):
    """Turns prompts into a Canvas. Texts are encoded with the frame's special tokens; ids are used as they are."""

    @property
    def end(self) -> int | None:
        """The token that ends a text."""

    def encode(self, tokenizer: Tokenizer, text: str) -> list[int]: ...

    def canvas(self, prompts: Sequence[Ids]) -> Canvas: ...


@dataclass(frozen=True)
class Continue:
    """The text continues the prompt from left to right: GPT-2, Transformer-XL; XLNet, predicting at a
    QUERY; and BERT, predicting at a [MASK]."""

    end: int | None
    begin: int | None = None  # the prompt in place of an empty one
    query_kind: Kind | None = None
    mask: int = 0
    segment: int = 0

    def encode(self, tokenizer: Tokenizer, text: str) -> list[int]:
        """The ids with the tokenizer's special token before the text, and none after it."""
        opening = tokenizer.encode("", specials=True)[:1]
        return [*(opening if opening == [tokenizer.specials.get("cls")] else []), *tokenizer.encode(text)]

    def canvas(self, prompts: Sequence[Ids]) -> Canvas:
        if self.begin is not None:
            prompts = [ids if len(ids) else [self.begin] for ids in prompts]
        if not all(len(ids) for ids in prompts):
            raise MasqueradeError("A prompt is empty, and the model has no begin token; give at least one token.")
        prompt = batch([causal(ids).replace(segment=self.segment) for ids in prompts])
        first = _first([len(ids) for ids in prompts], segment=self.segment)
        first = first.replace(rank=first.position, horizon=first.position)
        before = _before(prompts)
        return Canvas(
            prompt, first, FORWARD, before, query_kind=self.query_kind, mask=self.mask, segment_shift=self.segment
        )


@dataclass(frozen=True)
class Prefix:
    """The prompt is a source, [CLS] source [SEP], which sees only itself; the text follows it in a segment of its own:
    UniLM, or any BERT trained with the ``prefix`` mask. The next token is predicted at a [MASK] at its position
    (UniLM), or without ``mask`` at the previous token (bert4keras)."""

    cls: int
    sep: int
    mask: int | None
    segments: tuple[int, int] = (0, 1)  # of the source, and of the text

    @property
    def end(self) -> int:
        return self.sep

    def encode(self, tokenizer: Tokenizer, text: str) -> list[int]:
        return [self.cls, *tokenizer.encode(text), self.sep]

    def canvas(self, prompts: Sequence[Ids]) -> Canvas:
        if not all(len(ids) for ids in prompts):
            raise MasqueradeError("A source is empty; give at least its [CLS].")
        prompt = batch([prefix_mask(ids, []).replace(segment=self.segments[0]) for ids in prompts])
        first = _first([len(ids) for ids in prompts], segment=self.segments[1], rank=1, horizon=1)
        asking, before = None if self.mask is None else Kind.CONTENT, _before([[]] * len(prompts))
        return Canvas(
            prompt, first, FORWARD, before, query_kind=asking, mask=self.mask or 0, segment_shift=self.segments[0]
        )


@dataclass(frozen=True)
class Cloze:
    """The prompt has [MASK]s, and each is replaced by one token: BERT. Tokens of the prompt have a lower rank than the
    new ones; nothing else distinguishes them."""

    mask: int
    end: int | None = None  # none: the number of tokens is that of the [MASK]s

    def encode(self, tokenizer: Tokenizer, text: str) -> list[int]:
        return tokenizer.encode(text, specials=True)

    def canvas(self, prompts: Sequence[Ids]) -> Canvas:
        texts = [bidirectional(ids) for ids in prompts]
        masked = [layout.ids == self.mask for layout in texts]
        places = [layout.position[hidden].tolist() for layout, hidden in zip(texts, masked, strict=True)]
        if not all(places):
            raise MasqueradeError("The text has no [MASK] to fill; put [MASK] where a word is missing.")
        most = max(len(row) for row in places)
        prompt = batch([layout[(~hidden).nonzero()[:, 0]] for layout, hidden in zip(texts, masked, strict=True)])
        return Canvas(
            prompt,
            first=_first([0] * len(prompts), rank=1, horizon=1),
            increments=("rank", "horizon"),
            before=_before([[]] * len(prompts)),
            query_kind=Kind.CONTENT,
            mask=self.mask,
            places=torch.tensor([row + [NO_TOKEN] * (most - len(row)) for row in places]),
        )


@dataclass(frozen=True)
class Blank:
    """The prompt has a blank, a mask token, and the text fills it, laid out after the prompt: GLM. A prompt without a
    mask token gets one at its end. Of several blanks the first is filled; or, if ``filled`` holds the texts of some,
    the next one, which sees those texts."""

    masks: tuple[int, ...]  # the tokens that are blanks; the last is used for a blank at the end
    start: int
    end: int
    closing: int | None = None  # the last token of a prompt, before which a blank at the end is inserted
    filled: tuple[tuple[int, ...], ...] = ()

    def encode(self, tokenizer: Tokenizer, text: str) -> list[int]:
        return tokenizer.encode(text, specials=True)

    def context(self, ids: Ids) -> tuple[list[int], list[int]]:
        """The prompt, with a blank if it had none, and the indices of its blanks."""
        context = list(ids)
        if not set(self.masks) & set(context):
            context.insert(len(context) - (context[-1:] == [self.closing]), self.masks[-1])
        return context, [place for place, number in enumerate(context) if number in self.masks]

    def canvas(self, prompts: Sequence[Ids]) -> Canvas:
        laid, places = [], []
        for ids in prompts:
            context, blanks = self.context(ids)
            if len(blanks) <= len(self.filled):
                raise MasqueradeError(
                    f"All {len(blanks)} blanks of the prompt are filled; give a prompt with another one."
                )
            places.append(blanks[len(self.filled)])
            spans = [(place, [self.start, *written]) for place, written in zip(blanks, self.filled, strict=False)]
            laid.append(infill(context, [*spans, (places[-1], [self.start])]))
        first = _first(places, inner=2, rank=int(laid[0].rank[-1]) + 1, horizon=int(laid[0].rank[-1]) + 1)
        return Canvas(batch(laid), first, INSIDE, _before([[self.start]] * len(prompts)))


@dataclass(frozen=True)
class Decode:
    """An encoder reads the prompt, and a decoder writes the text after its start tokens: T5, BART, MASS, PALM. With
    ``hole``, the id of [MASK], positions are those of the prompt's first [MASK] on, as MASS is trained."""

    start: tuple[int, ...]
    end: int | None
    hole: int | None = None

    def encode(self, tokenizer: Tokenizer, text: str) -> list[int]:
        return tokenizer.encode(text, specials=True)

    def canvas(self, prompts: Sequence[Ids]) -> Canvas:
        if not all(len(ids) for ids in prompts):
            raise MasqueradeError("A source is empty; give at least one token.")
        rows, done = len(prompts), len(self.start)
        offsets = [self._offset(ids) for ids in prompts]
        start = causal(self.start)
        prompt = batch([start.replace(position=start.position + offset) for offset in offsets])
        first = _first([done + offset for offset in offsets], rank=done, horizon=done)
        source = batch([bidirectional(ids) for ids in prompts])
        return Canvas(prompt, first, FORWARD, _before([self.start] * rows), source=source)

    def _offset(self, prompt: Ids) -> int:
        """The position of the start token: that before the prompt's first hole."""
        found = [place for place, number in enumerate(prompt) if int(number) == self.hole]
        return max(0, found[0] - 1) if found else 0


def _first(positions: Sequence[int], **fields: int) -> Layout:
    """One token a row, at these positions: (rows, 1)."""
    ids = torch.zeros(len(positions), 1, dtype=torch.long)
    return Layout.of(ids, position=torch.tensor(positions)[:, None], **fields)


def _before(prompts: Sequence[Ids]) -> Tensor:
    """The tokens that each row continues, (rows, h), padded on the left."""
    longest = max(len(ids) for ids in prompts)
    return torch.tensor([[NO_TOKEN] * (longest - len(ids)) + [int(n) for n in ids] for ids in prompts]).long()


NAMES = ("continue", "prefix", "shifted", "masks", "blank", "decode")


def frame_for(model: Model, name: str | None = None) -> Frame:
    """The default frame of a model, or the frame called ``name``, one of NAMES, if the model's mask allows it."""
    spec = model.spec
    if "lm" not in spec.all_heads:
        held = ", ".join(spec.all_heads) or "no head"
        raise MasqueradeError(
            f"This model has no language head to write with (it has {held}); use a model that has one."
        )
    if spec.fork is not None:
        raise MasqueradeError("This model is a reader, which answers questions and writes no texts; use 'ask'.")
    able = _able(spec)
    if name is not None and name not in NAMES:
        raise MasqueradeError(f"There is no frame '{name}'; choose from {', '.join(NAMES)}.")
    if name is not None and name not in able:
        raise MasqueradeError(
            f"This model cannot write in the frame '{name}': its mask allows {' or '.join(able)}; use that."
        )
    name = name or able[0]
    if name == "continue":
        return _continue(model)
    if name == "blank":
        return _blank(model)
    if name == "decode":
        return _decode(model)
    if name == "masks":
        return Cloze(_needed(model, "mask"))
    segments = (4, 5) if spec.segments >= 6 else (0, 0) if spec.segments == 1 else (0, 1)  # UniLM has its own
    mask = _needed(model, "mask") if name == "prefix" else None
    return Prefix(_needed(model, "cls"), _needed(model, "sep"), mask, segments)


def _able(spec: Spec) -> tuple[str, ...]:
    """The frames that a network's mask allows, the default first."""
    if spec.decoder is not None:
        return ("decode",)
    if "inner" in spec.positions:
        return ("blank",)
    if spec.mask == "causal" or spec.query_vector:
        return ("continue",)
    return ("prefix", "shifted", "continue", "masks")


def _continue(model: Model) -> Continue:
    spec = model.spec
    end = _token(model, "eos_token_id", "sep", "<|endoftext|>")
    begin = _token(model, "bos_token_id", "cls", "<|endoftext|>")
    if spec.mask == "causal":
        return Continue(end, begin)
    asking = Kind.QUERY if spec.query_vector else Kind.CONTENT
    return Continue(end, begin, asking, _needed(model, "mask"), segment=2 if spec.segments >= 6 else 0)


def _blank(model: Model) -> Blank:
    tokenizer = _tokenizer(model)
    found = [tokenizer.backend.token_to_id(name) for name in ("[sMASK]", "[gMASK]")]
    start = _token(model, "", "", "<|startofpiece|>", "<sop>")
    end = _token(model, "", "", "<|endofpiece|>", "<eop>")
    return Blank(
        masks=(tokenizer.special("mask"), *(number for number in found if number is not None)),
        start=tokenizer.special("cls") if start is None else start,
        end=tokenizer.special("sep") if end is None else end,
        closing=tokenizer.specials.get("sep"),
    )


def _decode(model: Model) -> Decode:
    """A frame with the start tokens of the configuration, or those of our objectives if it names none."""
    spec, config = model.spec, model.config
    end = _token(model, "eos_token_id", "sep", "</s>")
    start = _token(model, "decoder_start_token_id", "")
    hole = _token(model, "", "mask") if spec.family == "mass" else None
    if start is not None:
        forced = config.get("forced_bos_token_id")
        return Decode((start,) if forced is None else (start, forced), end, hole)
    roles = {"bart": ("sep", "cls"), "palm": ("cls",), "mass": ("mask",)}.get(spec.family, ())
    known = model.tokenizer.specials if model.has_tokenizer else {}
    if roles and all(role in known for role in roles):
        return Decode(tuple(known[role] for role in roles), end, hole)
    return Decode((spec.pad,), end)


def _token(model: Model, key: str, role: str, *names: str) -> int | None:
    """The id of a special token by key of the configuration, by role, or by name; None if the model has none."""
    said = model.config.get(key)
    if isinstance(said, list) and said:
        said = said[0]
    if isinstance(said, int) and 0 <= said < model.spec.vocab:
        return said
    if not model.has_tokenizer:
        return None
    by_name = (model.tokenizer.backend.token_to_id(name) for name in names)
    found = [model.tokenizer.specials.get(role), *by_name]
    return next((number for number in found if number is not None), None)


def _needed(model: Model, role: str) -> int:
    return _tokenizer(model).special(role)


def _tokenizer(model: Model) -> Tokenizer:
    if not model.has_tokenizer:
        raise MasqueradeError("This model came without a tokenizer; add its vocab.txt, or give the frame and ids.")
    return model.tokenizer
