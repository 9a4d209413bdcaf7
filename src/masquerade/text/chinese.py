"""Chinese characters, words and spacing."""

from __future__ import annotations

import functools
import importlib
import logging
import re
from collections.abc import Sequence
from types import ModuleType

from masquerade.errors import MasqueradeError

_IDEOGRAPHS = (  # ranges of code points
    (0x3400, 0x4DBF),  # extension A
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),  # compatibility ideographs
    (0x20000, 0x3FFFF),  # further extensions
)
_WIDE = (  # ranges written without spaces around them
    *_IDEOGRAPHS,
    (0x2E80, 0x303F),  # radicals; CJK symbols and punctuation
    (0x3040, 0x30FF),  # kana
    (0xFE30, 0xFE4F),  # compatibility forms
    (0xFF00, 0xFFEF),  # full-width forms
)
HAN = "".join(f"{chr(first)}-{chr(last)}" for first, last in _IDEOGRAPHS)  # for a character class of a regex
CHINESE = re.compile(f"[{HAN}]")  # one Chinese character


@functools.lru_cache(maxsize=2**16)
def is_wide(character: str) -> bool:
    """Whether this is a Chinese (or Japanese) character or punctuation mark, written without spaces."""
    return any(first <= ord(character) <= last for first, last in _WIDE)


def load_jieba(module: str = "jieba") -> ModuleType:
    """The Chinese word segmenter jieba, or one of its modules, imported on use because it is optional."""
    try:
        importlib.import_module("jieba")
        logging.getLogger("jieba").setLevel(logging.WARNING)
        return importlib.import_module(module)
    except ImportError as error:
        raise MasqueradeError("Chinese words need the jieba segmenter; run 'pip install jieba'.") from error


def join_pieces(pieces: Sequence[str]) -> str:
    """Word pieces as readable text: ``##`` continues a word, there is no space around Chinese characters and none
    before punctuation."""
    text = ""
    for piece in pieces:
        if piece.startswith("##") and len(piece) > 2:
            text += piece[2:]
        elif text and piece and not (is_wide(text[-1]) or is_wide(piece[0]) or piece in ".,;:!?%)]}'"):
            text += " " + piece
        else:
            text += piece
    return text
