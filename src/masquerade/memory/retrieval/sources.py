"""Files on their way into a collection: which there are, which have changed, and their documents."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from masquerade.documents.document import Document
from masquerade.documents.encodings import decode
from masquerade.documents.folders import file_paths, read_bytes, read_document
from masquerade.documents.limits import MAX_BYTES
from masquerade.documents.records import TEXTS, TITLES, parse_lines
from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.passages import cut_passages
from masquerade.memory.retrieval.store import Entry, SourceFile

RECORDS = (".jsonl", ".ndjson")  # each line is a document of its own


def find_files(sources: Iterable[str], without: Path) -> dict[str, SourceFile]:
    """The files of files, folders and globs by their absolute paths, not yet hashed; without those in the folder of
    the collection itself."""
    found, own = dict[str, SourceFile](), os.path.realpath(without) + os.sep
    for source in sources:
        for name in file_paths(source)[1]:
            path = os.path.realpath(os.path.expanduser(name))
            if not path.startswith(own):
                found.setdefault(path, SourceFile(path, name, absolute(source), ""))
    return found


def absolute(source: str) -> str:
    """A source by which it is known again from any folder."""
    return os.path.realpath(os.path.expanduser(source))


def shown(source: str) -> str:
    """An absolute source as one would type it here: relative if it lies below the current folder."""
    here = os.path.realpath(".") + os.sep
    return source.removeprefix(here) if source.startswith(here) else source


def covers(sources: Iterable[str], file: SourceFile) -> bool:
    """Whether one of the sources would find this file, if it was still there."""
    return any(
        file.source == source or file.path == source or file.path.startswith(source + os.sep) for source in sources
    )


def content_hash(path: str) -> str:
    """A hash of a file's bytes; of a file that is too large to be read, its size."""
    made = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            return f"{size} bytes"
        while part := file.read(1 << 20):
            made.update(part)
    return made.hexdigest()


def read_entries(name: str) -> tuple[list[Entry], tuple[str, ...]]:
    """The documents of a file with their passages: one, or in JSON lines one a record; and a sentence for each line
    that cannot be read."""
    if Path(name).suffix.lower() in RECORDS:
        return _records(name)
    changed = datetime.fromtimestamp(os.path.getmtime(os.path.expanduser(name)), UTC)
    return [entry_of(read_document(name), changed.date().isoformat())], ()


def entry_of(document: Document, date: str = "", metadata: Mapping[str, Any] | None = None) -> Entry:
    """A document with its passages. Halves of characters, which JSON can have, become question marks."""
    text, title = (each.encode("utf-8", "replace").decode() for each in (document.text, document.title))
    document = replace(document, text=text, title=title)
    passages = cut_passages(document)
    return Entry(document.title, document.language, document.unit, passages, date, metadata or {})


def _records(name: str) -> tuple[list[Entry], tuple[str, ...]]:
    """The records of a JSON lines file: title, text, and their other fields as metadata; and its unreadable lines."""
    found = list[Entry]()
    values, skipped = parse_lines(decode(read_bytes(name, name), name).text, name)
    for number, record in values:
        text = next((record[key] for key in TEXTS if record.get(key)), "") if isinstance(record, dict) else record
        if not isinstance(text, str) or not text.strip():
            continue
        about = record if isinstance(record, dict) else {}
        title = next((str(about[key]) for key in TITLES if about.get(key)), "")
        metadata = {
            key: value
            for key, value in about.items()
            if key not in (*TEXTS, *TITLES) and isinstance(value, str | int | float | bool)
        }
        document = Document(name, text, title, "line", (0,), (number,))
        found.append(entry_of(document, str(about.get("date", "")), metadata))
    if not found:
        raise MasqueradeError(f"There are no records with a text in '{name}'; each line needs a field 'text'.")
    return found, skipped
