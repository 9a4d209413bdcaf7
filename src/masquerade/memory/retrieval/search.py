"""What a search finds: filters, hybrid scores, and passages with their places."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from masquerade.documents.document import Citation, Document
from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.store import CollectionStore, Stored
from masquerade.memory.retrieval.words import sentence_terms
from masquerade.text.chinese import CHINESE

POOL = 100  # passages of each search whose scores are combined
PRIOR = 4.0  # how much the score of a passage counts for its answers; chosen on a part of SQuAD's training questions
DENSE = 0.4  # weight of vectors against words in a hybrid score
_DATE = re.compile(r"\d{4}(-\d\d){0,2}(T.*)?\Z")
SENTENCE, PAIR = 0.5, 0.2  # weights of terms in one sentence and of terms side by side, beside BM25's


@dataclass(frozen=True)
class Filters:
    """Which documents are searched. Empty fields filter nothing."""

    path: str = ""  # a file, a folder, or a glob over paths as they were given
    title: str = ""  # a part of the title, in any case
    language: str = ""  # "en" or "zh"
    after: str = ""  # the earliest date, such as "2024" or "2024-05-31"
    before: str = ""  # documents from this date on are left out
    metadata: Mapping[str, str] = field(default_factory=dict)  # fields of records, by name

    def __post_init__(self) -> None:
        for name in ("after", "before"):
            if (date := getattr(self, name)) and not _DATE.match(date):
                raise MasqueradeError(
                    f"The filter '{name}' is '{date}'; it has to be a date such as 2024 or 2024-05-31."
                )

    def allowed(self, store: CollectionStore) -> np.ndarray | None:
        """The numbers of the passages that are searched, (n,); None for all."""
        clauses, values = list[str](), list[str]()
        if self.path:
            path = self.path.rstrip("/")
            clauses.append("(f.name = ? OR f.name GLOB ? OR f.name GLOB ? OR f.path = ? OR f.path GLOB ?)")
            values += [path, path, f"{path}/*", path, f"{path}/*"]
        if self.title:
            clauses.append("instr(casefold(d.title), ?) > 0")
            values.append(self.title.casefold())
        for clause, value in (("d.language = ?", self.language), ("d.date >= ?", self.after)):
            if value:
                clauses.append(clause)
                values.append(value)
        if self.before:
            clauses.append("d.date < ? AND d.date != ''")
            values.append(self.before)
        for name, value in self.metadata.items():
            clauses.append(
                "CASE json_type(d.metadata, ?) WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' "
                "ELSE CAST(json_extract(d.metadata, ?) AS TEXT) END = ?"
            )
            values += ['$."' + name.replace('"', "") + '"'] * 2 + [str(value)]
        if not clauses:
            return None
        rows = store.database.execute(
            "SELECT p.id FROM passages p JOIN documents d ON p.document = d.id JOIN files f ON d.file = f.id WHERE "
            + " AND ".join(clauses),
            values,
        )
        return np.fromiter((row[0] for row in rows), dtype=np.int64)


@dataclass(frozen=True)
class Score:
    """How well a passage fits a query: the combined score, BM25's, and the dot product of the vectors; None where a
    search did not find it."""

    total: float
    words: float | None = None
    dense: float | None = None


@dataclass(frozen=True)
class Found:
    """A passage that was found."""

    score: Score
    stored: Stored

    @property
    def text(self) -> str:
        """The text of the passage, with divided words whole."""
        return self.stored.passage.joined.text

    @property
    def document(self) -> Document:
        """The passage as a document, which knows its places."""
        return self.stored.passage.document(self.stored.name, self.stored.title, self.stored.unit)

    def plain(self) -> dict[str, Any]:
        """The passage as JSON."""
        stored, place = self.stored, self.document.place(0)
        return {
            "file": stored.name, "title": stored.title, "heading": stored.passage.heading, "unit": place.unit,
            "number": place.number, "start": stored.passage.start, "end": stored.passage.end,
            "language": stored.language, "date": stored.date, "metadata": dict(stored.metadata), "text": self.text,
            "score": self.score.total, "words": self.score.words, "dense": self.score.dense,
        }  # fmt: skip


@dataclass(frozen=True)
class CitedAnswer:
    """An answer from a collection, with its place. Without an answer the text is empty."""

    text: str
    score: float  # how probable it is, among all spans of the passages that were read
    file: str = ""
    title: str = ""
    heading: str = ""
    place: Citation | None = None  # the page, line, paragraph or item
    start: int = -1  # its characters in the document's text
    end: int = -1
    before: str = ""  # the rest of its sentence
    after: str = ""
    alternatives: tuple[CitedAnswer, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is an answer."""
        return bool(self.text)

    def plain(self) -> dict[str, Any]:
        """The answer as JSON; what it does not have is null."""
        there = self.start >= 0
        return {
            "answer": self.text, "score": self.score, "file": self.file or None, "title": self.title or None,
            "heading": self.heading or None, "unit": self.place.unit if self.place else None,
            "number": self.place.number if self.place else None, "start": self.start if there else None,
            "end": self.end if there else None,
        }  # fmt: skip


def combine(
    words: Sequence[tuple[int, float]],
    dense: Sequence[tuple[int, float]],
    weight: float,
    near: Mapping[int, float] | None = None,
) -> list[tuple[int, Score]]:
    """Two rankings as one, the best passage first: a weighted sum of their scores, each scaled to 0…1 over its list.
    A passage that is in one list only has 0 in the other. ``weight`` is that of the vectors. ``near``, of passages of
    both lists, is added to the scores of the words; a passage that is not among those has the lowest of them, or 0 if
    the list has room for more."""
    by_words, by_vectors = dict(words), dict(dense)
    lexical: Sequence[tuple[int, float]] = words
    if near is not None:
        least = words[-1][1] if len(words) >= POOL else 0.0
        added = [(id, by_words.get(id, least) + near.get(id, 0.0)) for id in {**by_words, **by_vectors}]
        lexical = sorted(added, key=lambda each: -each[1])
    scaled = dict[int, float]()
    for ranking, share in ((lexical, 1 - weight), (dense, weight)):
        if not ranking or share == 0:
            continue
        high, low = ranking[0][1], ranking[-1][1]
        for id, score in ranking:
            scaled[id] = scaled.get(id, 0.0) + share * ((score - low) / (high - low) if high > low else 1.0)
    order = sorted(scaled, key=lambda id: (-scaled[id], id))
    return [(id, Score(scaled[id], by_words.get(id), by_vectors.get(id))) for id in order]


def nearness(terms: Sequence[str], rarity: Mapping[str, float], text: str) -> float:
    """How near to each other the terms of a query stand in a text: the rarity of those in the best sentence together,
    and of pairs that stand side by side as they do in the query."""
    wanted, pairs = set(terms), set(pairwise(terms))
    best, beside = 0.0, set[tuple[str, str]]()
    for own in sentence_terms(text, chinese=any(map(CHINESE.search, terms))):
        best = max(best, sum(rarity[term] for term in wanted.intersection(own)))
        beside |= pairs.intersection(pairwise(own))
    return SENTENCE * best + PAIR * sum((rarity[first] + rarity[second]) / 2 for first, second in beside)


def priors(passages: Sequence[Score]) -> list[float]:
    """How well each passage fits the question beside the best one, as what a reader adds to the log-odds of its
    answers."""
    best = max((score.total for score in passages), default=0.0)
    return [PRIOR * (score.total - best) for score in passages]
