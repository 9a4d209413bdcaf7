"""REALM's salient spans: one name or date is masked as a whole, because predicting it needs knowledge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.layout import IGNORE
from masquerade.masks import bidirectional
from masquerade.objectives.base import Objective
from masquerade.objectives.grouping import spell
from masquerade.objectives.masked import Units
from masquerade.text.sentences import STOPS
from masquerade.text.tokenizer import Tokenizer
from masquerade.text.vocabulary import Vocabulary

# Tokens of a WordPiece vocabulary are read with spaces between them ("March 5 , 1998"), so every space is optional.
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)(?: ?\.)?"
)
_DAY, _YEAR = r"\d{1,2}(?: ?(?:st|nd|rd|th))?", r"\d{4}"
_ENGLISH = (
    rf"{_MONTH} ?{_DAY}(?: ?, ?{_YEAR}| {_YEAR})?",  # March 5, 1998
    rf"{_DAY} (?:of )?{_MONTH}(?: ?,? ?{_YEAR})?",  # 5 March 1998
    rf"{_MONTH} {_YEAR}",
    rf"{_YEAR} ?[-/] ?\d{{1,2}} ?[-/] ?\d{{1,2}}",  # 1998-03-05
    r"\d{1,3}(?: ?, ?\d{3})+(?: ?\. ?\d+)?(?: ?%)?",  # 12,000.5
    r"\d{1,3} ?\. ?\d+(?: ?%)?",  # 3.5 %
    r"\d+(?:st|nd|rd|th|s)?(?: ?%)?",  # 1998, 1990s, 5th
)
_NUMERALS = "\\d〇零一二三四五六七八九十"
_CHINESE = (
    rf"(?:[{_NUMERALS}]{{2,4}} ?年 ?)?[{_NUMERALS}]{{1,2}} ?月(?: ?[{_NUMERALS}]{{1,3}} ?[日号])?",  # 1998年3月5日
    rf"[{_NUMERALS}]{{2,4}} ?年",
)
DATES = re.compile(
    rf"(?<![A-Za-z\d])(?:{'|'.join(_CHINESE)}|(?:{'|'.join(_ENGLISH)})(?![A-Za-z\d]))", flags=re.IGNORECASE
)
_NAME = r"[A-ZÀ-Þ][A-Za-zÀ-ɏ'’\d-]*"
_NAMES = re.compile(rf"(?<![A-Za-zÀ-ɏ\d]){_NAME}(?: {_NAME})*")
_OPENERS = (  # words that are capitalised for other reasons than being names
    "A After All Although An And As At Before But By During For From He Her His How However I If In It Its My No Not "
    "Of On One Or Our She Since So Some That The Their Then There These They This Those To Under Until We What When "
    "Where Which While Who Why With You Your"
)
OPENERS = frozenset(_OPENERS.split())


def dates_and_numbers(tokenizer: Tokenizer) -> Units:
    """Finds years, dates and numbers in English and Chinese text: 1998, March 5, 1998年3月, 12,000, 3.5 %."""

    def find(ids: Sequence[int]) -> list[list[int]]:
        text, owner = spell(tokenizer, ids)
        return [_tokens(owner, *match.span()) for match in DATES.finditer(text)]

    return find


def names(tokenizer: Tokenizer) -> Units:
    """Finds runs of capitalised words, without a function word at the beginning (The). A single word at the beginning
    of a sentence is left out, as it is always capitalised. Lower-cased vocabularies and Chinese have no capitals; use
    another finder there, such as the entities of a list."""

    def find(ids: Sequence[int]) -> list[list[int]]:
        text, owner = spell(tokenizer, ids)
        return [_tokens(owner, *place) for place in name_places(text)]

    return find


def name_places(text: str) -> list[tuple[int, int]]:
    """The names of a text, as ``names`` finds them: (start, end) in characters."""
    found = []
    for match in _NAMES.finditer(text):
        start, stop = match.span()
        words = match.group().split(" ")
        while words and words[0] in OPENERS:
            start += len(words.pop(0)) + 1
        opens = start == match.start() and re.search(rf"(^|[{STOPS}\n])\W*$", text[:start])
        if len(words) > 1 or (words and not opens):
            found.append((start, stop))
    return found


@dataclass(frozen=True)
class Salient(Objective):
    """One random span of those that ``find`` returns is masked and predicted; one whole word if there is none."""

    vocabulary: Vocabulary
    find: Units

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        found = [[index for index in span if ids[index] not in self.vocabulary.specials] for span in self.find(ids)]
        spans = [span for span in found if span] or self.vocabulary.words(ids)
        shown, label = list(ids), [IGNORE] * len(ids)
        for index in spans[int(rng.integers(len(spans)))] if spans else []:
            shown[index], label[index] = self.vocabulary.mask, ids[index]
        return Example(bidirectional(shown).replace(label=label))


def _tokens(owner: Sequence[int], start: int, stop: int) -> list[int]:
    """The tokens of the characters from start to stop."""
    return sorted({index for index in owner[start:stop] if index >= 0})
