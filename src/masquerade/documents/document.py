"""A document: its text, and the page, line or paragraph of each of its characters."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

from masquerade.documents.line_ends import JoinedText, join_line_ends
from masquerade.text.chinese import CHINESE, HAN, is_wide
from masquerade.text.sentences import SENTENCE_END

AROUND = 240  # characters at most that are shown on either side of an answer

_WORD = re.compile(rf"[^\W\d_{HAN}]+")
_SPACE = re.compile(r"\s+")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Citation:
    """The page, line, paragraph or item of a document that a character belongs to; numbers begin at 1."""

    unit: str
    number: int


@dataclass(frozen=True)
class Document:
    """A text from a file. Spans are character offsets into ``text``."""

    name: str  # the path as it was given, or "standard input"
    text: str
    title: str = ""
    unit: str = "line"  # what is cited: line, page, paragraph or item
    starts: tuple[int, ...] = ()  # where each unit begins in the text, rising; empty: units are the text's own lines
    numbers: tuple[int, ...] = ()  # the number of each unit; empty: 1, 2, 3 …
    prose: bool = True  # hyphens at line ends divide words; not so in code and tables
    encoding: str = ""  # the encoding of the bytes, where the file has one
    guessed: bool = False  # the encoding was found by statistics, so it may be wrong
    skipped: tuple[str, ...] = ()  # a sentence for each part of the file that could not be read

    @cached_property
    def joined(self) -> JoinedText:
        """The text to read: words that a line end divides are whole, and spans can be mapped back to ``text``."""
        return join_line_ends(self.text) if self.prose else JoinedText(self.text)

    @cached_property
    def language(self) -> str:
        """ "zh" or "en", by the characters of the text."""
        return language(self.text)

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        return self.starts or (0, *(end.end() for end in _LINE_END.finditer(self.text)))

    def place(self, offset: int) -> Citation:
        """The unit that a character belongs to."""
        index = max(bisect_right(self._starts, offset) - 1, 0)
        return Citation(self.unit, self.numbers[index] if self.numbers else index + 1)

    def unit_starts(self, start: int, end: int) -> tuple[int, ...]:
        """Where units begin inside a span, its first character left out."""
        return self._starts[bisect_right(self._starts, start) : bisect_left(self._starts, end)]

    def cite(self, offset: int) -> str:
        """The file and the place of a character for people: "notes.txt:12" or "report.pdf, page 3"."""
        place = self.place(offset)
        return f"{self.name}:{place.number}" if place.unit == "line" else f"{self.name}, {place.unit} {place.number}"

    def piece(self, start: int, end: int) -> str:
        """A span in one line: divided words are joined, a line end becomes a blank, or nothing between Chinese
        characters. In code and tables it becomes a bar, since every line is something of its own."""
        cuts = self.joined.cuts_between(start, end)
        inside = {offset for cut in cuts for offset in range(*cut)}
        gaps = [(cut, True) for cut in cuts]
        gaps += [(gap.span(), False) for gap in _SPACE.finditer(self.text, start, end) if gap.start() not in inside]
        made, offset = "", start
        for (first, last), cut in sorted(gaps):
            sides = self.text[max(0, first - 1) : first], self.text[last : last + 1]
            new_line = _LINE_END.search(self.text, first, last) is not None
            if new_line and not self.prose:
                between = " | "
            else:
                between = "" if cut or (new_line and all(side and is_wide(side) for side in sides)) else " "
            made += self.text[offset:first] + between
            offset = last
        return made + self.text[offset:end]

    def around(self, start: int, end: int) -> tuple[str, str]:
        """The sentence around a span: what stands before and after it, cut where that is very long."""
        text, first, last = self.text, max(0, start - AROUND), min(len(self.text), end + AROUND)
        stops = [stop.end() for stop in SENTENCE_END.finditer(text, first, last)]
        begin = max((stop for stop in stops if stop <= start), default=None)
        close = min((stop for stop in stops if stop >= end), default=None)
        if begin is None and first > 0:  # inside a sentence, from a whole word on if there are words
            before = "…" + self.piece(text.find(" ", first, start) + 1 or first, start)
        else:
            before = self.piece(begin or 0, start).lstrip(" |" if not self.prose else None)
        if close is None and last < len(text):
            after = self.piece(end, max(text.rfind(" ", end, last), end) if " " in text[end:last] else last) + "…"
        else:
            after = self.piece(end, last if close is None else close).rstrip(" |" if not self.prose else None)
        return before, after


def language(*texts: str) -> str:
    """ "zh" if one of the texts has at least as many Chinese characters as words of other scripts, else "en"."""
    counts = ((len(CHINESE.findall(text)), len(_WORD.findall(text))) for text in texts)
    return "zh" if any(characters and characters >= words for characters, words in counts) else "en"
