"""Titles in texts: which titles a text names, and which title a span of text means."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from masquerade.text.chinese import HAN

LEAST = 0.75  # the least similarity of a span and a title that it may mean
NEAR = 0.8  # … of a mention that is spelled otherwise than its title
LONGEST = 16  # words, or Chinese characters, of a name

_WORD = re.compile(rf"[{HAN}]|[^\W_{HAN}]+")
_APPENDED = re.compile(r"\s*[(（][^()（）]*[)）]\s*$")  # as in "Ed Wood (film)"


def folded(text: str) -> str:
    """Small letters without accents, one character for each of the text's."""
    return "".join(_folded(character) for character in text)


@lru_cache(maxsize=4096)
def _folded(character: str) -> str:
    small = unicodedata.normalize("NFKD", character).lower()
    kept = "".join(each for each in small if not unicodedata.combining(each))
    return kept if len(kept) == 1 else character.lower()[:1] or character


def words_of(text: str) -> list[tuple[str, int, int]]:
    """The words of a text, Chinese characters one by one, each with its characters (start, end)."""
    return [(found[0], found.start(), found.end()) for found in _WORD.finditer(folded(text))]


def base_name(title: str) -> str:
    """A title without what stands in brackets at its end."""
    return _APPENDED.sub("", title) or title


@lru_cache(maxsize=65536)
def plain_name(title: str) -> str:
    """A title or name in a form that can be compared: words without case, accents and punctuation."""
    return " ".join(word for word, _, _ in words_of(base_name(title)))


@lru_cache(maxsize=65536)
def _pairs(name: str) -> frozenset[tuple[str, int]]:
    """The pairs of neighbouring characters of a name, its ends included, numbered where they repeat."""
    padded, seen, found = f" {name} ", Counter[str](), list[tuple[str, int]]()
    for at in range(len(padded) - 1):
        pair = padded[at : at + 2]
        seen[pair] += 1
        found.append((pair, seen[pair]))
    return frozenset(found)


def similarity(one: str, other: str) -> float:
    """How alike two plain names are, 0 to 1: twice the pairs of neighbouring characters that they share, by all."""
    a, b = _pairs(one), _pairs(other)
    return 2 * len(a & b) / max(len(a) + len(b), 1) if one and other else 0.0


def find_name(name: str, text: str) -> tuple[int, int] | None:
    """The characters (start, end) of a name in a text: its words in order, or the most similar words from NEAR on."""
    wanted, words = plain_name(name).split(), words_of(text)
    if not {*wanted} & {word for word, _, _ in words}:  # a name that is spelled otherwise shares at least one word
        return None
    best, place = NEAR, None
    for count in (len(wanted), len(wanted) + 1, len(wanted) - 1):
        for first in range(len(words) - count + 1 if count else 0):
            some = words[first : first + count]
            if count == len(wanted) and [word for word, _, _ in some] == wanted:
                return some[0][1], some[-1][2]
            alike = similarity(" ".join(wanted), " ".join(word for word, _, _ in some))
            if alike > best:
                best, place = alike, (some[0][1], some[-1][2])
    return place


class TitleIndex:
    """Titles by their plain names, and by pairs of characters for names that are spelled otherwise."""

    def __init__(self, titles: Iterable[str]) -> None:
        self.titles = list(dict.fromkeys(titles))
        self.names, self.pairs = defaultdict[str, list[str]](list), defaultdict[tuple[str, int], list[str]](list)
        self.short = dict[str, str]()  # what stands before a comma, as in "Burbank, California"
        for title in self.titles:
            self.names[plain_name(title)].append(title)
            self.short.setdefault(plain_name(title.split(",")[0]), title)
        for name in self.names:
            for pair in _pairs(name):
                self.pairs[pair].append(name)

    def link(self, name: str) -> str | None:
        """The title that a name means: the same words, those before a comma, or the most similar title from LEAST on;
        None if there is none."""
        exact = [title for title in self.titles_of(name) if title == name]
        plain = plain_name(name)
        if exact or plain in self.names:
            return (exact or self.names[plain])[0]
        if plain in self.short:
            return self.short[plain]
        shared = Counter[str]()
        own = _pairs(plain) if plain else frozenset[tuple[str, int]]()
        for pair in own:
            shared.update(self.pairs.get(pair, ()))
        scored = ((2 * count / (len(own) + len(_pairs(other))), other) for other, count in shared.items())
        score, best = max(scored, default=(0.0, ""))
        return self.names[best][0] if score >= LEAST else None

    def titles_of(self, name: str) -> Sequence[str]:
        """All titles of the same plain name."""
        return self.names.get(plain_name(name), ())

    def named(self, text: str) -> list[str]:
        """The titles that a text names, in their order, longer names before their parts. Of several titles of one name,
        the one whose bracket is in the text, or the first."""
        found, taken = list[tuple[int, str]](), set[int]()
        for name, start, end in self._names(text):
            if not taken & {*range(start, end)} and _is_name(text, start, end):
                taken |= {*range(start, end)}
                some = self.names[name]
                found.append((start, next((title for title in some if folded(title) in folded(text)), some[0])))
        return [title for _, title in sorted(found)]

    def _names(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Known names in a text with their characters, the longest first."""
        words = words_of(text)
        for count in range(min(LONGEST, len(words)), 0, -1):
            for first in range(len(words) - count + 1):
                name = " ".join(word for word, _, _ in words[first : first + count])
                if name in self.names:
                    yield name, words[first][1], words[first + count - 1][2]


def _is_name(text: str, start: int, end: int) -> bool:
    """Whether a mention may be a name: a single small English word is none."""
    piece = text[start:end]
    return " " in piece or not piece[:1].islower() or not piece.isascii()
