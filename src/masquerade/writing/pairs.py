"""Pairs of a source and its target, from JSON, tables, Parquet files and hub data sets."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade.data.corpus import read_documents
from masquerade.data.records import read_records
from masquerade.documents.encodings import decode
from masquerade.errors import MasqueradeError

SEPARATORS = {".tsv": "\t", ".csv": ","}  # only .csv has quoted fields
CONTEXT = 4  # how much longer a source is than the text that continues it
LONGEST = 2**27  # characters of a table's field
USUAL_NAMES = {  # of columns and fields, the likeliest first
    "source": ("source", "src", "text", "abstract", "document", "article", "content", "input"),
    "target": ("target", "tgt", "summary", "title", "headline", "highlights", "output"),
}


@dataclass(frozen=True)
class TextPair:
    """A source, and the target that is written for it."""

    source: str
    target: str


@dataclass(frozen=True)
class PairFile:
    """The pairs of one file, and a sentence for each kind of record that was left out."""

    pairs: list[TextPair]
    notes: list[str]


def read_pairs(source: str, source_name: str = "", target_name: str = "") -> PairFile:
    """The pairs of a file or hub data set (name, or name:split). Fields and columns are found by the names given, or by
    the usual ones. The columns of a table without names are called "1", "2" …, and the first two are source and target.

    A record without the two fields is an error that names its line. Records whose source or target is empty, or whose
    target equals its source, are left out, and the notes say how many.
    """
    names = {"source": source_name, "target": target_name}
    pairs, left_out = list[TextPair](), dict[str, list[str]]()
    for place, record in _numbered(source, names):
        pair = TextPair(*(_value(record, role, name, source, place) for role, name in names.items()))
        if not (pair.source and pair.target):
            left_out.setdefault("an empty source or target", []).append(place)
        elif pair.source == pair.target:
            left_out.setdefault("a target that equals its source", []).append(place)
        else:
            pairs.append(pair)
    notes = [
        f"{source}: {len(places):,} pairs with {what} are left out (the first: {places[0]})."
        for what, places in left_out.items()
    ]
    if not pairs:
        kinds = ", ".join(f"{len(places):,} with {what}" for what, places in left_out.items())
        why = f" (left out: {kinds})" if kinds else ""
        raise MasqueradeError(f"There is no pair of source and target in {source}{why}; give a file with at least one.")
    return PairFile(pairs, notes)


def continuations(source: str, size: int) -> PairFile:
    """Language modelling as pairs: the texts of a file or hub data set in pieces of ``size`` characters, each with the
    CONTEXT · size characters before it as its source."""
    pairs = list[TextPair]()
    for text in read_documents(source):
        plain = " ".join(text.split())
        for start in range(size, len(plain), size):
            pairs.append(TextPair(plain[max(0, start - CONTEXT * size) : start], plain[start : start + size]))
    if not pairs:
        raise MasqueradeError(f"The texts of {source} are not longer than {size} characters; give longer ones.")
    return PairFile(pairs, [])


def _numbered(source: str, names: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The records of a file or data set, each with the place that an error names."""
    path = Path(source).expanduser()
    suffixes = path.suffixes[-2:]
    if path.is_file() and path.suffix in SEPARATORS:
        yield from _rows(path, names)
    elif path.is_file() and ".jsonl" in suffixes:
        yield from _lines(path)
    elif path.is_file() and path.suffix not in (".json", ".gz", ".parquet"):
        raise MasqueradeError(f"{path} holds no pairs; give a .jsonl, .json, .tsv, .csv or .parquet file.")
    else:
        for number, record in enumerate(read_records(source), start=1):
            yield f"record {number}", record


def _text(path: Path) -> str:
    """The text of a file in any common encoding, gzipped or not."""
    try:
        data = path.read_bytes()
        return decode(gzip.decompress(data) if path.suffix == ".gz" else data, str(path)).text
    except (OSError, EOFError) as error:
        raise MasqueradeError(f"{path} cannot be read: {error}.") from error


def _lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of JSON lines."""
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            raise MasqueradeError(f"Line {number} of {path} is not JSON ({error}); correct or remove it.") from error


def _rows(path: Path, names: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of a table. Its first row holds the names of the columns if one of them is given or usual."""
    csv.field_size_limit(LONGEST)
    separator, lines = SEPARATORS[path.suffix], _text(path).splitlines(keepends=True)
    plain = separator == "\t"
    reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL)
    columns: list[str] | None = None
    known = {name for usual in USUAL_NAMES.values() for name in usual} | {*names.values()}
    try:
        for row in reader:
            if not row:
                continue
            if columns is None:
                named = bool(known.intersection(row))
                columns = row if named else [str(number) for number in range(1, len(row) + 1)]
                if named:
                    continue
            if len(row) != len(columns):
                raise MasqueradeError(
                    f"Line {reader.line_num} of {path} has {len(row)} columns instead of {len(columns)}; "
                    "correct or remove it."
                )
            yield f"line {reader.line_num}", dict(zip(columns, row, strict=True))
    except csv.Error as error:
        raise MasqueradeError(f"Line {reader.line_num} of {path} cannot be read: {error}.") from error


def _value(record: object, role: str, name: str, source: str, place: str) -> str:
    """The source or the target of a record, found by the given name or by a usual one."""
    if not isinstance(record, Mapping):
        raise MasqueradeError(f"{place.capitalize()} of {source} is no object with named fields; correct or remove it.")
    usual = next((each for each in USUAL_NAMES[role] if each in record), None)
    numbered = str(1 + (role == "target"))
    found = name or usual or (numbered if numbered in record else "")
    if found not in record:
        has = ", ".join(map(str, record)) or "none"
        what = f"no field '{name}'" if name else f"no field with a usual name for the {role}"
        hint = "correct the name or the record" if name else f"name it: {role} = '…'"
        raise MasqueradeError(f"{place.capitalize()} of {source} has {what} (it has {has}); {hint}.")
    value = record[found]
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return " ".join(value).strip()
    if value is not None and not isinstance(value, str):
        raise MasqueradeError(f"The field '{found}' in {place} of {source} is no text; correct or remove the record.")
    return (value or "").strip()
