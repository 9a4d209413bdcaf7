"""Questions in the formats people have them in: SQuAD, CMRC 2018, WebQA, SogouQA, flat records, hub data sets."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from masquerade.data.records import read_records
from masquerade.errors import MasqueradeError
from masquerade.files import write_text

KNOWN = "SQuAD's JSON, CMRC 2018's, WebQA's, SogouQA's, and records with question, context and answers"
NO_ANSWER = "no_answer"  # what WebQA writes where a passage has none
HALF_WIDTH = {0x3000: 0x20} | {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}  # full-width forms of ASCII

Answers = list[tuple[str, int | None]]  # texts, and where they are said to begin


@dataclass(frozen=True)
class Gold:
    """An accepted answer: its text, and where it begins in the passage (characters)."""

    text: str
    start: int


@dataclass(frozen=True)
class Asked:
    """A question, the passages it is asked of, and the accepted answers."""

    id: str
    question: str
    passages: tuple[str, ...]
    spans: tuple[tuple[Gold, ...], ...]  # for each passage, the accepted answers that stand in it; empty: it has none
    accepted: tuple[str, ...]  # the texts of all accepted answers, whether or not they stand in a passage
    title: str = ""  # of the article, where there is one: for splitting by article


def read_questions(source: str) -> list[Asked]:
    """The questions of a file or hub data set (name, or name:split), whichever of the known formats it has. A question
    without an id gets its number; one that comes twice is read once, and an empty one is left out."""
    try:
        questions = [asked for record in read_records(source) for asked in _questions(record)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        said = f"A question of {source} is not written as it has to be ({type(error).__name__}: {error})"
        raise MasqueradeError(f"{said}; the known formats are {KNOWN}.") from error
    found: dict[str, Asked] = {}
    for number, asked in enumerate(questions):
        named = asked if asked.id else replace(asked, id=str(number))
        if found.setdefault(named.id, named) != named:
            raise MasqueradeError(f"Two questions of {source} have the id '{named.id}'; give each its own.")
    if not found:
        raise MasqueradeError(f"There are no questions in {source}; the known formats are {KNOWN}.")
    return list(found.values())


def write_questions(records: Sequence[Asked], path: Path) -> int:
    """Write questions as flat records, a line for each of a question's passages; how many there are."""
    lines = []
    for record in records:
        for passage, spans in zip(record.passages, record.spans, strict=True):
            answers = {"text": [gold.text for gold in spans], "answer_start": [gold.start for gold in spans]}
            row = {"id": record.id, "title": record.title, "context": passage, "question": record.question}
            lines.append(json.dumps({**row, "answers": answers}, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))
    return len(lines)


def find_answer(passage: str, text: str, stated: int | None = None) -> Gold | None:
    """Where an answer stands in a passage: the occurrence nearest to where it is said to begin, or else the first one.
    If there is none, case and full-width forms do not count; the answer then has the passage's spelling."""
    place = _nearest(passage, text, stated)
    if place < 0:
        place = _nearest(_folded(passage), _folded(text), stated)
    return Gold(passage[place : place + len(text)], place) if text and place >= 0 else None


def split_articles(records: Sequence[Asked], share: float, seed: int = 0) -> tuple[list[Asked], list[Asked]]:
    """Questions for training and for development, about ``share`` of them: an article's are all on one side, so that
    no passage is known from training. The same seed gives the same sides, in whatever order the questions come."""
    if not 0 <= share <= 1:
        raise MasqueradeError(f"The share of questions for development is {share}; it has to be between 0 and 1.")
    articles = _articles(records)
    sizes, held, taken = Counter(articles), set[tuple[str, str]](), 0
    for article in sorted(sizes, key=lambda article: hashlib.sha256(repr((seed, article)).encode()).digest()):
        if taken + sizes[article] / 2 < share * len(records):  # nearer to the share with it than without it
            held.add(article)
            taken += sizes[article]
    sides: tuple[list[Asked], list[Asked]] = ([], [])
    for record, article in zip(records, articles, strict=True):
        sides[article in held].append(record)
    return sides


def _articles(records: Sequence[Asked]) -> list[tuple[str, str]]:
    """Which article each question belongs to: that of its title or, where that says nothing (it is empty, or that of
    over a tenth of all questions), that of its passages. Questions that share a passage share an article."""
    titles = Counter(record.title for record in records)
    telling = {title for title, count in titles.items() if title and count * 10 <= len(records)}
    first: dict[str, str] = {}  # each passage → one that is earlier in the alphabet and in the same article

    def earliest(passage: str) -> str:
        while first.setdefault(passage, passage) != passage:
            first[passage] = passage = first[first[passage]]
        return passage

    texts = [tuple(filter(str.strip, record.passages)) or (record.question,) for record in records]
    for record, passages in zip(records, texts, strict=True):
        for passage in () if record.title in telling else passages:
            one, other = sorted((earliest(passages[0]), earliest(passage)))
            first[other] = one
    return [
        ("title", record.title) if record.title in telling else ("passage", earliest(passages[0]))
        for record, passages in zip(records, texts, strict=True)
    ]


def _questions(record: Any, name: str = "", title: str = "") -> Iterator[Asked]:
    """The questions of a record, whatever its format; none if there are none in it."""
    if not isinstance(record, Mapping):
        return
    title = str(record.get("title") or title)
    name = next((str(record[key]) for key in ("id", "query_id") if record.get(key) is not None), name)
    question = str(record.get("question") or record.get("query_text") or "").strip()
    if question:
        yield _asked(record, name, question, title)
    elif "data" in record or "paragraphs" in record:
        for part in record["data"] if "data" in record else record["paragraphs"]:
            yield from _questions(part, title=title)
    elif "qas" in record:
        passage = record["context"] if "context" in record else record["context_text"]
        for part in record["qas"]:
            yield from _questions({"context": passage, **part}, title=title)
    else:  # WebQA: questions by their ids
        for key, part in record.items():
            yield from _questions(part, name=str(key))


def _asked(record: Mapping[str, Any], name: str, question: str, title: str) -> Asked:
    """A question with its passages: one with all answers, several with answers of their own, or none."""
    known = [] if record.get("is_impossible") else _answers(record.get("answers", record.get("answer")))
    pages: list[tuple[str, Answers]] = []
    if "evidences" in record:
        pages = [(page["evidence"], _answers(page["answer"])) for page in record["evidences"].values()]
    elif "passages" in record:
        pages = [(page["passage"], _answers(page.get("answer"))) for page in record["passages"]]
    elif "context" in record:
        pages = [(record["context"], known)]
    if not all(isinstance(passage, str) for passage, _ in pages):
        raise TypeError("a passage has to be text")
    return Asked(
        id=name,
        question=question,
        passages=tuple(passage for passage, _ in pages),
        spans=tuple(_spans(passage, answers) for passage, answers in pages),
        accepted=tuple(dict.fromkeys(text for answers in (known, *(each for _, each in pages)) for text, _ in answers)),
        title=title,
    )


def _answers(value: Any) -> Answers:
    """Answers however they are written: a text, a text with its start, a list of such, or a list of texts beside a
    list of starts."""
    if value is None or value == NO_ANSWER:
        return []
    if isinstance(value, Mapping) and not isinstance(value["text"], str):
        starts = [*(value.get("answer_start") or ()), *(None for _ in value["text"])]
        return [
            pair
            for text, start in zip(value["text"], starts, strict=False)
            for pair in _answers({"text": text, "answer_start": start})
        ]
    if isinstance(value, Mapping):
        text, start = value["text"], value.get("answer_start")
        shift = len(text) - len(text.lstrip())  # no answer begins with a space
        return [(text.strip(), None if start is None else int(start) + shift)] if text.strip() else []
    if isinstance(value, str):
        return _answers({"text": value})
    return [pair for each in value for pair in _answers(each)]


def _spans(passage: str, answers: Answers) -> tuple[Gold, ...]:
    """The answers that stand in a passage, each once."""
    found = (find_answer(passage, text, stated) for text, stated in answers)
    return tuple(dict.fromkeys(gold for gold in found if gold is not None))


def _nearest(passage: str, text: str, stated: int | None) -> int:
    """Where a text begins in a passage, nearest to the stated place if there is one; −1 if it is not there."""
    if stated is None:
        return passage.find(text)
    places = passage.rfind(text, 0, stated + len(text)), passage.find(text, max(stated, 0))
    return min((place for place in places if place >= 0), key=lambda place: abs(place - stated), default=-1)


def _folded(text: str) -> str:
    """A text in small letters and half-width forms, character by character, so that places stay what they are."""
    return "".join(low if len(low := each.lower()) == 1 else each for each in text.translate(HALF_WIDTH))
