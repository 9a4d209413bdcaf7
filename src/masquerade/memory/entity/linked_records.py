"""Texts whose mentions are linked to entities, and texts with a blank that an entity fills."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from masquerade.data.records import read_records
from masquerade.errors import MasqueradeError

MASK = "[MASK]"


@dataclass(frozen=True)
class LinkedSpan:
    """A mention in characters, and the key of its entity."""

    start: int
    end: int
    key: str


@dataclass(frozen=True)
class LinkedRecord:
    """A text with linked mentions. If it has a [MASK], ``answer`` is the key of the entity that fills it, ``subject``
    the mention that the fact is about, and ``relation`` the key of its relation, each as far as it is known."""

    text: str
    mentions: tuple[LinkedSpan, ...] = ()
    answer: str = ""
    subject: int | None = None
    relation: str = ""


def read_linked(source: str) -> list[LinkedRecord]:
    """The records of a file or hub data set: ``text`` with ``mentions`` (start, end, id), T-REx as LAMA has it, or
    FewRel's tokens with subject and object."""
    found: list[LinkedRecord] = []
    for number, record in enumerate(read_records(source), start=1):
        try:
            found.extend(_records(record))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise MasqueradeError(
                f"Record {number} of {source} is no linked text ({type(error).__name__}: {error}); it needs 'text' and "
                "'mentions' with start, end and id."
            ) from error
    return found


def _records(record: Mapping[str, Any]) -> Iterator[LinkedRecord]:
    if "evidences" in record:
        yield from _trex(record)
    elif "tokens" in record:
        yield _fewrel(record)
    else:
        spans = [LinkedSpan(int(each["start"]), int(each["end"]), str(each["id"])) for each in record["mentions"]]
        subject = record.get("subject")
        yield LinkedRecord(
            str(record["text"]),
            tuple(spans),
            str(record.get("answer", "")),
            None if subject is None else int(subject),
            str(record.get("relation", "")),
        )


def _trex(record: Mapping[str, Any]) -> Iterator[LinkedRecord]:
    """A fact's sentences, once each, in which the object is a [MASK]. A sentence that shows the object elsewhere, or
    has no subject, is left out."""
    seen = set()
    for evidence in record["evidences"]:
        text, subject, thing = evidence["masked_sentence"], evidence["sub_surface"], evidence["obj_surface"]
        shown = {thing.lower(), str(record["obj_label"]).lower()}
        start = text.find(subject)
        if text in seen or start < 0 or text.count(MASK) != 1 or any(_has(text, each) for each in shown):
            continue
        seen.add(text)
        mention = LinkedSpan(start, start + len(subject), record["sub_uri"])
        yield LinkedRecord(text, (mention,), record["obj_uri"], 0, record["predicate"])


def _has(text: str, name: str) -> bool:
    """Whether a text has a name as whole words."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text.lower()) is not None


def _fewrel(record: Mapping[str, Any]) -> LinkedRecord:
    """A sentence of tokens with its subject and object linked."""
    tokens, starts, place = record["tokens"], [], 0
    for token in tokens:
        starts.append(place)
        place += len(token) + 1
    spans = [
        LinkedSpan(starts[first], starts[last] + len(tokens[last]), str(record[side]["id"]))
        for side in ("subject", "object")
        for first, last in record[side]["spans"][:1]
    ]
    return LinkedRecord(" ".join(tokens), tuple(spans), relation=str(record["relation"]))
