"""What is particular to Chinese text: it has no spaces, and its characters are words of their own."""

from __future__ import annotations

from collections.abc import Sequence

_WIDE = (  # ranges of code points written without spaces around them
    (0x2E80, 0x303F),  # radicals; CJK symbols and punctuation
    (0x3040, 0x30FF),  # kana
    (0x3400, 0x4DBF),  # ideographs, extension A
    (0x4E00, 0x9FFF),  # ideographs
    (0xF900, 0xFAFF),  # compatibility ideographs
    (0xFE30, 0xFE4F),  # compatibility forms
    (0xFF00, 0xFFEF),  # full-width forms
    (0x20000, 0x3FFFF),  # further ideographs
)


def is_wide(character: str) -> bool:
    """Is this a Chinese (or Japanese) character or punctuation mark, written without spaces?"""
    return any(first <= ord(character) <= last for first, last in _WIDE)


def join_pieces(pieces: Sequence[str]) -> str:
    """Word pieces as readable text: ``##`` continues a word, Chinese stands without spaces, and punctuation without
    a space before it."""
    text = ""
    for piece in pieces:
        if piece.startswith("##") and len(piece) > 2:
            text += piece[2:]
        elif text and piece and not (is_wide(text[-1]) or is_wide(piece[0]) or piece in ".,;:!?%)]}'"):
            text += " " + piece
        else:
            text += piece
    return text
