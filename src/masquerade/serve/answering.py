"""Questions that are answered together: from passages, and from collections."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from masquerade.documents.document import language
from masquerade.memory.retrieval.knowledge import KnowledgeBase, Trace
from masquerade.memory.retrieval.search import CitedAnswer, Filters, Found
from masquerade.reading.answers import Answer
from masquerade.reading.reader import WINDOWS, Reader
from masquerade.reading.traced import ReadPart, parts_read
from masquerade.serve.batch_threads import BatchThreads, in_similar_lengths
from masquerade.serve.metrics import Metrics


@dataclass(frozen=True)
class Asked:
    """A question and its passages."""

    question: str
    passages: tuple[str, ...]
    show_parts: bool = False


@dataclass(frozen=True)
class Answered:
    """An answer, the number of windows of its passages, and how many of them had been read before."""

    answer: Answer
    windows: int
    remembered: int
    parts: list[ReadPart] | None = None


@dataclass(frozen=True)
class ReaderGroup:
    """Questions for one reader with the same options."""

    name: str
    decoder: str
    vote: str
    n_best: int
    threshold: float | None
    reader: Reader = field(compare=False)
    metrics: Metrics = field(compare=False)
    threads: BatchThreads = field(compare=False)

    def run(self, payloads: Sequence[Asked]) -> list[Answered]:
        """The answers, computed in several threads if there are enough questions; those on one text in the same."""
        return self.threads.run(self._part, payloads, _characters, _passages)

    def _part(self, payloads: Sequence[Asked]) -> list[Answered]:
        return in_similar_lengths(self._together, payloads, _characters)

    def _together(self, payloads: Sequence[Asked]) -> list[Answered]:
        """Passages that are not remembered are read once, and then all questions are answered together."""
        reader = self.reader
        counts = remember_new(reader, [asked.passages for asked in payloads], self.metrics, self.decoder == "parallel")
        pairs = [(asked.question, asked.passages) for asked in payloads]
        answers = reader.ask_many(pairs, self.n_best, self.vote, self.decoder, threshold=self.threshold)
        return [
            Answered(answer, *count, parts_read(reader, asked.question, asked.passages) if asked.show_parts else None)
            for answer, count, asked in zip(answers, counts, payloads, strict=True)
        ]


def _characters(asked: Asked) -> int:
    return sum(map(len, asked.passages))


def _passages(asked: Asked) -> tuple[str, ...]:
    return asked.passages


def remember_new(
    reader: Reader, texts: Sequence[tuple[str, ...]], metrics: Metrics, keep: bool = True
) -> list[tuple[int, int]]:
    """Read the passages that are not remembered, and keep them. Returns for each text the number of its windows, and
    of those that had been read before."""
    counts, new = list[tuple[int, int]](), dict[tuple[str, ...], None]()
    for passages in texts:
        windows = reader.cut(passages).windows
        held = sum(window.ids in reader.memory for window in windows)
        counts.append((len(windows), held))
        metrics.windows.labels("hit").inc(held)
        metrics.windows.labels("miss").inc(len(windows) - held)
        if keep and held < len(windows) <= 2 * WINDOWS:  # of longer texts, each question reads its own windows
            new[passages] = None
    if new:
        reader.remember([passage for passages in new for passage in passages])
    return counts


@dataclass(frozen=True)
class CitedReply:
    """An answer from a collection, and the passages that were read."""

    answer: CitedAnswer
    found: list[Found]


@dataclass(frozen=True)
class CollectionGroup:
    """Questions for one collection with the same options."""

    name: str
    k: int
    n_best: int
    vote: str
    base: KnowledgeBase = field(compare=False)
    metrics: Metrics = field(compare=False)

    def run(self, payloads: Sequence[str]) -> list[CitedReply]:
        """The answer to each question."""
        replies = []
        for question in payloads:
            trace, reader = Trace(), self.base.readers.get(language(question))
            if reader is not None:
                texts = [(each.text,) for each in self.base.search(question, self.k)]
                remember_new(reader, texts, self.metrics)
            answer = self.base.ask(question, k=self.k, n_best=self.n_best, vote=self.vote, trace=trace)
            replies.append(CitedReply(answer, trace.found))
        return replies


@dataclass(frozen=True)
class SearchGroup:
    """Searches in one collection."""

    name: str
    base: KnowledgeBase = field(compare=False)

    def run(self, payloads: Sequence[tuple[str, int, Filters]]) -> list[list[Found]]:
        """The best passages of each search."""
        return [self.base.search(query, k, filters) for query, k, filters in payloads]


def plain_found(found: Found, folder: str) -> dict[str, Any]:
    """A passage of a collection, as the service shows it: with its file relative to the collection's folder."""
    place = found.document.place(0)
    return {
        "file": shown_name(found.stored.name, folder), "title": found.stored.title,
        "heading": found.stored.passage.heading, "unit": place.unit, "number": place.number,
        "language": found.stored.language, "text": found.stored.passage.text, "score": found.score.total,
    }  # fmt: skip


def shown_name(name: str, folder: str) -> str:
    """A file's name without the folder that all files of its collection are in."""
    return os.path.relpath(name, folder) if folder and name.startswith(folder) else os.path.basename(name)


def common_folder(base: KnowledgeBase) -> str:
    """The folder that all files of a collection are in; empty if there is none."""
    names = [row[0] for row in base.store.database.execute("SELECT name FROM files LIMIT 10000")]
    try:
        return os.path.commonpath([os.path.dirname(name) for name in names]) if names else ""
    except ValueError:  # absolute and relative names
        return ""
