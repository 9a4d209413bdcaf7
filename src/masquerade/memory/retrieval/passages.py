"""Documents cut into passages at headings and sentence ends."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from masquerade.documents.document import Document
from masquerade.documents.line_ends import JoinedText
from masquerade.text.chinese import CHINESE
from masquerade.text.sentences import SENTENCE_END

SIZE = 1000  # letters of a passage at most; a Chinese character counts as three
WIDE = 3
SECTION = 100  # letters; a section that is shorter is joined with the next one
TITLE = 80  # letters; a longer line is no heading

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_MARKDOWN = re.compile(r"\s{0,3}#{1,6}[ \t]+(?P<title>\S.*?)[ \t#]*\Z")
_BODY = re.compile(r"\s*(?:[-*+•|>#=~`]|!?\[|\d+[.)、]\s)|.*(?:[.。!！?？;；:：,，、…\"”」|=-]|-{3,})\s*\Z", re.DOTALL)
_LETTER = re.compile(r"[^\W\d_]")
_BREAK = re.compile(r"[\s，,;；:：、。]")


@dataclass(frozen=True)
class Passage:
    """A part of a document. All offsets but ``start`` and ``end`` are relative to the passage."""

    text: str  # the characters start:end of the document
    start: int
    end: int
    heading: str = ""
    cuts: tuple[tuple[int, int], ...] = ()  # characters that divide words at line ends
    starts: tuple[int, ...] = (0,)  # where the document's units (lines, pages …) begin
    numbers: tuple[int, ...] = (1,)  # … and their numbers

    @cached_property
    def joined(self) -> JoinedText:
        """The text to read, with divided words whole."""
        if not self.cuts:
            return JoinedText(self.text)
        kept, offset = list[str](), 0
        for first, last in self.cuts:
            kept.append(self.text[offset:first])
            offset = last
        return JoinedText("".join([*kept, self.text[offset:]]), self.cuts)

    def searched(self, title: str) -> str:
        """What the passage is found by: its text, under the document's title and its heading."""
        above = [line for line in dict.fromkeys((title, self.heading)) if line and line not in self.text]
        return "\n".join([*above, self.joined.text])

    def document(self, name: str, title: str, unit: str) -> Document:
        """The passage as a document of its own, cited by the places of the whole one."""
        return Document(name, self.text, title, unit, self.starts, self.numbers)


class Unit(NamedTuple):
    """The smallest part that a passage is made of: a heading, or a sentence with the space behind it."""

    start: int
    end: int
    letters: int
    opens: bool  # the first of its paragraph
    heading: str | None = None  # the words of the heading that this is


def cut_passages(document: Document, size: int = SIZE) -> list[Passage]:
    """The passages of a document, each at most about ``size`` letters long (a Chinese character counts as three). A
    passage ends at a sentence end, if it can at the end of a paragraph, and before a heading; it keeps the heading it
    stands under."""
    passages, current, heading, filled = list[Passage](), list[Unit](), "", 0
    for unit in _units(document, size):
        section = unit.heading is not None and filled >= SECTION and any(each.heading is None for each in current)
        while section or (current and filled + unit.letters > size):  # what is left may still leave no room
            keep = len(current) if section else _paragraph_end(current, size)
            heading = _close(document, passages, current[:keep], heading)
            current, section = current[keep:], False
            filled = sum(each.letters for each in current)
        current.append(unit)
        filled += unit.letters
    _close(document, passages, current, heading)
    return passages


def _close(document: Document, passages: list[Passage], units: list[Unit], heading: str) -> str:
    """Add the passage of some units. Returns the heading that what follows stands under."""
    own = next((unit.heading for unit in units[:1] if unit.heading is not None), heading)
    start, end = (units[0].start, units[-1].end) if units else (0, 0)
    text = document.text[start:end]
    start += len(text) - len(text.lstrip())
    text = text.strip()
    if text:
        passages.append(_passage(document, start, start + len(text), own))
    return next((unit.heading for unit in reversed(units) if unit.heading is not None), heading)


def _passage(document: Document, start: int, end: int, heading: str) -> Passage:
    cuts = tuple((first - start, last - start) for first, last in document.joined.cuts_between(start, end))
    numbers, starts = [document.place(start).number], [0]
    for offset in document.unit_starts(start, end):
        starts.append(offset - start)
        numbers.append(document.place(offset).number)
    return Passage(document.text[start:end], start, end, heading, cuts, tuple(starts), tuple(numbers))


def _paragraph_end(units: list[Unit], size: int) -> int:
    """How many of the units make a passage: up to the last paragraph end in the second half, else all."""
    sizes = [0]
    for unit in units:
        sizes.append(sizes[-1] + unit.letters)
    first = max(1, bisect_left(sizes, size // 2))
    return next((index for index in range(len(units) - 1, first - 1, -1) if units[index].opens), len(units))


def _units(document: Document, size: int) -> Iterator[Unit]:
    """The headings and sentences of a document in order; together they are the whole text."""
    paragraphs = list(_paragraphs(document.text))
    for index, (start, end) in enumerate(paragraphs):
        heading = _heading(document, start, end) if index + 1 < len(paragraphs) else None
        if heading is not None:
            yield Unit(start, end, letters(document.text[start:end]), True, heading)
            continue
        for number, (first, last) in enumerate(_sentences(document, start, end, size)):
            yield Unit(first, last, letters(document.text[first:last]), number == 0)


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """The spans of paragraphs, divided by empty lines; a Markdown heading is one of its own."""
    start, filled, offset = 0, False, 0
    for line in _LINE.finditer(text):
        if not line[0]:
            continue
        blank, titled = not line[0].strip(), _MARKDOWN.match(line[0].rstrip()) is not None
        if filled and (titled or (not blank and offset < 0)):
            yield start, line.start()
            start, filled = line.start(), False
        if titled:
            yield start, line.end()
            start, filled = line.end(), False
        else:
            filled = filled or not blank
        offset = -1 if blank else line.end()
    if start < len(text):
        yield start, len(text)


def _heading(document: Document, start: int, end: int) -> str | None:
    """The words of a heading, if a paragraph is one: a Markdown heading, or one short line of prose that does not end
    as a sentence does."""
    line = document.text[start:end].strip()
    if titled := _MARKDOWN.match(line):
        return titled["title"]
    short = "\n" not in line and "\r" not in line and 0 < letters(line) <= TITLE
    return line if document.prose and short and _LETTER.search(line) and not _BODY.match(line) else None


def _sentences(document: Document, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """The spans of sentences, or of lines where the text is no prose; none of them longer than a passage."""
    ends = SENTENCE_END if document.prose else _LINE
    stops = [stop.end() for stop in ends.finditer(document.text, start, end)]
    for stop in [*(stop for stop in stops if start < stop < end), end]:
        while letters(document.text[start : min(stop, start + size + 1)]) > size:
            part = document.text[start : min(stop, start + size)]
            part = part[: size // WIDE] if CHINESE.search(part) else part
            breaks = [match.end() for match in _BREAK.finditer(part, len(part) // 2)]
            yield start, start + (breaks[-1] if breaks else len(part))
            start += breaks[-1] if breaks else len(part)
        if start < stop:
            yield start, stop
        start = stop


def letters(text: str) -> int:
    """The size of a text in letters; a Chinese character counts as three."""
    return len(text) + (WIDE - 1) * len(CHINESE.findall(text))
