"""The texts, vectors and manifest of a collection, in one SQLite file: the source of truth of a collection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.passages import Passage

FORMAT = 1
FILE, LOCK = "collection.sqlite", "writer.lock"

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE files (
  id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, name TEXT NOT NULL, source TEXT NOT NULL,
  hash TEXT NOT NULL);
CREATE TABLE documents (
  id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL REFERENCES files ON DELETE CASCADE, title TEXT NOT NULL,
  language TEXT NOT NULL, unit TEXT NOT NULL, date TEXT NOT NULL, metadata TEXT NOT NULL);
CREATE INDEX documents_file ON documents (file);
CREATE TABLE passages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
  first INTEGER NOT NULL, last INTEGER NOT NULL, heading TEXT NOT NULL, text TEXT NOT NULL, places TEXT NOT NULL);
CREATE INDEX passages_document ON passages (document);
CREATE TABLE vectors (passage INTEGER PRIMARY KEY REFERENCES passages ON DELETE CASCADE, vector BLOB NOT NULL);
CREATE TABLE pending (passage INTEGER PRIMARY KEY);
"""  # pending: passages whose change has not reached the index of words


@dataclass(frozen=True)
class Entry:
    """A document with its passages, on its way into a collection."""

    title: str
    language: str
    unit: str
    passages: Sequence[Passage]
    date: str = ""  # ISO 8601
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceFile:
    """A file of a collection: its absolute path, the name it was given by, the source it was found in, its hash."""

    path: str
    name: str
    source: str
    hash: str


@dataclass(frozen=True)
class Stored:
    """A passage as it is kept, with what is known about its document."""

    id: int
    passage: Passage
    path: str
    name: str
    title: str
    language: str
    unit: str
    date: str
    metadata: Mapping[str, Any]


class CollectionStore:
    """One connection to the SQLite file of a collection."""

    def __init__(self, folder: Path, create: bool = False) -> None:
        self.folder, path = folder, folder / FILE
        if not path.is_file() and not create:
            raise MasqueradeError(f"There is no collection in '{folder}'; make one with 'masquerade index … --out'.")
        self._lock: sqlite3.Connection | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.database = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self.database.create_function("casefold", 1, str.casefold, deterministic=True)  # lower() knows ASCII only
            self.database.execute("PRAGMA foreign_keys = ON")
            self.database.execute("PRAGMA journal_mode = WAL")
            self.database.execute("PRAGMA synchronous = NORMAL")
            if not self.database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                with self.transaction():
                    if not self.database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                        self._create()
            self._check()
        except (sqlite3.Error, OSError) as error:
            operational = isinstance(error, OSError | sqlite3.OperationalError)
            if operational and "no such table" not in str(error):
                raise MasqueradeError(
                    f"The collection in '{folder}' cannot be opened ({error}); check that the folder can be written."
                ) from error
            raise MasqueradeError(
                f"'{path}' is not a collection of Masquerade, or it is damaged ({error}); "
                "delete the folder and index the files again."
            ) from error

    def _create(self) -> None:
        for statement in _SCHEMA.split(";\n"):
            if statement.strip():
                self.database.execute(statement)
        self.set_meta(format=str(FORMAT), id=uuid4().hex)

    def _check(self) -> None:
        found = self.meta("format")
        if found != str(FORMAT):
            raise MasqueradeError(
                f"The collection in '{self.folder}' has the format {found or '?'}, and this version reads {FORMAT}; "
                "index the files again with --rebuild."
            )

    def close(self) -> None:
        """Close the file, and let other processes write."""
        self.database.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def lock(self) -> bool:
        """Become the only writer of the collection; False if another process is. The operating system frees the lock
        when this process ends, however it ends."""
        if self._lock is not None:
            return True
        connection = sqlite3.connect(self.folder / LOCK, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            connection.close()
            return False
        self._lock = connection
        return True

    def unlock(self) -> None:
        """Let other processes write."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def lock_held(self) -> bool:
        """Whether this process is the writer."""
        return self._lock is not None

    def index_path(self, kind: str) -> Path:
        """Where an index of this collection is. The name has the collection's id: the index of another is not used."""
        return self.folder / f"{kind}-{self.meta('id')[:12]}"

    def version(self) -> str:
        """A text that differs for any two states of the passages: numbers are given once, so that the last number and
        the count tell states apart."""
        row = self.database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'passages'").fetchone()
        return f"{row[0] if row else 0} {self.count('passages')}"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes inside are made together, or none."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads inside see the same state."""
        self.database.execute("BEGIN")
        try:
            yield
        finally:
            self.database.execute("COMMIT")

    def meta(self, name: str, default: str = "") -> str:
        """A value of the manifest."""
        row = self.database.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else default

    def set_meta(self, **values: str) -> None:
        """Set values of the manifest."""
        self.database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def files(self) -> dict[str, SourceFile]:
        """The files of the collection by their absolute paths."""
        rows = self.database.execute("SELECT path, name, source, hash FROM files ORDER BY path")
        return {row[0]: SourceFile(*row) for row in rows}

    def put(self, file: SourceFile, entries: Sequence[Entry], vectors: Sequence[np.ndarray] | None) -> None:
        """Replace a file's documents. vectors: of each passage in the order of the entries, (parts, width)"""
        self.drop([file.path])
        values = (file.path, file.name, file.source, file.hash)
        owner = self.database.execute("INSERT INTO files (path, name, source, hash) VALUES (?, ?, ?, ?)", values)
        row = 0
        for entry in entries:
            about = json.dumps(dict(entry.metadata), ensure_ascii=False)
            document = self.database.execute(
                "INSERT INTO documents (file, title, language, unit, date, metadata) VALUES (?, ?, ?, ?, ?, ?)",
                (owner.lastrowid, entry.title, entry.language, entry.unit, entry.date, about),
            ).lastrowid
            for passage in entry.passages:
                places = json.dumps([passage.cuts, passage.starts, passage.numbers])
                number = self.database.execute(
                    "INSERT INTO passages (document, first, last, heading, text, places) VALUES (?, ?, ?, ?, ?, ?)",
                    (document, passage.start, passage.end, passage.heading, passage.text, places),
                ).lastrowid
                self.database.execute("INSERT INTO pending VALUES (?)", (number,))
                if vectors is not None:
                    blob = vectors[row].astype(np.float16).tobytes()
                    self.database.execute("INSERT INTO vectors VALUES (?, ?)", (number, blob))
                row += 1

    def drop(self, paths: Iterable[str]) -> int:
        """Remove files with their documents and passages. Returns how many files there were."""
        removed = 0
        for path in paths:
            self.database.execute(
                "INSERT OR IGNORE INTO pending SELECT p.id FROM passages p JOIN documents d ON p.document = d.id "
                "JOIN files f ON d.file = f.id WHERE f.path = ?",
                (path,),
            )
            removed += self.database.execute("DELETE FROM files WHERE path = ?", (path,)).rowcount
        return removed

    def clear(self) -> None:
        """Remove everything but the format and the id; passages keep getting new numbers."""
        self.drop(list(self.files()))
        self.database.execute("DELETE FROM meta WHERE name NOT IN ('format', 'id')")

    def count(self, table: str) -> int:
        """The number of rows of a table; conditions may follow its name."""
        return int(self.database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def pending(self) -> list[int]:
        """Passages that were added or removed, and whose change has not reached the index of words."""
        return [row[0] for row in self.database.execute("SELECT passage FROM pending ORDER BY passage")]

    def settle(self, passages: Sequence[int]) -> None:
        """The changes of these passages have reached the index of words."""
        self.database.executemany("DELETE FROM pending WHERE passage = ?", [(number,) for number in passages])

    def ids(self) -> np.ndarray:
        """The numbers of all passages, rising: (n,)"""
        rows = self.database.execute("SELECT id FROM passages INDEXED BY passages_document")
        return np.sort(np.fromiter((row[0] for row in rows), dtype=np.int64))

    def titles(self) -> list[tuple[int, str, str]]:
        """The documents by number, each with its title and the name of its file."""
        rows = self.database.execute("SELECT d.id, d.title, f.name FROM documents d JOIN files f ON d.file = f.id")
        return [(int(row[0]), str(row[1]), str(row[2])) for row in rows]

    def passage_ids(self, document: int) -> list[int]:
        """The numbers of the passages of a document, in its order."""
        rows = self.database.execute("SELECT id FROM passages WHERE document = ? ORDER BY id", (document,))
        return [int(row[0]) for row in rows]

    def vectors(self, ids: Sequence[int] | np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """The vectors of the parts of passages, (m, width), float32, and the number of the passage of each, (m,). A
        passage whose vectors are missing or damaged has zeros."""
        parts = list[np.ndarray]()
        for number in ids:
            found = self.database.execute("SELECT vector FROM vectors WHERE passage = ?", (int(number),)).fetchone()
            fits = found is not None and len(found[0]) and not len(found[0]) % (2 * width)
            own = np.frombuffer(found[0], dtype=np.float16) if fits else np.zeros(width, np.float16)
            parts.append(own.reshape(-1, width))
        owner = np.repeat(np.asarray(ids, dtype=np.int64), [len(own) for own in parts])
        return np.concatenate([np.zeros((0, width), np.float32), *parts], dtype=np.float32), owner

    def passages(self, ids: Sequence[int]) -> dict[int, Stored]:
        """Passages by their numbers; those that are no longer there are left out."""
        found = dict[int, Stored]()
        for number in ids:
            row = self.database.execute(
                "SELECT p.text, p.first, p.last, p.heading, p.places, f.path, f.name, d.title, d.language, d.unit, "
                "d.date, d.metadata FROM passages p JOIN documents d ON p.document = d.id "
                "JOIN files f ON d.file = f.id WHERE p.id = ?",
                (int(number),),
            ).fetchone()
            if row is not None:
                cuts, starts, numbers = json.loads(row[4])
                pairs = tuple((first, last) for first, last in cuts)
                text, first, last, heading = row[:4]
                passage = Passage(text, first, last, heading, pairs, tuple(starts), tuple(numbers))
                path, name, title, language, unit, date = row[5:11]
                metadata = json.loads(row[11])
                found[int(number)] = Stored(int(number), passage, path, name, title, language, unit, date, metadata)
        return found
