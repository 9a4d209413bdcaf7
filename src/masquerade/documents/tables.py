"""Tables (.csv, .tsv): a row as "column: value" lines, cited by its line in the file."""

from __future__ import annotations

import csv
import io
import re

from masquerade.documents.document import Document
from masquerade.documents.encodings import decode
from masquerade.errors import MasqueradeError

SEPARATORS = ",;\t|"

_NUMBER = re.compile(r"[-+]?[\d.,:/% ]+")


def read_table(data: bytes, name: str) -> Document:
    """The rows of a table. The first row names the columns, unless one of its cells is empty or a number."""
    found = decode(data, name)
    rows = _rows(found.text, name)
    if not rows:
        return Document(name, "")
    head = [cell.strip() for cell in rows[0][1]]
    named = len(head) > 1 and all(cell and not _NUMBER.fullmatch(cell) for cell in head) and len(rows) > 1
    parts, starts, numbers, length = list[str](), list[int](), list[int](), 0
    for line, row in rows[1:] if named else rows:
        cells = [(index, " ".join(cell.split())) for index, cell in enumerate(row) if cell.strip()]
        names = head if named else []
        lines = [f"{names[i] if i < len(names) else f'column {i + 1}'}: {cell}" for i, cell in cells]
        text = "\n".join(lines) if len(row) > 1 else cells[0][1]
        starts.append(length)
        numbers.append(line)
        parts.append(text)
        length += len(text) + 2
    return Document(
        name, "\n\n".join(parts), "", "line", tuple(starts), tuple(numbers), False, found.encoding, found.guessed
    )


def _rows(text: str, name: str) -> list[tuple[int, list[str]]]:
    """The rows with words in them, each with the line it begins in."""
    lines = text.splitlines()
    head = next((line for line in lines if line.strip()), "")
    separator = max(SEPARATORS, key=head.count)
    rows, reader = list[tuple[int, list[str]]](), csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    before = 0
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append((before + 1, row))
            before = reader.line_num
    except csv.Error as error:
        raise MasqueradeError(f"'{name}' is no readable table at line {before + 1:,} ({error}).") from error
    return rows
