"""Tokenizers from a sentencepiece file: DeBERTa-v2 and v3 are published with a ``spm.model``.

The file is a protocol buffer. Only the fields that shape a tokenizer are read, so neither sentencepiece nor protobuf
has to be installed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.models import Unigram
from tokenizers.processors import TemplateProcessing

from masquerade.errors import CheckpointError

UNIGRAM = 1  # the model type of a unigram vocabulary
MARKED = (3, 4)  # the types of control tokens and of tokens that users define: they are found before anything else
PREFIX = "▁"  # stands for a blank


def read_sentencepiece(folder: Path, settings: dict[str, Any]) -> Backend:
    """The tokenizer of a folder with a DeBERTa ``spm.model``; ``settings`` are those of tokenizer_config.json."""
    path = folder / "spm.model"
    try:
        pieces, unknown, kind, characters = _parse(path.read_bytes())
    except (IndexError, struct.error, UnicodeDecodeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); get the file again.") from error
    if kind != UNIGRAM or not pieces:
        raise CheckpointError(f"{path} holds no unigram vocabulary; DeBERTa's is one.")
    backend = Backend(Unigram([(piece, score) for piece, score, _ in pieces], unk_id=unknown, byte_fallback=False))
    before = [normalizers.Lowercase()] if settings.get("do_lower_case") else []
    mapped = [normalizers.Precompiled(characters)] if characters else []
    backend.normalizer = normalizers.Sequence(
        [*before, normalizers.Strip(), *mapped, normalizers.Replace(Regex(" {2,}"), " ")]
    )
    divided = [pre_tokenizers.Punctuation()] if settings.get("split_by_punct") else []
    words = pre_tokenizers.Metaspace(replacement=PREFIX, prepend_scheme="always")
    backend.pre_tokenizer = pre_tokenizers.Sequence([*divided, words])
    backend.decoder = decoders.Metaspace(replacement=PREFIX, prepend_scheme="always")
    backend.add_special_tokens([AddedToken(piece, normalized=False) for piece, _, kind in pieces if kind in MARKED])
    added = folder / "added_tokens.json"
    further = json.loads(added.read_text(encoding="utf-8")) if added.is_file() else {"[MASK]": len(pieces)}
    backend.add_special_tokens(sorted(further, key=lambda token: int(further[token])))
    ends = [(token, backend.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    if any(number is None for _, number in ends):
        raise CheckpointError(f"{path} has no [CLS] and [SEP], so it is not DeBERTa's.")
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=ends
    )
    return backend


def _parse(data: bytes) -> tuple[list[tuple[str, float, int]], int, int, bytes]:
    """The pieces with their scores and types, the id of the unknown token, the type of the model, and the table that
    maps characters before anything is looked up."""
    pieces, unknown, kind, characters = list[tuple[str, float, int]](), 0, UNIGRAM, b""
    for number, value in _fields(data):
        if number == 1:
            piece = dict(_fields(bytes(value)))
            score = struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0
            pieces.append((bytes(piece.get(1, b"")).decode(), score, int(piece.get(3, 1))))
        elif number == 2:
            trainer = dict(_fields(bytes(value)))
            unknown, kind = int(trainer.get(40, 0)), int(trainer.get(3, UNIGRAM))
        elif number == 3:
            characters = bytes(dict(_fields(bytes(value))).get(2, b""))
    return pieces, unknown, kind, characters


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protocol buffer in order: its number, and an integer or bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(data, place)
            yield number, value
            continue
        if wire == 2:
            size, place = _varint(data, place)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"a field of type {wire} at byte {place:,}")
        if place + size > len(data):
            raise ValueError(f"it ends inside a field at byte {place:,}")
        yield number, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """An integer of variable length, and where what follows begins."""
    value = shift = 0
    while True:
        byte = data[place]
        value, place, shift = value | (byte & 127) << shift, place + 1, shift + 7
        if byte < 128:
            return value, place
