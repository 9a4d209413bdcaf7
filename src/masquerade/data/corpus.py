"""A corpus, tokenised once: every document's ids in one memory-mapped file, whatever format it came in."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.data.rng import Rng
from masquerade.errors import MasqueradeError
from masquerade.files import read_json
from masquerade.text.tokenizer import Tokenizer

Ids = NDArray[np.uint32]
BATCH = 1000  # documents tokenised at a time

FORMATS = {".jsonl": "json", ".json": "json", ".parquet": "parquet"}
TITLE = re.compile(r" = [^=\n]+ = \n?")  # of an article in WikiText; the headings inside have more signs


@dataclass(frozen=True)
class Tokens:
    """Documents as ids, read from disk as they are needed."""

    ids: Ids  # of all documents, one after another
    ends: NDArray[np.int64]  # the end of each document in ``ids``

    def __len__(self) -> int:
        """The number of documents."""
        return len(self.ends)

    def __getitem__(self, number: int) -> Ids:
        """The ids of one document."""
        return self.ids[0 if number == 0 else self.ends[number - 1] : self.ends[number]]

    def pieces(self, length: int) -> Pieces:
        """The documents cut into pieces of ``length`` tokens; the last piece of a document may be shorter."""
        starts = np.concatenate([[0], self.ends[:-1]])
        spans: list[tuple[int, int]] = []
        for start, end in zip(starts.tolist(), self.ends.tolist(), strict=True):
            spans += list(pairwise([*range(start, end, length), end]))
        return Pieces(self, np.array(spans, dtype=np.int64).reshape(-1, 2))


@dataclass(frozen=True)
class Pieces:
    """Parts of documents, each short enough for one example."""

    tokens: Tokens
    spans: NDArray[np.int64]  # (pieces, 2): start and end of each piece in ``tokens.ids``

    def __len__(self) -> int:
        """The number of pieces."""
        return len(self.spans)

    def __getitem__(self, number: int) -> list[int]:
        """The ids of one piece."""
        start, end = self.spans[number]
        ids: list[int] = self.tokens.ids[start:end].tolist()
        return ids

    def document(self, number: int) -> int:
        """The number of the document that a piece belongs to."""
        return int(self._documents[number])

    def opens(self, number: int) -> bool:
        """Whether a piece begins its document."""
        document = self.document(number)
        return bool(self.spans[number, 0] == (self.tokens.ends[document - 1] if document else 0))

    def closes(self, number: int) -> bool:
        """Whether a piece ends its document."""
        return bool(self.spans[number, 1] == self.tokens.ends[self.document(number)])

    def elsewhere(self, number: int, rng: Rng) -> int:
        """A random piece of another document."""
        start, end = np.searchsorted(self._documents, [self.document(number), self.document(number) + 1])
        if end - start == len(self):
            raise MasqueradeError("All pieces come from one document; texts from another document need two or more.")
        other = int(rng.integers(len(self) - (end - start)))
        return other if other < start else other + int(end - start)

    @cached_property
    def _documents(self) -> NDArray[np.int64]:
        """The document of each piece, ascending: (pieces,)"""
        found: NDArray[np.int64] = np.searchsorted(self.tokens.ends, self.spans[:, 0], side="right")
        return found


def read_documents(source: str, field: str = "text") -> Iterator[str]:
    """The documents of a file (text, JSON lines, Parquet) or of a hub data set. In a text file a blank line ends a
    document; in a file of WikiText a heading of the first level, `` = Title = ``, begins one."""
    path = Path(source).expanduser()
    if path.is_file() and path.suffix == ".txt":
        yield from _text_documents(path)
        return
    from datasets import load_dataset
    from datasets.utils import logging as datasets_logging

    datasets_logging.disable_progress_bar()
    options: dict[str, Any] = {"streaming": True, "split": "train"}
    if path.is_file():
        if path.suffix not in FORMATS:
            raise MasqueradeError(f"{path} is not a corpus that can be read; give .txt, {', '.join(FORMATS)} files.")
        records = load_dataset(FORMATS[path.suffix], data_files=str(path), **options)
    elif source.startswith((".", "/", "~")) or path.suffix in (".txt", *FORMATS):
        raise MasqueradeError(f"There is no corpus at '{source}'; check the path.")
    else:
        try:
            records = load_dataset(source, **options)
        except Exception as error:
            raise MasqueradeError(f"'{source}' is neither a file nor a data set that the hub returns.") from error
    for record in _decoded(records, source):
        if field not in record:
            raise MasqueradeError(f"The records of {source} have no '{field}'; name the field that holds the text.")
        text = (record[field] or "").strip()
        if text:
            yield text


def _text_documents(path: Path) -> Iterator[str]:
    """The documents of a text file."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines, wikitext, before = list[str](), False, ""
            for line in file:
                # inside an article, tables may hold lines that look like a title; a title has blank lines around it
                title = bool(TITLE.fullmatch(line)) and not before.strip()
                wikitext = wikitext or (title and not any(map(str.strip, lines)))
                if title if wikitext else not line.strip():
                    yield from _joined(lines)
                    lines = []
                lines.append(line)
                before = line
            yield from _joined(lines)
    except UnicodeDecodeError as error:
        raise _not_utf8(str(path)) from error
    except OSError as error:
        raise MasqueradeError(f"{path} cannot be read: {error.strerror}.") from error


def _joined(lines: Sequence[str]) -> list[str]:
    """Lines as one document; no document if all are blank."""
    text = "".join(lines).strip()
    return [text] if text else []


def _decoded(records: Iterable[dict[str, Any]], source: str) -> Iterator[dict[str, Any]]:
    """The records, or one sentence if the file is not in UTF-8."""
    try:
        yield from records
    except UnicodeDecodeError as error:
        raise _not_utf8(source) from error


def _not_utf8(source: str) -> MasqueradeError:
    return MasqueradeError(f"'{source}' is not text in UTF-8; convert it first, as with iconv -f gb18030 -t utf-8.")


def prepare(sources: Sequence[str], tokenizer: Tokenizer, folder: Path, field: str = "text") -> Tokens:
    """Tokenise the sources into ``folder``, or find that this has been done: the same files, the same tokenizer."""
    mark = _mark(sources, tokenizer, field)
    if (folder / "done.json").is_file() and read_json(folder / "done.json").get("mark") == mark:
        return _open(folder)
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    ends: list[int] = []
    total = 0
    with open(fresh / "ids.bin", "wb") as file:
        for source in sources:
            for ids in _encoded(read_documents(source, field), tokenizer):
                np.array(ids, dtype=np.uint32).tofile(file)
                total += len(ids)
                ends.append(total)
    if not total:
        shutil.rmtree(fresh)
        raise MasqueradeError(f"There is no text in {', '.join(sources)}; a corpus needs at least one document.")
    np.save(fresh / "ends.npy", np.array(ends, dtype=np.int64))
    (fresh / "done.json").write_text(json.dumps({"mark": mark, "documents": len(ends), "tokens": total}))
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(fresh, folder)
    return _open(folder)


def _encoded(texts: Iterator[str], tokenizer: Tokenizer) -> Iterator[list[int]]:
    """The ids of texts, a batch at a time, without special tokens."""
    waiting: list[str] = []
    for text in texts:
        waiting.append(text)
        if len(waiting) == BATCH:
            yield from tokenizer.encode_all(waiting)
            waiting = []
    yield from tokenizer.encode_all(waiting)


def _open(folder: Path) -> Tokens:
    return Tokens(np.memmap(folder / "ids.bin", dtype=np.uint32, mode="r"), np.load(folder / "ends.npy"))


def _mark(sources: Sequence[str], tokenizer: Tokenizer, field: str) -> str:
    """The hash of what a prepared corpus depends on: sources with their sizes and times, and the tokenizer."""
    facts: list[object] = [field]
    for source in sources:
        path = Path(source).expanduser()
        facts.append((source, path.stat().st_size, path.stat().st_mtime_ns) if path.is_file() else source)
    return hashlib.sha256((json.dumps(facts) + tokenizer.backend.to_str()).encode()).hexdigest()
