"""Groups of tokens: words of a Chinese segmenter, entities, n-grams, sentences.

A grouping is a function from ids to lists of indices, for ``MaskedTokens.units``. Whole words of WordPiece are
``vocabulary.words``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.objectives.base import Objective
from masquerade.objectives.masked import MaskedTokens, Units
from masquerade.text.chinese import is_wide, load_jieba
from masquerade.text.sentences import STOPS
from masquerade.text.tokenizer import Tokenizer
from masquerade.text.vocabulary import Vocabulary

WIKI_LINK = re.compile(r"\[\[([^\[\]|#]+)(?:#[^\[\]|]*)?(?:\|([^\[\]]+))?\]\]")
BRACKETS = re.compile(r"\s*[(（][^()（）]*[)）]$")


def sentence_ends(tokenizer: Tokenizer, stops: Iterable[str] = STOPS) -> frozenset[int]:
    """The ids of the tokens that end a sentence."""
    wanted = set(stops)
    return frozenset(number for number, token in enumerate(tokenizer.tokens(range(len(tokenizer)))) if token in wanted)


def sentences(ids: Sequence[int], vocabulary: Vocabulary, ends: frozenset[int]) -> list[range]:
    """The sentences from the first to the last ordinary token, without gaps. A sentence ends after an end token, or
    after the last of several (?!)."""
    words = vocabulary.maskable(ids)
    if not words:
        return []
    first, last = words[0], words[-1]
    closing = [i for i in range(first, last) if ids[i] in ends and ids[i + 1] not in ends]
    starts = [first, *(index + 1 for index in closing), last + 1]
    return [range(start, stop) for start, stop in pairwise(starts)]


def spell(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, list[int]]:
    """The tokens as text, and for each character the index of its token, or -1 for a space between two.

    Special tokens become a line break, so that nothing is found across them.
    """
    hidden, text, owner = set(tokenizer.specials.values()), "", list[int]()
    for index, (number, token) in enumerate(zip(ids, tokenizer.tokens(ids), strict=True)):
        if tokenizer.word_pieces:
            joins, piece = token.startswith("##") and len(token) > 2, token.removeprefix("##") or token
            apart = not joins and not any(is_wide(side) for side in (text[-1:], piece[:1]) if side)
        else:
            apart, piece = token[:1] in ("Ġ", "▁"), tokenizer.decode([number]).strip()
        if number in hidden:
            apart, piece = False, "\n"
        text += " " * apart + piece
        owner += [-1] * apart + [-1 if number in hidden else index] * len(piece)
    return text, owner


def chinese_words(tokenizer: Tokenizer, cut: Callable[[str], Iterable[str]]) -> Units:
    """Chinese whole words (BERT-wwm, NEZHA): ``cut`` splits a text into words, and the characters of a word are masked
    together. English word pieces stay together as far as ``cut`` leaves English words whole."""

    def group(ids: Sequence[int]) -> list[list[int]]:
        text, owner = spell(tokenizer, ids)
        found: list[list[int]] = []
        seen, place = -1, 0
        for word in cut(text):
            start = max(text.find(word, place), place)
            place = start + len(word)
            held = sorted({index for index in owner[start:place] if index > seen})
            if held:
                found.append(held)
                seen = held[-1]
        return found

    return group


def jieba_words(tokenizer: Tokenizer) -> Units:
    """Chinese whole words, segmented by jieba, which has to be installed."""
    return chinese_words(tokenizer, load_jieba().cut)


def corpus_names(record: Mapping[str, Any]) -> list[str]:
    """The names that a record of a corpus gives: its title, without what is in brackets behind it; its ``links``, a
    list of texts or of records with a ``title`` or ``text``; and the links of wiki text, [[target|shown]]."""
    links = record.get("links")
    listed = links if isinstance(links, list) else []
    found = [each.get("title") or each.get("text") if isinstance(each, Mapping) else each for each in listed]
    found += [part for link in WIKI_LINK.findall(str(record.get("text", ""))) for part in link if part]
    names = [BRACKETS.sub("", str(name)).strip() for name in [record.get("title"), *found] if name]
    return list(dict.fromkeys(name for name in names if len(name) > 1))


def entity_units(tokenizer: Tokenizer, entities: Iterable[str], rest: Units | None = None) -> Units:
    """Entities (ERNIE): a known name is masked as a whole. Of several names that begin at a token the longest is taken,
    and none ends within a word. Tokens in no name are grouped by ``rest``, one by one if not given."""
    vocabulary = Vocabulary.of(tokenizer)
    spelled = {tuple(tokenizer.encode(space + name)) for name in entities for space in ("", " ")}
    known = {form for form in spelled if form and not vocabulary.specials.intersection(form)}
    lengths = sorted({len(form) for form in known}, reverse=True)

    def ends_at(ids: Sequence[int], start: int) -> int:
        stops = [start + length for length in lengths if tuple(ids[start : start + length]) in known]
        return next((stop for stop in stops if not vocabulary.continues.intersection(ids[stop : stop + 1])), start)

    def group(ids: Sequence[int]) -> list[list[int]]:
        found: list[list[int]] = []
        index = 0
        while index < len(ids):
            stop = ends_at(ids, index)
            found += [list(range(index, stop))] if stop > index else []
            index = max(stop, index + 1)
        taken = {index for name in found for index in name}
        others = [[index] for index in vocabulary.maskable(ids)] if rest is None else rest(ids)
        left = [[index for index in unit if index not in taken] for unit in others]
        return sorted(found + [unit for unit in left if unit])

    return group


def ngrams(words: Sequence[Sequence[int]], weights: Sequence[float], rng: Rng) -> list[list[int]]:
    """Neighbouring words joined into n-grams whose lengths 1, 2, 3 … are drawn with these weights. An n-gram before a
    special token may be shorter."""
    shares = [weight / sum(weights) for weight in weights]
    found: list[list[int]] = []
    room = 0  # the number of words that the n-gram still takes
    for word, length in zip(words, 1 + rng.choice(len(shares), size=len(words), p=shares), strict=True):
        if room and found[-1][-1] + 1 == word[0]:
            found[-1] += word
        else:
            found.append(list(word))
            room = int(length)
        room -= 1
    return found


@dataclass(frozen=True)
class MaskedNgrams(Objective):
    """ALBERT's n-gram masking: one to three whole words are masked together, n words with a weight of 1/n."""

    vocabulary: Vocabulary
    rate: float = 0.15
    weights: Sequence[float] = (1, 1 / 2, 1 / 3)

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        units = ngrams(self.vocabulary.words(ids), self.weights, rng)
        return MaskedTokens(self.vocabulary, self.rate, lambda _: units)(ids, rng)
