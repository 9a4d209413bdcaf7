"""The best answers of a text: spans of whole words that do not overlap, and that do not repeat the question."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from masquerade.text.chinese import HAN, is_wide

SPARE = 2  # spans of a window beside those that were asked for: some overlap better ones of the next window

_WORDS = re.compile(rf"[{HAN}]|[^\W_{HAN}]+")
_DIVIDED = re.compile(r"[-\u2010\u00ad][ \t]*(?:\r\n|\r|\n)[ \t]*(?=[^\W\d_])")  # what divides a word at a line end
_DIVIDED_BEFORE = re.compile(r"[^\W\d_][-\u2010\u00ad][ \t]*(?:\r\n|\r|\n)[ \t]*\Z")
_CELLS = re.compile(r"[ \u00a0]{3,}|\u3000{2,}|\t| \| ")  # what is between the cells of a row
_NEAR = 40  # characters before an offset that are searched for a divided word
_ARTICLES = frozenset(("a", "an", "the"))
_CHOICE = re.compile(r"\b(?:or|either)\b|还是|還是|或", re.IGNORECASE)  # such a question names its answers


class ScoredSpan(NamedTuple):
    """A span of a window's tokens and its score."""

    start: int
    length: int
    score: float


def best_spans(
    scores: Tensor, text: str, places: Sequence[tuple[int, int]], count: int, question: str = ""
) -> list[ScoredSpan]:
    """Up to ``count`` spans of whole words with different words, no two of which overlap, the best first; none repeats
    the question, unless there is no other, and none goes beyond a cell of a table.

    ``scores`` (n, longest) are those of spans by start and length − 1, and ``places`` the characters of the n tokens in
    the text. Where no span has whole words, as in a word of more tokens than an answer may have, any span may be one.
    """
    n, longest = scores.shape
    if not n:
        return []
    begins, ends = [_first(text, place) for place in places], [end for _, end in places]
    first = torch.tensor([not inside_word(text, begin) for begin in begins])
    last = torch.tensor([not inside_word(text, end) for end in ends])
    index = (torch.arange(n).unsqueeze(-1) + torch.arange(longest)).clamp(max=n - 1)  # of the last token, (n, longest)
    cells = torch.tensor(_cells(text, begins))
    whole = first.unsqueeze(-1) & last[index] & (cells.unsqueeze(-1) == cells[index])
    left = scores.masked_fill(~whole, -torch.inf)
    begin_at, end_at = torch.tensor(begins).unsqueeze(-1), torch.tensor(ends)[index]  # characters: tokens may share one
    if left.max() == -torch.inf:
        left = scores.clone()
    found, repeated, seen = list[ScoredSpan](), list[ScoredSpan](), set[str]()
    while len(found) < count:
        score, place = left.flatten().max(0)
        if score == -torch.inf:
            break
        start, length = int(place) // longest, int(place) % longest + 1
        left[start, length - 1] = -torch.inf
        begin, end = begins[start], ends[start + length - 1]
        words = text[begin:end].strip().casefold()
        if not words or words in seen:
            continue
        seen.add(words)
        if repeats(words, question):
            repeated.append(ScoredSpan(start, length, float(score)))
            continue
        found.append(ScoredSpan(start, length, float(score)))
        left.masked_fill_((begin_at < end) & (end_at > begin), -torch.inf)
    return found or repeated[:1]


def _cells(text: str, begins: Sequence[int]) -> list[int]:
    """The number of the table cell that each character is in; in a text without columns all are in the same."""
    if not begins:
        return []
    least, greatest = min(begins), max(begins)
    gaps = [gap.end() for gap in _CELLS.finditer(text, least, greatest)]
    return [bisect_right(gaps, begin) for begin in begins]


def inside_word(text: str, offset: int) -> bool:
    """Whether the characters before and after an offset belong to one word or number: "Par|is", "2,31|8.40",
    "1|:02", "exam|-\\nple". A Chinese character is a word."""
    before, after = text[offset - 1 : offset] if offset else "", text[offset : offset + 1]
    if not before or not after:
        return False
    if unicodedata.combining(after):
        return True
    if before.isdigit() and after in ".,:":
        return text[offset + 1 : offset + 2].isdigit()
    if before in ".,:" and after.isdigit():
        return text[max(0, offset - 2) : offset - 1].isdigit()
    if before.isalpha() and _DIVIDED.match(text, offset):
        return True
    if after.isalpha() and _DIVIDED_BEFORE.search(text, max(0, offset - _NEAR), offset):
        return True
    return all(each.isalnum() and not is_wide(each) for each in (before, after))


def repeats(answer: str, question: str) -> bool:
    """Whether an answer has only words of the question, in its order. A question that offers a choice ("tea or
    coffee?") may have its answer in it."""
    words, asked = _words(answer), _words(question)
    if not words or _CHOICE.search(question):
        return False
    return any(asked[start : start + len(words)] == words for start in range(len(asked) - len(words) + 1))


def _words(text: str) -> list[str]:
    """The words of a text in lower case, without articles; a Chinese character is one."""
    return [word for word in _WORDS.findall(text.lower()) if word not in _ARTICLES]


def _first(text: str, place: tuple[int, int]) -> int:
    """The first character of a token that is no blank: in some vocabularies a token includes one."""
    start, end = place
    while start < end and text[start].isspace():
        start += 1
    return start
