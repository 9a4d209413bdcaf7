"""Synthetic questions from plain text, to pretrain a reader or to adapt it to one's own documents.

There are two kinds. Recurring words: words that occur twice in a passage are removed from one of its sentences, which
becomes the question and is removed from the passage; the answer is the other occurrence. Clozes: a sentence with some
words left out asks for its own date, number or name, and stays in the passage.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from masquerade.data.rng import Rng, rng_for
from masquerade.objectives.salient import DATES, OPENERS, name_places
from masquerade.reading.records import Gold, QuestionRecord
from masquerade.text.chinese import CHINESE, HAN, load_jieba
from masquerade.text.sentences import SENTENCE

PASSAGE = 900  # the length of passages in letters; a Chinese character counts as two
LONGEST = 8  # the greatest number of words of a recurring answer
AROUND = 50  # letters of a question on either side of the answer, cut at the end of a clause
DROPPED = 0.15  # the share of a cloze's words that are left out

_CLAUSE = re.compile(r"[，；：、]|[,;:] ")
_WORD = re.compile(rf"[{HAN}]+|[^\W_{HAN}]+(?:['’.-][^\W_{HAN}]+)*")
_QUOTED = re.compile(r"《([^《》\n]{1,20})》|[“「]([^“”「」\n]{2,16})[”」]")
_KINDS = {"nr": "person", "ns": "place", "nt": "thing"}  # jieba's tags of persons, places, organisations
_ASK = {  # question words for each kind of answer, in English and in Chinese
    "date": (("when", "what year", "what date"), ("什么时候", "哪一年", "何时")),
    "number": (("how many", "how much", "what number"), ("多少", "几")),
    "person": (("who",), ("谁",)),
    "place": (("where", "what place"), ("哪里", "什么地方", "哪个地方")),
    "thing": (("what", "which", "who"), ("什么", "哪个", "哪一个")),
}

CharSpan = tuple[int, int]  # (start, end) in characters
Made = tuple[str, str, tuple[Gold, ...]]  # a question, its passage, the answers there


def synthetic_questions(
    documents: Iterable[str], seed: int = 0, each: int = 4, most: int = 8, length: int = PASSAGE
) -> Iterator[QuestionRecord]:
    """Questions from documents: up to ``each`` per passage, half of each kind, for up to ``most`` random passages of a
    document, of about ``length`` letters."""
    number = 0
    for document, text in enumerate(documents):
        rng, found = rng_for(seed, document), passages(text, length)
        for index in sorted(rng.permutation(len(found))[:most].tolist()):
            passage = found[index]
            for question, left, golds in recurring(passage, rng, (each + 1) // 2) + clozes(passage, rng, each // 2):
                number += 1
                texts = tuple(dict.fromkeys(gold.text for gold in golds))
                yield QuestionRecord(str(number), question, (left,), (golds,), texts, title=str(document))


def passages(text: str, length: int = PASSAGE) -> list[str]:
    """A document's sentences, joined to passages of up to ``length`` letters. Passages of less than a third of that are
    left out."""
    found, begin, end = list[str](), 0, 0
    for match in SENTENCE.finditer(text):
        if _letters(text[begin : match.end()]) > length:
            found.append(text[begin:end].strip())
            begin = match.start()
        end = match.end()
    return [each for each in [*found, text[begin:end].strip()] if _letters(each) > length / 3]


def recurring(passage: str, rng: Rng, most: int) -> list[Made]:
    """Questions for words that occur twice: a sentence without the words, and the passage without the sentence."""
    places, found = _repeated(passage), list[Made]()
    for index in rng.permutation(len(places))[:most].tolist():
        first, last = places[index]
        begin, end = _sentence(passage, places[index])
        answer, rest = passage[first:last], f"{passage[:begin].rstrip()} {passage[end:].lstrip()}".strip()
        golds = tuple(Gold(answer, match.start()) for match in re.finditer(re.escape(answer), rest))
        if golds and end - begin >= 2 * (last - first):
            found.append((_question(passage, (begin, end), places[index], "thing", [], rng), rest, golds))
    return found


def clozes(passage: str, rng: Rng, most: int) -> list[Made]:
    """Questions for a date, a number or a name of the passage: its sentence with some words left out."""
    wanted = [("date" if _dated(match.group()) else "number", match.span()) for match in DATES.finditer(passage)]
    wanted, found = wanted + names(passage), list[Made]()
    for index in rng.permutation(len(wanted))[:most].tolist():
        kind, (first, last) = wanted[index]
        begin, end = _sentence(passage, (first, last))
        others = [(begin + a, begin + b) for a, b in words(passage[begin:end])]
        others = [(a, b) for a, b in others if b <= first or a >= last]
        if len(others) >= 4:
            question = _question(passage, (begin, end), (first, last), kind, others, rng)
            found.append((question, passage, (Gold(passage[first:last], first),)))
    return found


def words(text: str) -> list[CharSpan]:
    """The words of a text; Chinese is segmented by jieba."""
    found = list[CharSpan]()
    for match in _WORD.finditer(text):
        place = match.start()
        for word in load_jieba("jieba").lcut(match.group()) if CHINESE.match(match.group()) else [match.group()]:
            found.append((place, place + len(word)))
            place += len(word)
    return found


def names(text: str) -> list[tuple[str, CharSpan]]:
    """The names in a text, with their kinds; in Chinese, those that jieba tags and all titles and quotations."""
    found = [("thing", place) for place in name_places(text)]
    if CHINESE.search(text):
        place = 0
        for pair in load_jieba("jieba.posseg").lcut(text, HMM=False):  # known words alone: much faster
            kind = _KINDS.get(pair.flag[:2])
            if kind and len(pair.word) > 1:
                found.append((kind, (place, place + len(pair.word))))
            place += len(pair.word)
        found += [("thing", match.span(match.lastindex or 0)) for match in _QUOTED.finditer(text)]
    return found


def _question(passage: str, sentence: CharSpan, answer: CharSpan, kind: str, words: list[CharSpan], rng: Rng) -> str:
    """A sentence as a question for one of its spans: a question word replaces the span or comes first, and some of the
    other ``words`` are left out."""
    (begin, end), (first, last) = _near(passage, sentence, answer), answer
    chinese = bool(CHINESE.search(passage[begin:end]))
    asks = _ASK[kind][chinese]
    ask, gap = asks[int(rng.integers(len(asks)))], "" if chinese else " "
    dropped = [place for place in words if rng.random() < DROPPED]
    before, after = (
        _without(passage, place, [one for one in dropped if place[0] <= one[0] and one[1] <= place[1]])
        for place in ((begin, first), (last, end))
    )
    after = after.rstrip(" 。！？.!?，；：、,;:")
    parts = [ask, before, after] if rng.random() < 0.3 and not chinese else [before, ask, after]
    text = re.sub(r"\s+", " ", gap.join(part.strip() for part in parts if part.strip()))
    return text + ("？" if chinese else "?")


def _without(text: str, place: CharSpan, dropped: list[CharSpan]) -> str:
    """A span of a text without some of its words."""
    kept, at = "", place[0]
    for begin, end in dropped:
        kept, at = kept + text[at:begin], end
    return kept + text[at : place[1]]


def _sentence(passage: str, place: CharSpan) -> CharSpan:
    """The sentence that contains a span; the span itself if none does."""
    around = (match.span() for match in SENTENCE.finditer(passage))
    return next(((begin, end) for begin, end in around if begin <= place[0] and place[1] <= end), place)


def _near(passage: str, sentence: CharSpan, place: CharSpan) -> CharSpan:
    """A sentence, or its clauses around a span if it is too long for a question."""
    cuts = [sentence[0] + match.end() for match in _CLAUSE.finditer(passage[slice(*sentence)])]
    before = [cut for cut in (sentence[0], *cuts) if cut <= place[0]]
    after = [cut for cut in (*cuts, sentence[1]) if cut >= place[1]]
    begin = next((cut for cut in before if _letters(passage[cut : place[0]]) <= AROUND), before[-1])
    end = next((cut for cut in reversed(after) if _letters(passage[place[1] : cut]) <= AROUND), after[0])
    return begin, end


def _repeated(passage: str) -> list[CharSpan]:
    """All occurrences of sequences of up to LONGEST words that occur more than once and are no part of a longer one."""
    cut, taken, found = words(passage), set[int](), list[CharSpan]()
    informative = [_is_informative(passage[begin:end]) for begin, end in cut]
    for size in range(min(LONGEST, len(cut)), 0, -1):
        places = defaultdict[str, list[int]](list)
        for at in range(len(cut) - size + 1):
            if informative[at] and informative[at + size - 1] and taken.isdisjoint(range(at, at + size)):
                places[passage[cut[at][0] : cut[at + size - 1][1]]].append(at)
        for text, starts in places.items():
            if len(starts) > 1 and not re.search(r"[\n。！？；：!?;:()（）「」“”《》]", text):
                taken.update(index for at in starts for index in range(at, at + size))
                found += [(cut[at][0], cut[at + size - 1][1]) for at in starts]
    return found


def _is_informative(word: str) -> bool:
    """Whether a word is informative: a name, a number, a long word, two Chinese characters."""
    if CHINESE.match(word):
        return len(word) > 1
    return word not in OPENERS and (word[0].isupper() or word[0].isdigit() or len(word) > 5)


def _dated(text: str) -> bool:
    return bool(re.fullmatch(r"1\d{3}|20\d\d", text) or re.search(r"[年月日号]|[A-Za-z]{3}|\d[-/]\d", text))


def _letters(text: str) -> int:
    return len(text) + len(CHINESE.findall(text))
