"""A vocabulary cut down to the tokens that a task needs, with a tokenizer to match."""

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
    """The tokens that occur at least so often in the texts, in the order of their ids."""
    if least < 1:
        raise MasqueradeError(f"Tokens that occur {least} times are all there are; give a count of at least 1.")
    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(tokenizer.encode(text))
    if not counts:
        raise MasqueradeError("The texts have no tokens, so there is nothing to keep.")
    return sorted(number for number, count in counts.items() if count >= least)


def cut(tokenizer: Tokenizer, keep: Iterable[int]) -> tuple[Tokenizer, list[int]]:
    """A tokenizer with these tokens alone, and their old ids in the order of the new ones.

    Special tokens always stay, and so does what a kept token is made from. A text whose tokens are all kept is cut into
    the same tokens as before.
    """
    whole = json.loads(tokenizer.backend.to_str())
    size, asked = len(tokenizer), {int(number) for number in keep}
    if wrong := [number for number in asked if not 0 <= number < size]:
        raise MasqueradeError(f"There is no token {min(wrong)} to keep: the tokenizer has {size} of them, from 0 on.")
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
    """Word pieces are found whole, the longest first: the others are not missed."""
    return set()


def _pairs(model: dict[str, Any], kept: set[int]) -> set[int]:
    """Byte pairs: every token that a kept one is merged from, and the single bytes, so that any text has tokens."""
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
    """Unigrams: the least probable piece, since it says how improbable an unknown character is."""
    pieces: list[tuple[str, float]] = model["vocab"]
    return {min(range(len(pieces)), key=lambda number: pieces[number][1])}


CLOSING = {"WordPiece": _nothing, "WordLevel": _nothing, "BPE": _pairs, "Unigram": _worst}


def _spare(model: dict[str, Any]) -> set[int]:
    """The tokens that stand for what has none: the unknown token, and those that spell single bytes."""
    vocab = model["vocab"]
    numbers = {piece: n for n, (piece, _) in enumerate(vocab)} if isinstance(vocab, list) else vocab
    found = {number for token, number in numbers.items() if len(token) == 6 and token.startswith("<0x")}
    unknown = numbers.get(model.get("unk_token"), model.get("unk_id"))
    return found if unknown is None else {*found, unknown}


def _merges(model: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Each merge as the two tokens it joins and the one it makes, however its file spells it."""
    inside = model.get("continuing_subword_prefix") or ""
    for entry in model["merges"]:
        first, second = entry.split(" ") if isinstance(entry, str) else entry
        yield first, second, first + second.removeprefix(inside)


def _renumber(whole: dict[str, Any], new: dict[int, int]) -> None:
    """Give everything in a tokenizer's description its new ids, and leave out what has none."""
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
    """The special tokens that a post-processor puts around a text."""
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
