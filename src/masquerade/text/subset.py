"""Tokenizers cut to the tokens of a task."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers.pre_tokenizers import ByteLevel

from masquerade.errors import MasqueradeError
from masquerade.text.tokenizer import Tokenizer


def occurring(tokenizer: Tokenizer, texts: Iterable[str], least: int = 1) -> list[int]:
    """The ids of tokens that occur at least ``least`` times in the texts, in rising order."""
    if least < 1:
        raise MasqueradeError(f"A least count of {least} keeps every token; give at least 1.")
    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(tokenizer.encode(text))
    if not counts:
        raise MasqueradeError("The texts have no tokens; give texts to take the tokens from.")
    return sorted(number for number, count in counts.items() if count >= least)


def cut(tokenizer: Tokenizer, keep: Iterable[int]) -> tuple[Tokenizer, list[int]]:
    """A tokenizer with only these tokens, and their old ids in the order of the new ones.

    Special tokens are always kept, and so are the parts that a kept token is merged from. A text whose tokens are all
    kept has the same tokens as before.
    """
    whole = json.loads(tokenizer.backend.to_str())
    size, asked = len(tokenizer), {int(number) for number in keep}
    if wrong := [number for number in asked if not 0 <= number < size]:
        raise MasqueradeError(f"There is no token {min(wrong)} to keep; the ids of this tokenizer are 0 to {size - 1}.")
    asked |= {*tokenizer.specials.values(), *(entry["id"] for entry in whole["added_tokens"])}
    kind = whole["model"].get("type")
    if kind not in CLOSING:
        raise MasqueradeError(f"A tokenizer of the kind '{kind}' cannot be cut; use one of {', '.join(CLOSING)}.")
    asked |= CLOSING[kind](whole["model"], asked) | _spare(whole["model"])
    old = sorted(asked)
    new = {number: place for place, number in enumerate(old)}
    _renumber(whole, new)
    named = {role: tokenizer.tokens([number])[0] for role, number in tokenizer.specials.items()}
    return Tokenizer(Backend.from_str(json.dumps(whole)), named), old


def _nothing(model: dict[str, Any], kept: set[int]) -> set[int]:
    """Word pieces: no others, since each is matched as a whole."""
    return set()


def _pairs(model: dict[str, Any], kept: set[int]) -> set[int]:
    """Byte pairs: the tokens that kept ones are merged from, and all single bytes, so that any text can be encoded."""
    vocab: dict[str, int] = model["vocab"]
    parts: dict[str, list[str]] = {}
    for first, second, merged in _merges(model):
        parts.setdefault(merged, []).extend([first, second])
    waiting = [token for token, number in vocab.items() if number in kept]
    waiting += [token for token in ByteLevel.alphabet() if token in vocab]
    needed: set[int] = set()
    while waiting:
        token = waiting.pop()
        if vocab[token] not in needed:
            needed.add(vocab[token])
            waiting += parts.get(token, [])
    return needed


def _worst(model: dict[str, Any], kept: set[int]) -> set[int]:
    """Unigrams: the least probable piece, which sets the score of unknown characters."""
    pieces: list[tuple[str, float]] = model["vocab"]
    return {min(range(len(pieces)), key=lambda number: pieces[number][1])}


CLOSING = {"WordPiece": _nothing, "WordLevel": _nothing, "BPE": _pairs, "Unigram": _worst}


def _spare(model: dict[str, Any]) -> set[int]:
    """The unknown token, and tokens for single bytes."""
    vocab = model["vocab"]
    numbers = {piece: n for n, (piece, _) in enumerate(vocab)} if isinstance(vocab, list) else vocab
    found = {number for token, number in numbers.items() if len(token) == 6 and token.startswith("<0x")}
    unknown = numbers.get(model.get("unk_token"), model.get("unk_id"))
    return found if unknown is None else {*found, unknown}


def _merges(model: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Each merge as its two tokens and their result, in either file format."""
    inside = model.get("continuing_subword_prefix") or ""
    for entry in model["merges"]:
        first, second = entry.split(" ") if isinstance(entry, str) else entry
        yield first, second, first + second.removeprefix(inside)


def _renumber(whole: dict[str, Any], new: dict[int, int]) -> None:
    """Replace all ids in the description of a tokenizer, and remove tokens without a new one."""
    model = whole["model"]
    if isinstance(model["vocab"], list):
        model["vocab"] = [piece for number, piece in enumerate(model["vocab"]) if number in new]
        if model.get("unk_id") is not None:
            model["unk_id"] = new[model["unk_id"]]
    else:
        model["vocab"] = {token: new[number] for token, number in model["vocab"].items() if number in new}
    if "merges" in model:
        kept = [all(token in model["vocab"] for token in merge) for merge in _merges(model)]
        model["merges"] = [entry for entry, stays in zip(model["merges"], kept, strict=True) if stays]
    for entry in whole["added_tokens"]:
        entry["id"] = new[entry["id"]]
    _renumber_ends(whole.get("post_processor"), new)


def _renumber_ends(part: dict[str, Any] | None, new: dict[int, int]) -> None:
    """Replace the ids of special tokens in a post-processor."""
    if part is None:
        return
    for inner in part.get("processors", []):
        _renumber_ends(inner, new)
    for entry in (part.get("special_tokens") or {}).values():
        entry["ids"] = [new[number] for number in entry["ids"]]
    for role in ("cls", "sep"):
        if role in part:
            token, number = part[role]
            part[role] = [token, new[number]]
