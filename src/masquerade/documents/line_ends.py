"""Words that a hyphen divides at the end of a line, joined for reading, with the way back to the original text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

_DIVIDED = re.compile(  # a hyphen at the end of a line, inside a word; or a soft hyphen anywhere
    r"(?<=[^\W\d_])(?P<cut>(?P<hyphen>[-\u2010])[ \t]*(?:\r\n|\r|\n)[ \t]*)(?=(?P<right>[^\W\d_]{1,40}))"
    r"|(?P<soft>\u00ad(?:[ \t]*(?:\r\n|\r|\n)[ \t]*)?)"
)
_LEFT = re.compile(r"[^\W\d_]+\Z")
_WORD = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")


@dataclass(frozen=True)
class JoinedText:
    """A text without the characters that divide its words."""

    text: str
    cuts: tuple[tuple[int, int], ...] = ()  # the spans of the original text that were left out, rising

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original text that a span of this text comes from."""
        first = self._back(start)
        return first, (self._back(end - 1) + 1 if end > start else first)

    def cuts_between(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """The cuts that lie inside a span of the original text."""
        return self.cuts[bisect_left(self.cuts, (start, start)) : bisect_left(self.cuts, (end, end))]

    def _back(self, offset: int) -> int:
        """The offset in the original text of a character of this text."""
        if not self.cuts:
            return offset
        index = bisect_right(self._places, offset) - 1
        return offset if index < 0 else offset - self._places[index] + self.cuts[index][1]

    @cached_property
    def _places(self) -> list[int]:
        """Where each cut would stand in this text."""
        places, removed = list[int](), 0
        for start, end in self.cuts:
            places.append(start - removed)
            removed += end - start
        return places


def join_line_ends(text: str) -> JoinedText:
    """Join words that are divided at line ends. The hyphen stays where the text has the word with a hyphen elsewhere
    and not without one ("well-known"), or where the next line begins with a capital ("Franco-\\nPrussian")."""
    found = list(_DIVIDED.finditer(text))
    if not found:
        return JoinedText(text)
    words = {word[0].replace("\u2010", "-").lower() for word in _WORD.finditer(text)}
    cuts = list[tuple[int, int]]()
    for match in found:
        if match["soft"] is not None:
            cuts.append(match.span("soft"))
            continue
        start, end = match.span("cut")
        before = _LEFT.search(text, max(0, start - 40), start)
        left, right = before[0] if before else "", match["right"]
        whole, parted = (left + right).lower() in words, f"{left}-{right}".lower() in words
        if (right[0].isupper() and not left.isupper()) or (parted and not whole):
            start += len(match["hyphen"])
        cuts.append((start, end))
    kept, offset = list[str](), 0
    for start, end in cuts:
        kept.append(text[offset:start])
        offset = end
    return JoinedText("".join([*kept, text[offset:]]), tuple(cuts))
