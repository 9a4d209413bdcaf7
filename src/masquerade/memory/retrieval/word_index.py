"""The words of a collection in tantivy (BM25), kept in step with the store."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import log as logarithm
from typing import Any

import numpy as np

from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.packages import retrieval_package
from masquerade.memory.retrieval.store import CollectionStore
from masquerade.memory.retrieval.words import search_terms

log = logging.getLogger(__name__)

HEAP = 64_000_000  # bytes that new terms are collected in
PART = 2_000  # passages that are added between two commits

_silence = threading.Lock()


class WordIndex:
    """Passages by their words. Changes wait in the store (``pending``) until the index has committed them, so that
    none is lost if the process ends in between."""

    def __init__(self, store: CollectionStore) -> None:
        self.tantivy = retrieval_package("tantivy")
        self.store, self.path = store, store.index_path("words")
        builder = self.tantivy.SchemaBuilder()
        builder.add_unsigned_field("passage", stored=True, indexed=True, fast=True)
        builder.add_text_field("words", tokenizer_name="terms", index_option="freq")
        self.schema = builder.build()
        self.index: Any = None
        try:
            if self.path.is_dir():
                with _silent():
                    self._open()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a damaged index; tantivy's panics are no Exceptions
            self.index = None

    @property
    def current(self) -> bool:
        """Whether the index has what the store has."""
        return self.index is not None and not self.store.pending() and self._count() == self.store.count("passages")

    def synchronise(self, done: Callable[[int], None] = lambda count: None) -> None:
        """Commit the changes that wait in the store. An index that is missing or damaged, does not have what it should,
        or cannot be written is made anew. Only the writer of the collection may call this."""
        pending = self.store.pending()
        self.reload()
        if self.index is None or not self._consistent(pending):
            pending = self._anew()
        # a writer that was killed can leave a file with the name that the next one needs
        if pending and not self._write(pending, done) and not self._write(self._anew(), done):
            raise MasqueradeError(f"The words in '{self.path}' cannot be written; delete that folder and try again.")

    def _anew(self) -> list[int]:
        """Begin an empty index; returns the passages that it has to get."""
        pending = sorted({*self.store.pending(), *self.store.ids().tolist()})
        self.index = None
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True, exist_ok=True)
        self._open()
        return pending

    def _write(self, pending: Sequence[int], done: Callable[[int], None]) -> bool:
        """Commit changed passages, part by part; returns whether the files allow it."""
        try:
            writer = self.index.writer(HEAP, 1)
        except ValueError as error:
            raise MasqueradeError(f"The words in '{self.path}' cannot be written: {error}.") from error
        for start in range(0, len(pending), PART):
            part = pending[start : start + PART]
            found = self.tantivy.Query.term_set_query(self.schema, "passage", part)
            writer.delete_documents_by_query(found)
            for stored in self.store.passages(part).values():
                document = self.tantivy.Document()
                document.add_unsigned("passage", stored.id)
                document.add_text("words", " ".join(search_terms(stored.passage.searched(stored.title))))
                writer.add_document(document)
            try:
                writer.commit()
            except ValueError as error:
                log.warning("the index of words in %s is made anew: %s", self.path, error)
                return False
            with self.store.transaction():
                self.store.settle(part)
            done(len(part))
        writer.wait_merging_threads()
        self.index.reload()
        return True

    def search(self, text: str, k: int, allowed: np.ndarray | None = None) -> list[tuple[int, float]]:
        """The passages that share terms with a text, with their BM25 scores, the best one first; of ``allowed`` ones
        only, if given."""
        terms = list(dict.fromkeys(search_terms(text)))
        if self.index is None or not terms or (allowed is not None and not len(allowed)):
            return []
        query, occur = self.tantivy.Query, self.tantivy.Occur
        parts = [(occur.Should, query.term_query(self.schema, "words", term, "freq")) for term in terms]
        wanted = query.boolean_query(parts)
        if allowed is not None:
            chosen = query.const_score_query(query.term_set_query(self.schema, "passage", allowed.tolist()), 0.0)
            wanted = query.boolean_query([(occur.Must, wanted), (occur.Must, chosen)])
        try:
            searcher = self.index.searcher()
            hits = searcher.search(wanted, k, count=False).hits
            ids = searcher.fast_field_values("passage", [place for _, place in hits])
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise MasqueradeError(
                f"The index of words is damaged ({error}); delete the folder '{self.path}', and it is made anew."
            ) from error
        return [(int(id), float(score)) for id, (score, _) in zip(ids, hits, strict=True)]

    def rarity(self, terms: Iterable[str]) -> dict[str, float]:
        """How much each term tells passages apart, as BM25 weighs it: the fewer of them have it, the more."""
        if self.index is None:
            return dict.fromkeys(terms, 0.0)
        searcher, count = self.index.searcher(), self._count()
        held = {term: int(searcher.doc_freq("words", term)) for term in terms}
        return {term: logarithm(1 + (count - some + 0.5) / (some + 0.5)) for term, some in held.items()}

    def reload(self) -> None:
        """See what the writer has committed since the index was opened."""
        if self.index is not None:
            self.index.reload()

    def _open(self) -> None:
        self.index = self.tantivy.Index(self.schema, str(self.path))
        analyzer = self.tantivy.TextAnalyzerBuilder(self.tantivy.Tokenizer.whitespace()).build()
        self.index.register_tokenizer("terms", analyzer)
        self._count()

    def _count(self) -> int:
        return int(self.index.searcher().num_docs)

    def _consistent(self, pending: Sequence[int]) -> bool:
        """Whether the index has as many passages as it should have, given the changes that wait."""
        total, added = (
            self.store.count("passages"),
            self.store.count("passages WHERE id IN (SELECT passage FROM pending)"),
        )
        return total - added <= self._count() <= total + len(pending) - added


@contextmanager
def _silent() -> Iterator[None]:
    """Standard error is closed: tantivy prints a stack of calls when it meets a damaged file."""
    with _silence:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(nowhere)
