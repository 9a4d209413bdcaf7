"""Spaces and capitals for texts of word pieces, which have lost them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from masquerade.text.sentences import SENTENCE_END

CASINGS = {  # how the capitals of an uncased model's texts are restored
    "none": "left in lower case",
    "source": "words are spelled as in the source, and the first one begins with a capital",
    "title": "words are spelled as in the source, and all others but articles and the like begin with a capital",
}
SMALL = frozenset(  # words without a capital in a title
    ("a", "an", "and", "as", "at", "but", "by", "for", "from", "in", "into", "is", "nor", "of", "on", "onto", "or",
     "over", "per", "so", "the", "to", "up", "via", "vs", "with", "without")
)  # fmt: skip
_WORD = re.compile(r"[^\W\d_][\w]*(?:['’][^\W\d_]+)?")
_SPACING = (  # (pattern, replacement): the spaces that word pieces have and text has not
    (re.compile(r"(?<=\w) - (?=\w)"), "-"),
    (re.compile(r"(?<=\w) / (?=\w)"), "/"),
    (re.compile(r"(?<=[(\[{]) "), ""),
    (re.compile(r"(?<=\d)([.,]) (?=\d)"), r"\1"),
    (re.compile(r"(?<=\w)(['’]) ?(?=(?:s|t|re|ve|ll|d|m)\b)"), r"\1"),
    (re.compile(r'(?<!\S)" ([^"]*?) ?"(?!\w)'), r'"\1"'),
    (re.compile(r"(?<=\w) \+ \+"), "++"),
    (re.compile(r"(?<![\w.])((?:[a-z]\. ){1,}[a-z]\.)"), lambda match: match.group().replace(" ", "")),
)


def tidy(text: str) -> str:
    """A text of word pieces with the spaces that English has: pre - training → pre-training."""
    for pattern, replacement in _SPACING:
        text = pattern.sub(replacement, text)
    return text


def with_capitals(text: str, source: str, casing: str) -> str:
    """A text in lower case with capitals, by one of CASINGS."""
    if casing == "none":
        return text
    spelled = _spellings(source)
    opening = True  # the next word begins the text, or follows a colon or a full stop
    pieces, end = list[str](), 0
    for match in _WORD.finditer(text):
        between, word = text[end : match.start()], match.group()
        opening = opening or bool(re.search(r"[:.!?]\s", between))
        plain = casing == "source" or (word in SMALL and "-" not in text[match.start() - 1 : match.start()])
        begun = word if plain and not opening else word[:1].upper() + word[1:]
        pieces += [between, spelled.get(word, begun)]
        opening, end = False, match.end()
    return "".join([*pieces, text[end:]])


def casing_of(targets: Sequence[str]) -> str:
    """The casing that brings the texts of an uncased model closest to these targets."""
    words = [word for target in targets for word in _WORD.findall(target)[1:] if word.lower() not in SMALL]
    capital = sum(word[0].isupper() for word in words)
    if not any(target != target.lower() for target in targets):
        return "none"
    return "title" if 2 * capital > len(words) > 0 else "source"


def _spellings(source: str) -> dict[str, str]:
    """Lower-case word → its usual spelling in a source, for words that have capitals there. The first word of a
    sentence does not count, unless it has a capital inside."""
    starts = [0, *(end.end() for end in SENTENCE_END.finditer(source))]
    counts: dict[str, Counter[str]] = {}
    for match in _WORD.finditer(source):
        word = match.group()
        first = not source[starts[bisect_right(starts, match.start()) - 1] : match.start()].strip()
        if not first or word[1:] != word[1:].lower():
            counts.setdefault(word.lower(), Counter())[word] += 1
    usual = {word: max(each.items(), key=lambda item: item[1])[0] for word, each in counts.items()}
    return {word: spelled for word, spelled in usual.items() if spelled != word}
