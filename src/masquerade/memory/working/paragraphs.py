"""Where the paragraphs of a question of several steps come from: a dict of titles and texts, or a collection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from masquerade.memory.working.titles import TitleIndex, words_of
from masquerade.reading.lexical import LexicalIndex
from masquerade.text.sentences import SENTENCE

if TYPE_CHECKING:
    from masquerade.memory.retrieval.knowledge import KnowledgeBase


def sentences_of(text: str) -> tuple[str, ...]:
    """The sentences of a text."""
    return tuple(found[0] for found in SENTENCE.finditer(text))


class ParagraphSource(ABC):
    """Paragraphs by their titles. A title is the name of a node of the graph."""

    @property
    @abstractmethod
    def titles(self) -> TitleIndex:
        """All titles."""

    @abstractmethod
    def sentences(self, title: str, query: str) -> tuple[str, ...]:
        """The sentences of the paragraph of a title; of several paragraphs, of the one that fits a query best. Empty
        if the title leads nowhere."""

    @abstractmethod
    def search(self, question: str, count: int) -> list[str]:
        """The titles of the paragraphs that share most with a question, best first."""


class DictParagraphs(ParagraphSource):
    """Paragraphs in a dict: titles → texts, or lists of sentences."""

    def __init__(self, paragraphs: Mapping[str, str | Sequence[str]]) -> None:
        self.paragraphs = {
            title: sentences_of(text) if isinstance(text, str) else tuple(text) for title, text in paragraphs.items()
        }

    @cached_property
    def titles(self) -> TitleIndex:
        return TitleIndex(self.paragraphs)

    def sentences(self, title: str, query: str) -> tuple[str, ...]:
        return self.paragraphs.get(title, ())

    @cached_property
    def _index(self) -> tuple[dict[str, int], LexicalIndex]:
        numbers, rows = dict[str, int](), list[list[int]]()
        for title, sentences in self.paragraphs.items():
            words = (word for word, _, _ in words_of(f"{title} {' '.join(sentences)}"))
            rows.append([numbers.setdefault(word, len(numbers)) for word in words])
        return numbers, LexicalIndex(rows)

    def search(self, question: str, count: int) -> list[str]:
        numbers, index = self._index
        ids = [numbers[word] for word, _, _ in words_of(question) if word in numbers]
        scores, titles = index.scores(ids), list(self.paragraphs)
        return [titles[int(at)] for at in np.argsort(-scores, kind="stable")[:count] if scores[at] > 0]


class CollectionParagraphs(ParagraphSource):
    """Paragraphs of a collection: its documents by their titles, or the names of their files where they have none."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb

    @cached_property
    def documents(self) -> dict[str, list[int]]:
        """The numbers of the documents of each title."""
        found = dict[str, list[int]]()
        for number, title, name in self.kb.store.titles():
            found.setdefault(title or name, []).append(number)
        return found

    @cached_property
    def titles(self) -> TitleIndex:
        return TitleIndex(self.documents)

    def sentences(self, title: str, query: str) -> tuple[str, ...]:
        ids = [id for number in self.documents.get(title, ()) for id in self.kb.store.passage_ids(number)]
        texts = [stored.passage.joined.text for stored in self.kb.store.passages(ids).values()]
        if len(texts) > 1:
            best = DictParagraphs({str(number): text for number, text in enumerate(texts)}).search(query, 1)
            texts = [texts[int(best[0])] if best else texts[0]]
        return sentences_of(texts[0]) if texts else ()

    def search(self, question: str, count: int) -> list[str]:
        found = self.kb.search(question, 4 * count)
        return list(dict.fromkeys(each.stored.title or each.stored.name for each in found))[:count]
