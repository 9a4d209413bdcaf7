"""Texts from where people keep them, each with the name of its file; and the sentence that an answer stands in."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from masquerade.errors import MasqueradeError
from masquerade.text.chinese import is_wide

TEXTS = (".txt", ".md")  # the files of a folder that are read
AROUND = 240  # characters at most that are shown on either side of an answer

_HAN = r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_CHARACTER, _WORD = re.compile(f"[{_HAN}]"), re.compile(rf"[^\W\d_{_HAN}]+")
_STOP = re.compile(  # where a sentence ends: not behind a title or an initial (I, V, X are numbers)
    r"[。！？]+[”’」』）》]*"
    r"|(?<!\b[A-HJ-UWYZ])(?<!\.[a-z])(?<!\bNo)(?<!\b[DMS][rst])(?<!\bMrs)[.!?]+[\"'”’)\]]*(?=\s+[^\sa-z]|\s*\Z)"
    r"|\n\s*\n"
)
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Page:
    """A text, and the name of its file."""

    name: str
    text: str

    def line(self, place: int) -> int:
        """The number of the line that a character stands in."""
        return self.text.count("\n", 0, place) + 1

    def piece(self, start: int, end: int) -> str:
        """Some characters in one line: a line end is a blank, and nothing between Chinese characters."""
        made, place = "", start
        for gap in _SPACE.finditer(self.text, start, end):
            sides = self.text[max(0, gap.start() - 1) : gap.start()], self.text[gap.end() : gap.end() + 1]
            joined = "\n" in gap[0] and all(side and is_wide(side) for side in sides)
            made += self.text[place : gap.start()] + ("" if joined else " ")
            place = gap.end()
        return made + self.text[place:end]

    def around(self, start: int, end: int) -> tuple[str, str]:
        """The sentence around some characters: what stands before and behind them, cut where that is very long."""
        text, first, last = self.text, max(0, start - AROUND), min(len(self.text), end + AROUND)
        stops = [stop.end() for stop in _STOP.finditer(text, first, last)]
        begin = max((stop for stop in stops if stop <= start), default=None)
        close = min((stop for stop in stops if stop >= end), default=None)
        if begin is None and first > 0:  # in the midst of a sentence, from a whole word on if there are words
            before = "…" + self.piece(text.find(" ", first, start) + 1 or first, start)
        else:
            before = self.piece(begin or 0, start).lstrip("\ufeff ")
        if close is None and last < len(text):
            after = self.piece(end, max(text.rfind(" ", end, last), end) if " " in text[end:last] else last) + "…"
        else:
            after = self.piece(end, last if close is None else close).rstrip()
        return before, after


def read_pages(sources: Sequence[str]) -> list[Page]:
    """The texts of files, of the .txt and .md files in folders, and with "-" of standard input."""
    if not sources:
        raise MasqueradeError("There is nothing to read; give a file or a folder by --in, or - for standard input.")
    pages = list[Page]()
    for source in dict.fromkeys(sources):
        folder = Path(source).expanduser()
        if folder.is_dir():
            pages += _in_folder(folder)
            continue
        pages.append(_read(source))
        if not pages[-1].text.strip("\ufeff \t\r\n"):
            raise MasqueradeError(f"There are no words in '{pages[-1].name}'; give a text to read.")
    return list(dict.fromkeys(pages))


def decoded(data: bytes, name: str) -> str:
    """The text of bytes in UTF-8."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        other = "if it is text in another encoding, convert it first, as with iconv -f gb18030 -t utf-8"
        raise MasqueradeError(f"'{name}' is not text in UTF-8; {other}.")
    return text


def language(*texts: str) -> str:
    """ "zh" if one of the texts has at least as many Chinese characters as words of other scripts, else "en"."""
    counts = ((len(_CHARACTER.findall(text)), len(_WORD.findall(text))) for text in texts)
    return "zh" if any(characters and characters >= words for characters, words in counts) else "en"


def _in_folder(folder: Path) -> list[Page]:
    """The texts of a folder and those inside of it, in the order of their names; hidden and empty ones left out."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in TEXTS and path.is_file()]
    shown = [path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    pages = [page for page in (_read(str(path)) for path in shown) if page.text.strip("\ufeff \t\r\n")]
    if not pages:
        raise MasqueradeError(f"The folder '{folder}' has no {' or '.join(TEXTS)} files with words in them.")
    return pages


def _read(source: str) -> Page:
    """A file as it is: line ends are not changed, so that places in the text are those of the file."""
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).expanduser().read_bytes()
    except FileNotFoundError as error:
        raise MasqueradeError(f"There is no file '{source}'; check the path.") from error
    except OSError as error:
        raise MasqueradeError(f"'{source}' cannot be read: {error.strerror or error}.") from error
    name = "standard input" if source == "-" else source
    return Page(name, decoded(data, name))
