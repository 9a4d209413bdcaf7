"""Documents from files, folders and globs; a file that cannot be read is named with its reason."""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from masquerade.documents.document import Document
from masquerade.documents.docx import read_docx
from masquerade.documents.html import read_html
from masquerade.documents.limits import MAX_BYTES, MAX_CHARACTERS, check_limit
from masquerade.documents.pdf import read_pdf
from masquerade.documents.plain import read_code, read_markdown, read_plain
from masquerade.documents.records import read_json, read_json_lines
from masquerade.documents.tables import read_table
from masquerade.errors import MasqueradeError

STANDARD_INPUT = "standard input"

_Format = Callable[[bytes, str], Document]
FORMATS: dict[str, _Format] = {
    ".txt": read_plain, ".text": read_plain, ".log": read_plain, ".rst": read_plain, ".tex": read_plain,
    ".md": read_markdown, ".markdown": read_markdown,
    ".html": read_html, ".htm": read_html, ".xhtml": read_html,
    ".pdf": read_pdf, ".docx": read_docx,
    ".csv": read_table, ".tsv": read_table, ".tab": read_table,
    ".json": read_json, ".jsonl": read_json_lines, ".ndjson": read_json_lines,
}  # fmt: skip
ADVICE = {  # formats that people keep and that are not read
    **dict.fromkeys((".doc", ".rtf", ".odt", ".wps", ".pages"), "save it as .docx or PDF"),
    **dict.fromkeys((".xls", ".xlsx", ".ods", ".numbers"), "save it as .csv"),
    **dict.fromkeys((".ppt", ".pptx", ".odp", ".key", ".epub", ".mobi", ".djvu"), "save it as PDF"),
}
PASSED_OVER = ("__pycache__", "node_modules")  # folders that programs make for themselves


@dataclass(frozen=True)
class Skipped:
    """A file, or a line of one, that was not read, and why, in one sentence."""

    name: str
    reason: str


def read_documents(sources: Sequence[str]) -> tuple[list[Document], list[Skipped]]:
    """The documents of files, folders and globs, and with "-" of standard input; and the files of folders and globs
    that cannot be read, and lines of any file. A single file that was named and cannot be read is an error. Each file
    is read once."""
    if not sources:
        raise MasqueradeError("There is nothing to read; give a file or a folder by --in, or - for standard input.")
    documents, skipped, seen = list[Document](), list[Skipped](), set[str]()
    for source in dict.fromkeys(sources):
        named, paths = file_paths(source)
        read = 0
        for path in paths:
            try:
                key = path if path == "-" else _resolved(path)
                if key not in seen:
                    seen.add(key)
                    documents.append(read_document(path))
                    skipped += [Skipped(path, reason) for reason in documents[-1].skipped]
                read += 1
            except MasqueradeError as error:
                if named:
                    raise
                skipped.append(Skipped(path, str(error)))
        if not read:
            first = f": {skipped[-1].reason}" if skipped else "."
            raise MasqueradeError(f"There is no file to read in '{source}'{first}")
    return documents, skipped


def read_document(source: str) -> Document:
    """The document of one file, or with "-" of standard input."""
    name = STANDARD_INPUT if source == "-" else source
    data = read_bytes(source, name)
    document = format_of(name, data)(data, name)
    check_limit(len(document.text), MAX_CHARACTERS, "characters", name)
    if not document.text.strip():
        raise MasqueradeError(f"There are no words in '{name}'; give a text to read.")
    return document


def format_of(name: str, data: bytes) -> _Format:
    """How a file is read: by its first bytes where those are unmistakable, else by its name."""
    suffix = Path(name).suffix.lower()
    if data[:1024].lstrip().startswith(b"%PDF-"):
        return read_pdf
    if suffix in ADVICE:
        raise MasqueradeError(f"'{name}' is a {suffix} file, which is not read; {ADVICE[suffix]}.")
    if data.startswith(b"PK\x03\x04"):
        return read_docx
    if suffix in FORMATS:
        return FORMATS[suffix]
    if data[:256].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype html", b"<html")):
        return read_html
    return read_plain if name == STANDARD_INPUT or not suffix else read_code


def file_paths(source: str) -> tuple[bool, Iterable[str]]:
    """Is this a single file that was named, and the paths of the files that it stands for?"""
    path = Path(source).expanduser()
    if source == "-" or not glob.has_magic(source) or path.exists():
        return (False, _in_folder(str(path))) if source != "-" and path.is_dir() else (True, [source])
    found = sorted(glob.glob(str(path), recursive=True))
    return False, [file for each in found for file in (_in_folder(each) if os.path.isdir(each) else [each])]


def _in_folder(folder: str) -> Iterator[str]:
    """The files of a folder and of those inside of it, in the order of their names; hidden ones are left out."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in PASSED_OVER)
        for name in sorted(files):
            path = os.path.join(parent, name)
            if not name.startswith(".") and os.path.isfile(path):  # no pipe, whose reading might never end
                yield path


def _resolved(path: str) -> str:
    """The path without links, to know a file again."""
    try:
        return os.path.realpath(os.path.expanduser(path))
    except ValueError as error:  # a character that no path has
        raise MasqueradeError(f"'{path}' cannot be read: {error}.") from error


def read_bytes(source: str, name: str) -> bytes:
    """The bytes of a file; no more of them are read than a file may have."""
    try:
        if source == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            path = Path(source).expanduser()
            state = path.stat()
            if stat.S_ISREG(state.st_mode):
                check_limit(state.st_size, MAX_BYTES, "bytes", name)
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise MasqueradeError(f"There is no file '{source}'; check the path.") from error
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise MasqueradeError(f"'{source}' cannot be read: {reason}.") from error
    check_limit(len(data), MAX_BYTES, "bytes", name)
    return data
