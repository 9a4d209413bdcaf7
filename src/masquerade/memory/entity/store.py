"""The file of a knowledge base: entities, aliases, relations and facts in SQLite.

Every change is one transaction, so that a process may be killed at any moment, and several may edit one knowledge base.
Entities and relations have numbers from 0 on, which stay theirs: they are rows of the tables of vectors.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from masquerade.errors import MasqueradeError

FILE = "knowledge.sqlite3"
WAIT = 30.0  # seconds for another process to finish its change

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entity (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, label TEXT NOT NULL,
                     description TEXT NOT NULL DEFAULT '', removed INTEGER NOT NULL DEFAULT 0, vector BLOB);
CREATE INDEX entity_label ON entity (label);
CREATE TABLE alias (text TEXT NOT NULL, entity INTEGER NOT NULL, count REAL NOT NULL,
                    PRIMARY KEY (text, entity)) WITHOUT ROWID;
CREATE INDEX alias_entity ON alias (entity);
CREATE TABLE relation (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, label TEXT NOT NULL, vector BLOB);
CREATE TABLE fact (subject INTEGER NOT NULL, relation INTEGER NOT NULL, object INTEGER NOT NULL,
                   PRIMARY KEY (subject, relation, object)) WITHOUT ROWID;
CREATE INDEX fact_object ON fact (object);
INSERT INTO meta VALUES ('format', '1'), ('version', '0');
"""

_COUNT = "INSERT INTO meta VALUES (?, '1') ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1"


class KnowledgeStore:
    """A knowledge base's SQLite file, opened."""

    def __init__(self, folder: Path, create: bool = False) -> None:
        self.path = folder / FILE
        if not create and not self.path.is_file():
            raise MasqueradeError(
                f"{folder} holds no knowledge base; make one with 'masquerade entities build', or check the path."
            )
        try:
            self.connection = sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = NORMAL")
            if create:
                self.connection.executescript(_SCHEMA)
            self.meta("format")
        except sqlite3.Error as error:
            raise MasqueradeError(f"The knowledge base {self.path} cannot be opened: {error}.") from error

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        try:
            return self.connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise MasqueradeError(f"The knowledge base {self.path} cannot be read: {error}.") from error

    def value(self, query: str, values: Sequence[Any] = ()) -> Any:
        """The first value of the first row; None without a row."""
        found = self.rows(query, values)
        return found[0][0] if found else None

    def meta(self, name: str, default: str = "") -> str:
        """A setting of the knowledge base."""
        found = self.value("SELECT value FROM meta WHERE name = ?", (name,))
        return default if found is None else str(found)

    @property
    def version(self) -> int:
        """A number that every change raises, whichever process makes it."""
        return int(self.meta("version", "0"))

    @property
    def entity_version(self) -> int:
        """A number that every change raises but those of facts alone."""
        return int(self.meta("entity_version", "0"))

    @contextmanager
    def change(self, facts_alone: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction: all that is done inside is kept, or with an error nothing of it. Other processes wait. With
        ``facts_alone`` it changes no entity and no relation, so that readers keep their tables of vectors."""
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise MasqueradeError(f"The knowledge base {self.path} cannot be changed now: {error}.") from error
        try:
            yield self.connection
            for counter in ("version",) if facts_alone else ("version", "entity_version"):
                self.connection.execute(_COUNT, (counter,))
            self.connection.execute("COMMIT")
        except BaseException as error:
            self.connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise MasqueradeError(f"The knowledge base {self.path} cannot be changed: {error}.") from error
            raise

    def set_meta(self, name: str, value: str) -> None:
        """Keep a setting."""
        with self.change() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
