"""Search terms: stems of English words, Chinese words and bigrams, numbers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Any

from masquerade.memory.retrieval.packages import retrieval_package
from masquerade.text.chinese import HAN, load_jieba
from masquerade.text.sentences import SENTENCE_END

LONGEST = 64  # characters of a term; the rest of a longer run is left out

_WIDE = rf"{HAN}\u3005\u3007\u3040-\u30ff"  # with kana and the signs of repetition and zero
_RUN = re.compile(rf"(?P<han>[{_WIDE}]+)|[^\W_{_WIDE}]+")  # `1994年` is two runs: a number and a Chinese word
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b")


def search_terms(text: str, chinese: bool = True) -> list[str]:
    """The terms of a text in order, for indexing and for queries. Letters are folded: no capitals, no accents, no
    full-width forms. English words become stems; a run of Chinese characters becomes its words as jieba cuts it, and
    its bigrams that are not such words, or with ``chinese`` off one term, which spares loading jieba."""
    folded = text.casefold()
    if not text.isascii():
        folded = unicodedata.normalize("NFKD", text).casefold()
        folded = "".join(each for each in folded if not unicodedata.combining(each))
        folded = unicodedata.normalize("NFC", folded)
    folded = _POSSESSIVE.sub("", folded)
    terms = list[str]()
    for run in _RUN.finditer(folded):
        if run["han"]:
            terms += _chinese(run[0]) if chinese else [run[0]]
        else:
            terms.append(_stemmer().stemWord(run[0][:LONGEST]))
    return terms


def sentence_terms(text: str, chinese: bool = True) -> Iterator[list[str]]:
    """The terms of each sentence of a text; ``chinese`` is that of ``search_terms``."""
    start = 0
    for end in (*(stop.end() for stop in SENTENCE_END.finditer(text)), len(text)):
        yield search_terms(text[start:end], chinese)
        start = end


def _chinese(run: str) -> Iterator[str]:
    """Words, then bigrams at places where no word stands."""
    places, start = set[tuple[int, int]](), 0
    for word in load_jieba().cut(run, HMM=False):
        places.add((start, start + len(word)))
        start += len(word)
        yield word
    for first in range(len(run) - 1):
        if (first, first + 2) not in places:
            yield run[first : first + 2]


@cache
def _stemmer() -> Any:
    return retrieval_package("Stemmer").Stemmer("english")
