"""Questions with passages and answers, from files of SQuAD, CMRC 2018, WebQA and SogouQA, flat records and the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from masquerade.data.records import read_records
from masquerade.errors import MasqueradeError
from masquerade.files import write_text

KNOWN = "SQuAD's JSON, CMRC 2018's, WebQA's, SogouQA's, and records with question, context and answers"
NO_ANSWER = "no_answer"  # WebQA's mark of a passage without an answer
HALF_WIDTH = {0x3000: 0x20} | {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}  # full-width forms of ASCII

Answers = list[tuple[str, int | None]]  # texts, and their stated starts


@dataclass(frozen=True)
class Gold:
    """An accepted answer: its text, and its first character in the passage."""

    text: str
    start: int


@dataclass(frozen=True)
class QuestionRecord:
    """A question, its passages, and its accepted answers."""

    id: str
    question: str
    passages: tuple[str, ...]
    spans: tuple[tuple[Gold, ...], ...]  # the accepted answers in each passage; empty: no answer
    accepted: tuple[str, ...]  # the texts of all accepted answers, in a passage or not
    title: str = ""  # of the article, for splits by article


def read_questions(source: str) -> list[QuestionRecord]:
    """The questions of a file or hub data set (name, or name:split) in any of the known formats. A question without an
    id gets its number; duplicates and empty questions are left out."""
    try:
        questions = [asked for record in read_records(source) for asked in _questions(record)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        said = f"A question of {source} has an unknown format ({type(error).__name__}: {error})"
        raise MasqueradeError(f"{said}; the known formats are {KNOWN}.") from error
    found: dict[str, QuestionRecord] = {}
    for number, asked in enumerate(questions):
        named = asked if asked.id else replace(asked, id=str(number))
        if found.setdefault(named.id, named) != named:
            raise MasqueradeError(f"Two questions of {source} have the id '{named.id}'; give each its own.")
    if not found:
        raise MasqueradeError(f"There are no questions in {source}; the known formats are {KNOWN}.")
    return list(found.values())


def write_questions(records: Sequence[QuestionRecord], path: Path) -> int:
    """Write questions as flat records, a line for each passage of a question; returns the number of lines."""
    lines = []
    for record in records:
        for passage, spans in zip(record.passages, record.spans, strict=True):
            answers = {"text": [gold.text for gold in spans], "answer_start": [gold.start for gold in spans]}
            row = {"id": record.id, "title": record.title, "context": passage, "question": record.question}
            lines.append(json.dumps({**row, "answers": answers}, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))
    return len(lines)


def find_answer(passage: str, text: str, stated: int | None = None) -> Gold | None:
    """The occurrence of an answer in a passage that is nearest to its stated start, or the first one; None if there is
    none. If it does not occur exactly, case and full-width forms are ignored; the text is the passage's own."""
    place = _nearest(passage, text, stated)
    if place < 0:
        place = _nearest(_folded(passage), _folded(text), stated)
    return Gold(passage[place : place + len(text)], place) if text and place >= 0 else None


def _questions(record: Any, name: str = "", title: str = "") -> Iterator[QuestionRecord]:
    """The questions of a record of any known format."""
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


def _asked(record: Mapping[str, Any], name: str, question: str, title: str) -> QuestionRecord:
    """A question with its passages: one with all answers, or several with answers of their own, or none."""
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
    return QuestionRecord(
        id=name,
        question=question,
        passages=tuple(passage for passage, _ in pages),
        spans=tuple(_spans(passage, answers) for passage, answers in pages),
        accepted=tuple(dict.fromkeys(text for answers in (known, *(each for _, each in pages)) for text, _ in answers)),
        title=title,
    )


def _answers(value: Any) -> Answers:
    """Answers from any notation: a text, a text with its start, a list of these, or lists of texts and of starts."""
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
    """The answers that occur in a passage, each once."""
    found = (find_answer(passage, text, stated) for text, stated in answers)
    return tuple(dict.fromkeys(gold for gold in found if gold is not None))


def _nearest(passage: str, text: str, stated: int | None) -> int:
    """The start of a text in a passage, nearest to the stated one if there is one; −1 if it does not occur."""
    if stated is None:
        return passage.find(text)
    places = passage.rfind(text, 0, stated + len(text)), passage.find(text, max(stated, 0))
    return min((place for place in places if place >= 0), key=lambda place: abs(place - stated), default=-1)


def _folded(text: str) -> str:
    """A text in lower case and half-width forms, of the same length."""
    return "".join(low if len(low := each.lower()) == 1 else each for each in text.translate(HALF_WIDTH))
