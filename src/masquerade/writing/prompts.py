"""Frames: where a model puts what it writes.

A model continues a text, answers a source behind it, fills a blank or writes with a decoder of its own; in all of them
the next token is laid out like the one before, with some of its fields one higher. So a frame is a constructor, as a
mask is: it makes a Canvas, which is data, and the decoding loop knows nothing of families.
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
    """How prompts become a Canvas. Texts are encoded with the special tokens that the frame wants around them; ids are
    taken as they are."""

    @property
    def end(self) -> int | None:
        """The token that ends what is written."""

    def encode(self, tokenizer: Tokenizer, text: str) -> list[int]: ...

    def canvas(self, prompts: Sequence[Ids]) -> Canvas: ...


@dataclass(frozen=True)
class Continue:
    """The prompt is a text, and what is written goes on from there, from left to right: GPT-2, Transformer-XL; and
    XLNet, which asks for the next word with a QUERY in its place."""

    end: int | None
    begin: int | None = None  # what stands for an empty prompt
    query_kind: Kind | None = None
    mask: int = 0
    segment: int = 0

    def encode(self, tokenizer: Tokenizer, text: str) -> list[int]:
        """The text as the tokenizer begins one, left open at its end."""
        opening = tokenizer.encode("", specials=True)[:1]
        return [*(opening if opening == [tokenizer.specials.get("cls")] else []), *tokenizer.encode(text)]

    def canvas(self, prompts: Sequence[Ids]) -> Canvas:
        if self.begin is not None:
            prompts = [ids if len(ids) else [self.begin] for ids in prompts]
        if not all(len(ids) for ids in prompts):
            raise MasqueradeError("There is nothing to continue: a prompt is empty, and the model has no begin token.")
        prompt = batch([causal(ids).replace(segment=self.segment) for ids in prompts])
        first = _first([len(ids) for ids in prompts], segment=self.segment)
        first = first.replace(rank=first.position, horizon=first.position)
        before = _before(prompts)
        return Canvas(
            prompt, first, FORWARD, before, query_kind=self.query_kind, mask=self.mask, segment_shift=self.segment
        )


@dataclass(frozen=True)
class Prefix:
    """The prompt is a source, [CLS] source [SEP], which sees itself; what is written stands behind it in a segment of
    its own: UniLM, or any BERT trained under the ``prefix`` mask. The next word is asked of a [MASK] in its place,
    which the word then takes (UniLM), or without ``mask`` of the word before it (bert4keras)."""

    cls: int
    sep: int
    mask: int | None
    segments: tuple[int, int] = (0, 1)  # of the source, and of what is written

    @property
    def end(self) -> int:
        return self.sep

    def encode(self, tokenizer: Tokenizer, text: str) -> list[int]:
        return [self.cls, *tokenizer.encode(text), self.sep]

    def canvas(self, prompts: Sequence[Ids]) -> Canvas:
        if not all(len(ids) for ids in prompts):
            raise MasqueradeError("There is nothing to write from: a source is empty; it needs its [CLS] at least.")
        prompt = batch([prefix_mask(ids, []).replace(segment=self.segments[0]) for ids in prompts])
        first = _first([len(ids) for ids in prompts], segment=self.segments[1], rank=1, horizon=1)
        asking, before = None if self.mask is None else Kind.CONTENT, _before([[]] * len(prompts))
        return Canvas(
            prompt, first, FORWARD, before, query_kind=asking, mask=self.mask or 0, segment_shift=self.segments[0]
        )


@dataclass(frozen=True)
class Cloze:
    """The prompt is a text with [MASK]s in it, and what is written stands in their places, a word in each: BERT. The
    text counts as known before the words are; nothing else distinguishes them."""

    mask: int
    end: int | None = None  # there is none: a text has as many words as [MASK]s

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
    """The prompt is a text with a blank, a mask token; what is written fills it, laid out behind the text: GLM. Where
    the prompt has no mask, one is put at its end. Of several blanks the first is filled; or, if ``filled`` has what was
    written into some of them, the next one, which sees that."""

    masks: tuple[int, ...]  # the tokens that are blanks; the last of them is the one that is put at the end
    start: int
    end: int
    closing: int | None = None  # what may close a prompt: a blank that is put at the end goes before it
    filled: tuple[tuple[int, ...], ...] = ()

    def encode(self, tokenizer: Tokenizer, text: str) -> list[int]:
        return tokenizer.encode(text, specials=True)

    def context(self, ids: Ids) -> tuple[list[int], list[int]]:
        """A prompt with a blank in it, and the places of its blanks."""
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
                    f"All {len(blanks)} blanks of the prompt are filled; there is none to write into."
                )
            places.append(blanks[len(self.filled)])
            spans = [(place, [self.start, *written]) for place, written in zip(blanks, self.filled, strict=False)]
            laid.append(infill(context, [*spans, (places[-1], [self.start])]))
        first = _first(places, inner=2, rank=int(laid[0].rank[-1]) + 1, horizon=int(laid[0].rank[-1]) + 1)
        return Canvas(batch(laid), first, INSIDE, _before([[self.start]] * len(prompts)))


@dataclass(frozen=True)
class Decode:
    """The prompt is read by an encoder, and a decoder writes behind its start tokens: T5, BART, PEGASUS, MASS, PALM."""

    start: tuple[int, ...]
    end: int | None

    def encode(self, tokenizer: Tokenizer, text: str) -> list[int]:
        return tokenizer.encode(text, specials=True)

    def canvas(self, prompts: Sequence[Ids]) -> Canvas:
        if not all(len(ids) for ids in prompts):
            raise MasqueradeError("There is nothing to write from: a source is empty; give it one token at least.")
        rows, done = len(prompts), len(self.start)
        prompt = batch([causal(self.start)] * rows)
        first = _first([done] * rows, rank=done, horizon=done)
        source = batch([bidirectional(ids) for ids in prompts])
        return Canvas(prompt, first, FORWARD, _before([self.start] * rows), source=source)


def _first(positions: Sequence[int], **fields: int) -> Layout:
    """One token a row, at these positions: (rows, 1)."""
    ids = torch.zeros(len(positions), 1, dtype=torch.long)
    return Layout.of(ids, position=torch.tensor(positions)[:, None], **fields)


def _before(prompts: Sequence[Ids]) -> Tensor:
    """What each row continues, (rows, h), padded on the left."""
    longest = max(len(ids) for ids in prompts)
    return torch.tensor([[NO_TOKEN] * (longest - len(ids)) + [int(n) for n in ids] for ids in prompts]).long()


NAMES = ("continue", "prefix", "shifted", "masks", "blank", "decode")


def frame_for(model: Model, name: str | None = None) -> Frame:
    """The frame that suits a model: the one its mask was made for, or one of NAMES if its mask can do that."""
    spec = model.spec
    if "lm" not in spec.all_heads:
        held = ", ".join(spec.all_heads) or "no head"
        raise MasqueradeError(f"This model has no language head to write with (it has {held}); take one that has.")
    if spec.fork is not None:
        raise MasqueradeError("This model is a reader, which answers questions rather than writes; use 'ask'.")
    able = _able(spec)
    if name is not None and name not in NAMES:
        raise MasqueradeError(f"There is no frame '{name}'; choose from {', '.join(NAMES)}.")
    if name is not None and name not in able:
        raise MasqueradeError(
            f"This model cannot write in the frame '{name}': its mask is made for {' or '.join(able)}; take that."
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
    """The frames that a network's mask can do, the natural one first."""
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
    """The start tokens that the configuration names; where it is silent, those that the objectives here train with."""
    spec, config = model.spec, model.config
    end = _token(model, "eos_token_id", "sep", "</s>")
    start = _token(model, "decoder_start_token_id", "")
    if start is not None:
        forced = config.get("forced_bos_token_id")
        return Decode((start,) if forced is None else (start, forced), end)
    roles = {"bart": ("sep", "cls"), "palm": ("cls",), "mass": ("mask",)}.get(spec.family, ())
    known = model.tokenizer.specials if model.has_tokenizer else {}
    if roles and all(role in known for role in roles):
        return Decode(tuple(known[role] for role in roles), end)
    return Decode((spec.pad,), end)


def _token(model: Model, key: str, role: str, *names: str) -> int | None:
    """A special token: as the configuration says, or by its role, or by its name; None if the model has none such."""
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
