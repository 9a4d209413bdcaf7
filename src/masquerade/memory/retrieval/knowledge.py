"""The knowledge base: a collection of documents that can be searched, asked and changed."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from masquerade.documents.document import Document, language
from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.indexing import IndexReport, IndexWriter, Progress, silent
from masquerade.memory.retrieval.milvus_index import MilvusIndex, absolute_uri, is_milvus_uri
from masquerade.memory.retrieval.search import (
    DENSE,
    POOL,
    CitedAnswer,
    Filters,
    Found,
    combine,
    nearness,
    priors,
)
from masquerade.memory.retrieval.store import FILE, CollectionStore, Stored
from masquerade.memory.retrieval.vector_index import VectorIndex, Vectors
from masquerade.memory.retrieval.word_index import WordIndex
from masquerade.memory.retrieval.words import search_terms

if TYPE_CHECKING:  # torch is imported only when there is something to encode or to read
    from masquerade.memory.retrieval.encoder import Encoder
    from masquerade.reading.answers import Answer
    from masquerade.reading.reader import Reader

READ = 10  # passages that are read for an answer

P = ParamSpec("P")
R = TypeVar("R")


def _plainly(method: Callable[P, R]) -> Callable[P, R]:
    """A method whose errors of the database are told in a sentence."""

    @wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except sqlite3.Error as error:
            raise MasqueradeError(
                f"The collection cannot be read or written ({error}); if its files are damaged, make it anew with "
                "'masquerade index … --rebuild'."
            ) from error

    return guarded


@dataclass
class Trace:
    """What each stage of an answer took and found, for people to look at."""

    stages: list[tuple[str, float, str]] = field(default_factory=list)  # name, seconds, what came out
    found: list[Found] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[str], None]]:
        """Time a stage; the function it gives takes a line about the result."""
        said, start = [""], time.perf_counter()
        yield lambda text: said.__setitem__(0, text)
        self.stages.append((name, time.perf_counter() - start, said[0]))


class KnowledgeBase:
    """A collection in a folder. Open it with ``KnowledgeBase.open``."""

    def __init__(self, store: CollectionStore, encoder: Encoder | None = None, reader: Reader | None = None) -> None:
        self.store, self._encoder, self._checked = store, encoder, False
        self.readers: dict[str, Reader] = {}  # by language, loaded when they are first needed
        self._reader = reader
        self.words = WordIndex(store)
        self._vectors: Vectors | None = None
        self._version = self._data_version()
        if not self.words.current and store.lock():  # a writer was killed before its last step
            try:
                self.words.synchronise()
            finally:
                store.unlock()

    @staticmethod
    @_plainly
    def open(
        folder: str | Path,
        encoder: Encoder | str | None = None,
        reader: Reader | str | None = None,
        create: bool = False,
        rebuild: bool = False,
        uri: str | None = None,
    ) -> KnowledgeBase:
        """The collection in a folder; with ``create`` a new one if there is none.

        The encoder of a collection is chosen when it is made; later it is found again by the name it had then. None
        for a new collection means search by words alone. ``rebuild`` empties a collection that was made with another
        encoder or by another version. The reader answers questions; without one, the reader for the question's
        language is used. With ``uri`` the vectors of a new collection are kept in Milvus: the address of a server, or a
        .db file of Milvus Lite.
        """
        place = Path(folder).expanduser()
        known = (place / FILE).is_file() and not rebuild
        loaded = _encoder(encoder) if isinstance(encoder, str) and not known else encoder
        if rebuild:
            _make_room(place)
        store = CollectionStore(place, create or rebuild)
        if isinstance(loaded, str):  # with the prefixes and parts that the collection was made with
            loaded = _encoder(loaded, **json.loads(store.meta("pooling", "{}")))
        kb = KnowledgeBase(store, loaded, _reader(reader) if isinstance(reader, str) else reader)
        if not store.meta("made"):
            kb._adopt(loaded, uri)
            return kb
        if loaded is not None:
            kb._check(loaded)
        if uri is not None and absolute_uri(uri) != store.meta("uri"):
            kept = f"in Milvus at '{store.meta('uri')}'" if store.meta("uri") else "in its folder"
            raise MasqueradeError(
                f"The vectors of the collection in '{place}' are kept {kept}; to move them, --rebuild it."
            )
        return kb

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the collection's files."""
        self.store.close()

    @property
    def dense(self) -> bool:
        """Whether the collection has vectors."""
        return bool(self.store.meta("fingerprint"))

    @property
    def encoder(self) -> Encoder:
        """The encoder that the collection was made with."""
        if self._encoder is None:
            source = self.store.meta("encoder")
            try:
                self._encoder = _encoder(source, **json.loads(self.store.meta("pooling", "{}")))
            except MasqueradeError as error:
                raise MasqueradeError(
                    f"The encoder of the collection in '{self.store.folder}' cannot be loaded; give it by --encoder, "
                    f"or search by words alone with --dense 0: {error}"
                ) from error
        if not self._checked:
            self._check(self._encoder)
        return self._encoder

    @property
    def vectors(self) -> Vectors:
        """The index of vectors, opened on first use."""
        if self._vectors is None:
            width, uri = int(self.store.meta("width")), self.store.meta("uri")
            self._vectors = MilvusIndex(self.store, width, uri) if uri else VectorIndex(self.store, width)
            if (
                not self._vectors.saved and not self.store.lock_held and self.store.lock()
            ):  # what was repaired need not be repaired again
                try:
                    self._vectors.save()
                finally:
                    self.store.unlock()
        return self._vectors

    @_plainly
    def update(self, sources: Sequence[str] = (), progress: Progress = silent) -> IndexReport:
        """Bring the collection up to date with files, folders and globs: new and changed files are read, passages of
        changed and deleted ones are removed. Without sources, those of the updates before."""
        with self._writing() as writer:
            return writer.update([str(source) for source in sources], progress)

    @_plainly
    def add(
        self, source: str | Path | Document, date: str = "", metadata: Mapping[str, Any] | None = None
    ) -> IndexReport:
        """Add or replace a document, or the files of a path."""
        if not isinstance(source, Document):
            return self.update([str(source)])
        with self._writing() as writer:
            return writer.add(source, date, metadata or {})

    @_plainly
    def remove(self, *names: str) -> list[str]:
        """Remove files and documents by name, path, folder or glob. Returns the names of those removed."""
        with self._writing() as writer:
            return writer.remove(names)

    @_plainly
    def search(
        self,
        query: str,
        k: int = 10,
        filters: Filters | None = None,
        dense: float | None = None,
        trace: Trace | None = None,
    ) -> list[Found]:
        """The best passages for a query. ``dense`` is the weight of vectors against words: 0 is words alone, 1 vectors
        alone."""
        if not query.strip():
            raise MasqueradeError("The query is empty; give some words to search for.")
        if k < 1:
            raise MasqueradeError(f"The best {k} passages cannot be listed; ask for at least one.")
        weight = (DENSE if self.dense else 0.0) if dense is None else dense
        if not 0 <= weight <= 1:
            raise MasqueradeError(f"The weight of vectors is {weight}; it has to be between 0 and 1.")
        if weight and not self.dense:
            raise MasqueradeError("This collection has no vectors; index it with --encoder and --rebuild to add them.")
        trace = Trace() if trace is None else trace
        self._refresh()
        query = query.encode("utf-8", "replace").decode()  # half of a character may have been typed
        pool, ranked = max(POOL, k), list[tuple[int, float]]()
        allowed = None
        if filters is not None:
            with trace.stage("filters") as said:
                allowed = filters.allowed(self.store)
                said("all passages" if allowed is None else f"{len(allowed):,} passages")
        with trace.stage("words") as said:
            words = self.words.search(query, pool, allowed) if weight < 1 else []
            said(_best(words))
        if weight:
            with trace.stage("vector of the query"):
                vector = self.encoder.encode_queries([query])[0].numpy()
            with trace.stage("vectors") as said:
                ranked = self.vectors.search(vector, pool, allowed)
                said(_best(ranked))
        with trace.stage("passages") as said:
            stored = self.store.passages(list(dict.fromkeys(id for id, _ in (*words, *ranked))))
            said(f"{len(stored)}")
        with trace.stage("terms that are near each other"):
            scores = combine(words, ranked, weight, self.near(query, stored) if weight < 1 else None)
            found = [Found(score, stored[id]) for id, score in scores if id in stored][:k]
        trace.found = found
        return found

    def near(self, query: str, stored: Mapping[int, Stored]) -> dict[int, float]:
        """How near to each other the terms of a query stand in each of some passages, by their numbers."""
        terms = search_terms(query)
        rarity = self.words.rarity(set(terms))
        return {id: nearness(terms, rarity, each.passage.searched(each.title)) for id, each in stored.items()}

    def ask(self, question: str, **options: Any) -> CitedAnswer:
        """The answer to a question; the options are those of ``ask_many``."""
        return self.ask_many([question], **options)[0]

    def ask_many(
        self,
        questions: Sequence[str],
        k: int = READ,
        n_best: int = 1,
        vote: str = "best",
        filters: Filters | None = None,
        dense: float | None = None,
        trace: Trace | None = None,
    ) -> list[CitedAnswer]:
        """The answer to each question from the best ``k`` passages, all of which are read in one pass; spans are
        compared by their odds over all passages, and by how well their passages fit. ``n_best`` and ``vote`` are those
        of ``Reader.ask_many``."""
        trace = Trace() if trace is None else trace
        found = [self.search(question, k, filters, dense, trace) for question in questions]
        answers = [CitedAnswer("", 1.0) for _ in questions]
        with trace.stage("reading") as said:
            for reader, indices in self._by_reader(questions, found):
                asked = [(questions[index], [each.text for each in found[index]]) for index in indices]
                fits = [priors([each.score for each in found[index]]) for index in indices]
                for index, answer in zip(indices, reader.ask_many(asked, n_best, vote, priors=fits), strict=True):
                    answers[index] = _cited(answer, found[index])
            best = [each for answer in answers for each in (answer, *answer.alternatives)][:5]
            scores = ", ".join(f"{each.text!r} {each.score:.3f}" for each in best)
            said(f"{sum(map(len, found))} passages: {scores}")
        return answers

    @_plainly
    def info(self) -> dict[str, Any]:
        """What the collection holds and how, as JSON."""
        store = self.store
        sizes = sum(path.stat().st_size for path in store.folder.rglob("*") if path.is_file())
        rows = store.database.execute("SELECT language, count(*) FROM documents GROUP BY language ORDER BY 2 DESC")
        return {
            "folder": str(store.folder), "format": int(store.meta("format")), "files": store.count("files"),
            "documents": store.count("documents"), "passages": store.count("passages"),
            "languages": dict(rows.fetchall()),
            "encoder": store.meta("encoder") or None, "vectors": self.vectors.kind if self.dense else None,
            "width": int(store.meta("width", "0")) or None,
            "part": json.loads(store.meta("pooling", "{}")).get("part") or None,
            "sources": json.loads(store.meta("sources", "[]")), "bytes": sizes,
        }  # fmt: skip

    def _by_reader(
        self, questions: Sequence[str], found: Sequence[Sequence[Found]]
    ) -> Iterator[tuple[Reader, list[int]]]:
        """The questions that have something to read, by the reader for them."""
        groups = dict[str, list[int]]()
        for index, question in enumerate(questions):
            if found[index]:
                groups.setdefault("" if self._reader else language(question), []).append(index)
        for name, indices in groups.items():
            if self._reader is None and name not in self.readers:
                self.readers[name] = _reader(name)
            yield self._reader or self.readers[name], indices

    @contextmanager
    def _writing(self) -> Iterator[IndexWriter]:
        """What changes the collection; there is one at a time."""
        encoder, vectors = (self.encoder, self.vectors) if self.dense else (None, None)
        with self._only_writer():
            yield IndexWriter(self.store, self.words, encoder, vectors)

    @contextmanager
    def _only_writer(self) -> Iterator[None]:
        """Hold the collection's lock; an error if another process does."""
        if not self.store.lock():
            raise MasqueradeError(
                f"Another process is writing to the collection in '{self.store.folder}'; wait until it has ended."
            )
        try:
            yield
        finally:
            self.store.unlock()

    def _refresh(self) -> None:
        """Take over what other processes have committed."""
        version = self._data_version()
        if version != self._version:
            self._version = version
            self.words.reload()
            if self._vectors is not None:
                self._vectors.synchronise()

    def _data_version(self) -> int:
        return int(self.store.database.execute("PRAGMA data_version").fetchone()[0])

    def _adopt(self, encoder: Encoder | None, uri: str | None) -> None:
        """Note the encoder of a new collection, and where its vectors are."""
        if uri is not None and (encoder is None or not is_milvus_uri(uri)):
            raise MasqueradeError(
                "Milvus keeps vectors: give an encoder, and as --uri an address (http://host:19530) or a .db file."
            )
        values = {"made": datetime.now(UTC).isoformat(timespec="seconds")}
        if encoder is not None:
            values["pooling"] = json.dumps({key: getattr(encoder.pooling, key) for key in ("query", "passage", "part")})
            values |= {"encoder": encoder.source, "fingerprint": encoder.fingerprint(), "width": str(encoder.width)}
        if uri is not None:
            values["uri"] = absolute_uri(uri)
        with self._only_writer(), self.store.transaction():
            if not self.store.meta("made"):
                self.store.set_meta(**values)
        self._checked = True

    def _check(self, encoder: Encoder) -> None:
        """Refuse an encoder whose vectors cannot be compared with those of the collection."""
        if encoder.fingerprint() != self.store.meta("fingerprint"):
            made = f"with the encoder '{self.store.meta('encoder')}'" if self.dense else "without an encoder"
            raise MasqueradeError(
                f"The collection in '{self.store.folder}' was made {made}, and '{encoder.source}' is another one "
                "or has changed; use the same one, or make the collection anew with --rebuild."
            )
        self._checked = True


def _encoder(source: str, **settings: Any) -> Encoder:
    from masquerade.memory.retrieval.encoder import Encoder

    return Encoder.load(source, **settings)


def _reader(source: str) -> Reader:
    from masquerade.reading.reader import Reader

    return Reader.load(source)


def _make_room(folder: Path) -> None:
    """Empty a collection. One of another format, or a damaged one, is deleted."""
    try:
        store = CollectionStore(folder, create=True)
    except MasqueradeError:
        for path in folder.glob(f"{FILE}*"):
            path.unlink()
        store = CollectionStore(folder, create=True)
    try:
        if not store.lock():
            raise MasqueradeError(
                f"Another process is writing to the collection in '{folder}'; wait until it has ended."
            )
        with store.transaction():
            sources = store.meta("sources", "[]")
            store.clear()
            store.set_meta(sources=sources)
    finally:
        store.close()


def _best(ranking: Sequence[tuple[int, float]]) -> str:
    return f"{len(ranking)} passages" + (f", scores {ranking[0][1]:.3f} to {ranking[-1][1]:.3f}" if ranking else "")


def _cited(answer: Answer, found: Sequence[Found]) -> CitedAnswer:
    """A reader's answer with its place in the document."""
    others = tuple(_cited(each, found) for each in answer.alternatives)
    if answer.passage < 0:
        return CitedAnswer(answer.text, answer.score, alternatives=others)
    stored = found[answer.passage].stored
    passage, document = stored.passage, found[answer.passage].document
    made = CitedAnswer(answer.text, answer.score, stored.name, stored.title, passage.heading, None, alternatives=others)
    if answer.start < 0:
        return made
    start, end = passage.joined.original(answer.start, answer.end)
    before, after = document.around(start, end)
    return replace(
        made, text=document.piece(start, end), place=document.place(start), start=passage.start + start,
        end=passage.start + end, before=before, after=after,
    )  # fmt: skip
