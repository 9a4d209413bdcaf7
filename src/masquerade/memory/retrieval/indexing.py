"""Changing a collection: files in and out, one commit a batch, so that a killed run loses no finished work."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from masquerade.documents.document import Document
from masquerade.documents.folders import Skipped
from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.sources import (
    absolute,
    content_hash,
    covers,
    entry_of,
    find_files,
    read_entries,
    shown,
)
from masquerade.memory.retrieval.store import CollectionStore, Entry, SourceFile
from masquerade.memory.retrieval.vector_index import Vectors
from masquerade.memory.retrieval.word_index import WordIndex

if TYPE_CHECKING:
    from masquerade.memory.retrieval.encoder import Encoder

BATCH = 256  # passages that are encoded and committed together
SAVE = 20_000  # passages after which the index of vectors is written to its file

Advance = Callable[[int], None]
Progress = Callable[[int], AbstractContextManager[Advance]]  # opened with the number of bytes, told of those done


def silent(total: int) -> AbstractContextManager[Advance]:
    """No progress bar."""
    return nullcontext(lambda count: None)


@dataclass
class IndexReport:
    """What an update did, in files; and the passages that were added."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    passages: int = 0
    skipped: list[Skipped] = field(default_factory=list)


class IndexWriter:
    """The process that changes a collection. The store is committed first; the indexes follow it."""

    def __init__(
        self,
        store: CollectionStore,
        words: WordIndex,
        encoder: Encoder | None = None,
        vectors: Vectors | None = None,
    ) -> None:
        self.store, self.words, self.encoder, self.vectors = store, words, encoder, vectors
        self._queue: list[tuple[SourceFile, list[Entry]]] = []
        self._unsaved = 0

    def update(self, sources: Sequence[str], progress: Progress = silent) -> IndexReport:
        """Bring the collection up to date with files, folders and globs."""
        known_sources: list[str] = json.loads(self.store.meta("sources", "[]"))
        given = list(dict.fromkeys(sources)) or [shown(source) for source in known_sources]
        if not given:
            raise MasqueradeError("There is nothing to index; give files or folders.")
        found, known, report = find_files(given, self.store.folder), self.store.files(), IndexReport()
        places = [absolute(source) for source in given]
        gone = [path for path, file in known.items() if path not in found and covers(places, file)]
        if not found and not gone:
            raise MasqueradeError(f"There is no file to index in {', '.join(given)}.")
        with self.store.transaction():
            self.store.set_meta(sources=json.dumps(list(dict.fromkeys([*known_sources, *places])), ensure_ascii=False))
            report.removed = self.store.drop(gone)
        sizes = {path: _size(path) for path in found}
        with progress(sum(sizes.values())) as advance:
            for path, file in found.items():
                self._take(file, known.get(path), report)
                if sum(len(entry.passages) for _, entries in self._queue for entry in entries) >= BATCH:
                    report.passages += self._commit()
                advance(sizes[path])
            report.passages += self._commit()
        self._finish()
        if report.skipped and not (report.added or report.changed or report.unchanged or report.removed):
            raise MasqueradeError(report.skipped[0].reason)
        return report

    def add(self, document: Document, date: str, metadata: Mapping[str, Any]) -> IndexReport:
        """Add or replace a document that is no file."""
        if not document.text.strip():
            raise MasqueradeError(f"There are no words in '{document.name}'; give a text to add.")
        known = document.name in self.store.files()
        file = SourceFile(document.name, document.name, "", "")
        self._queue.append((file, [entry_of(document, date, metadata)]))
        report = IndexReport(added=int(not known), changed=int(known), passages=self._commit())
        self._finish()
        return report

    def remove(self, names: Sequence[str]) -> list[str]:
        """Remove files by name, path, folder or glob."""
        removed = list[SourceFile]()
        for name in names:
            place, files = absolute(name), self.store.files().values()
            found = [
                file
                for file in files
                if file.path in (name, place) or file.name == name or file.path.startswith(place + os.sep)
                or fnmatch(file.name, name) or fnmatch(file.path, place)
            ]  # fmt: skip
            if not found:
                raise MasqueradeError(f"There is no file '{name}' in the collection; 'masquerade kb info' lists them.")
            removed += found
        with self.store.transaction():
            self.store.drop([file.path for file in removed])
        self._finish()
        return list(dict.fromkeys(file.name for file in removed))

    def _take(self, file: SourceFile, known: SourceFile | None, report: IndexReport) -> None:
        """Read a file if it is new or has changed. One that cannot be read loses its old passages."""
        try:
            if not _storable(file.path):
                raise MasqueradeError(f"The name {file.name!a} is not valid Unicode; rename the file.")
            hashed = SourceFile(file.path, file.name, file.source, content_hash(file.path))
            if known is not None and known.hash == hashed.hash:
                report.unchanged += 1
                return
            entries, skipped = read_entries(file.name)
            self._queue.append((hashed, entries))
            report.skipped += [Skipped(file.name, reason) for reason in skipped]
            report.added += known is None
            report.changed += known is not None
        except (MasqueradeError, OSError) as error:
            reason = str(error)
            if isinstance(error, OSError):
                reason = f"'{file.name}' cannot be read: {error.strerror or error}."
            report.skipped.append(Skipped(file.name, reason))
            if known is not None:
                with self.store.transaction():
                    report.removed += self.store.drop([file.path])

    def _commit(self) -> int:
        """Encode and commit the files in the queue. Returns how many passages they have."""
        texts = [
            passage.searched(entry.title)
            for _, entries in self._queue
            for entry in entries
            for passage in entry.passages
        ]
        if not self._queue:
            return 0
        vectors = [each.numpy() for each in self.encoder.encode_parts(texts)] if self.encoder is not None else None
        row = 0
        with self.store.transaction():
            for file, entries in self._queue:
                count = sum(len(entry.passages) for entry in entries)
                self.store.put(file, entries, None if vectors is None else vectors[row : row + count])
                row += count
        self._queue = []
        self.words.synchronise()
        self._unsaved += len(texts)
        if self.vectors is not None and self._unsaved >= SAVE:
            self.vectors.synchronise()
            self.vectors.save()
            self._unsaved = 0
        return len(texts)

    def _finish(self) -> None:
        """Bring the indexes up to date."""
        self.words.synchronise()
        if self.vectors is not None:
            self.vectors.synchronise()
            self.vectors.save()


def _storable(path: str) -> bool:
    """Whether a path is Unicode; Linux allows any bytes."""
    try:
        return bool(path.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def _size(path: str) -> int:
    """The bytes of a file, 0 if it has vanished."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
