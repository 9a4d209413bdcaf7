"""Bytes to text: Unicode where it is Unicode, else the encoding that makes the most sense of the bytes."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass

from masquerade.documents.extras import needed
from masquerade.errors import MasqueradeError
from masquerade.text.chinese import CHINESE

SAMPLE = 1 << 18  # bytes that an encoding is guessed from
COMMON = 0.08  # the least share of frequent characters in Chinese text; real text has 0.2 and more

_MARKS = (  # byte order marks; those of UTF-32 begin like UTF-16's, so they come first
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CHINESE = ("gb18030", "big5hkscs")
_FREQUENT = frozenset(  # frequent in simplified and in traditional text, with the punctuation of both
    "的一是不了在人有我他这這個个们們中来上大为為和国國地到以说說时時要就出会會可也你对對生能而子那得于於着著下自之年过過"
    "发發后後作里裡用道行所然家种種事成方多经經么麼去法学學如都同现現当當没沒动動面起看定天分还還进進好小部其些主样樣理心"
    "她本前开開但因只从從想实實日军軍者意无無力它与與长長把机機十民第公此已工使情明性知全三又关關点點正业業外将將两兩高"
    "，。、：；「」（）？！《》“”"
)
_WESTERN = frozenset(  # of Western European text; the encodings of other scripts give other characters as well
    "ÄÖÜäöüßÀÂÆÇÉÈÊËÎÏÔŒÙÛàâæçéèêëîïôœùûÿÁÍÓÚÑáíóúñìòÌÒÅåØøÃÕãõ¿¡«»‚‘’„“”–—…€£©®°·´§²³½¼¾×ªº\xa0\xad"
)
_LEVEL_ONE = re.compile(rb"(?:[\x00-\x7f]|[\xa1-\xa3\xb0-\xd7][\xa1-\xfe])+")  # frequent half of GB 2312, and signs
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")


@dataclass(frozen=True)
class Decoded:
    """A text and the encoding that its bytes were read in."""

    text: str
    encoding: str
    guessed: bool = False


def decode(data: bytes, name: str, declared: str | None = None) -> Decoded:
    """The text of bytes: by their byte order mark, as UTF-8, as UTF-16, in the encoding that they declare, or in the
    one that fits best. Binary data are refused."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strict(data, encoding, name)
    if b"\0" in data:
        wide = _wide(data)
        if wide is None:
            raise _binary(name)
        return _strict(data, wide, name, guessed=True)
    try:
        return _text(data.decode("utf-8"), "utf-8", False, name)
    except UnicodeDecodeError:
        pass
    if declared:
        try:
            wider = {"gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs"}.get(declared.lower(), declared)
            return _text(data.decode(wider), wider, False, name)
        except (LookupError, UnicodeDecodeError, ValueError):
            pass  # a wrong declaration: what follows knows better
    return _guess(data, name)


def decode_utf8(data: bytes, name: str) -> str:
    """The text of bytes that have to be UTF-8, such as what is typed."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise MasqueradeError(f"The {name} is not text in UTF-8; set the terminal to UTF-8.")
    return text


def _strict(data: bytes, encoding: str, name: str, guessed: bool = False) -> Decoded:
    try:
        return _text(data.decode(encoding), encoding, guessed, name)
    except UnicodeDecodeError as error:
        raise MasqueradeError(f"'{name}' is damaged: it is not {encoding} at byte {error.start:,}.") from error


def _text(text: str, encoding: str, guessed: bool, name: str) -> Decoded:
    """Refuse what decodes but is no text: bytes 0, or many control characters."""
    sample = text[:SAMPLE]
    controls = len(_CONTROL.findall(sample))
    if "\0" in text or (controls > 2 and controls > 0.02 * len(sample)):
        raise _binary(name)
    return Decoded(text, encoding, guessed)


def _binary(name: str) -> MasqueradeError:
    return MasqueradeError(f"'{name}' is a binary file, not text; give a text, PDF, Word or HTML file.")


def _wide(data: bytes) -> str | None:
    """UTF-16 without a byte order mark: ASCII characters of a text leave a 0 in every second byte."""
    sample = data[: SAMPLE // 2 * 2]
    if len(data) % 2 or len(sample) < 4:
        return None
    first, second = (sample[offset::2].count(0) / (len(sample) / 2) for offset in (0, 1))
    for encoding, here, there in (("utf-16-be", first, second), ("utf-16-le", second, first)):
        if here > 0.02 and there == 0:
            try:
                text = sample.decode(encoding)
            except UnicodeDecodeError:
                continue
            likely = len(CHINESE.findall(text)) + sum(character.isascii() for character in text)
            if likely > 0.7 * len(text):
                return encoding
    return None


def _guess(data: bytes, name: str) -> Decoded:
    """The best of the Chinese encodings if its text looks Chinese, else what charset-normalizer finds."""
    best, chosen = COMMON, None
    for encoding in _CHINESE:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        wide = [character for character in text[:SAMPLE] if not character.isascii()]
        share = sum(character in _FREQUENT for character in wide) / max(len(wide), 1)
        if share > best:
            best, chosen = share, Decoded(text, encoding, guessed=True)
    if chosen is not None:
        return _text(chosen.text, chosen.encoding, True, name)
    if _LEVEL_ONE.fullmatch(data):  # a few words only, too few for statistics
        return _text(data.decode("gb18030"), "gb18030", True, name)
    with suppress(UnicodeDecodeError):
        text = data.decode("cp1252")
        foreign = [character for character in text[:SAMPLE] if not character.isascii()]
        if _WESTERN.issuperset(foreign) and len(foreign) < 0.3 * len(text[:SAMPLE]):
            return _text(text, "cp1252", True, name)
    match = needed("charset_normalizer", name, "text that is neither Unicode nor Chinese").from_bytes(data).best()
    if match is None:
        raise _binary(name)
    return _text(str(match), match.encoding, True, name)
