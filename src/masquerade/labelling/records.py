"""Labelled texts from tables, JSON, Parquet, columns of BIO tags and hub data sets."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from masquerade.data.records import read_records
from masquerade.errors import MasqueradeError
from masquerade.text.chinese import is_wide

TABLES = {".tsv": "\t", ".csv": ","}  # separators; only .csv has quoted fields
COLUMNS = (".txt", ".conll", ".bio")
LONGEST = 2**27  # characters of a table's field
SEPARATOR = "|"  # between several labels of a text, where they are one field of a table
NAMES = {  # the usual names of fields
    "text": ("text", "sentence", "text_a", "sentence1", "premise", "question"),
    "pair": ("text_b", "sentence2", "hypothesis", "pair"),
    "label": ("label", "labels", "score", "class"),
}


@dataclass(frozen=True)
class Entity:
    """A part of a text: its kind, and its first character and the one after its last."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True)
class Classified:
    """A text or a pair of texts, and its label if known."""

    text: str
    pair: str | None = None
    label: str | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of a text that may have several, or none."""
        return tuple(label for label in (self.label or "").split(SEPARATOR) if label)


@dataclass(frozen=True)
class Tagged:
    """A text and its entities."""

    text: str
    entities: tuple[Entity, ...] = ()


def read_classified(source: str, text: str = "", pair: str = "", label: str = "") -> list[Classified]:
    """The labelled texts of a file or hub data set. Fields are found by the names given, or by the usual ones; a table
    without names has the text first and the label last."""
    given = {"text": text, "pair": pair, "label": label}
    found = []
    for record in _records(source, given):
        values = {role: _field(record, role, name, source) for role, name in given.items()}
        if values["text"] is None:
            raise MasqueradeError(
                f"The records of {source} have no field with a usual name for the text; name it: text = '…'."
            )
        found.append(Classified(values["text"], values["pair"], values["label"]))
    if not found:
        raise MasqueradeError(f"There is no record in {source}; give a file with at least one.")
    return found


def read_tagged(source: str) -> list[Tagged]:
    """The tagged texts of a file or hub data set: records with ``entities`` (kind, start, end), with CLUENER's
    ``label``, or with ``tokens`` and BIO ``tags``; or a text file with a token and its tag on each line."""
    path = Path(source).expanduser()
    if path.is_file() and path.suffix in COLUMNS:
        found = [_from_tokens(tokens, tags, source) for tokens, tags in _columns(path)]
    else:
        found = [_tagged(record, source) for record in _records(source, {})]
    if not found:
        raise MasqueradeError(f"There is no record in {source}; give a file with at least one.")
    return found


def entities_of(tags: Sequence[str]) -> list[Entity]:
    """The entities of BIO tags, with token indices. An I tag that continues no entity of its kind begins one."""
    found: list[Entity] = []
    for index, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        if prefix == "I" and found and found[-1].kind == kind and found[-1].end == index:
            found[-1] = Entity(kind, found[-1].start, index + 1)
        elif prefix in ("B", "I"):
            found.append(Entity(kind, index, index + 1))
    return found


def _records(source: str, given: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """The records of a table, of a JSON or Parquet file, or of a hub data set."""
    path = Path(source).expanduser()
    if path.is_file() and path.suffix in TABLES:
        yield from _table(path, TABLES[path.suffix], given)
    elif path.is_file() and path.suffix not in (".json", ".jsonl", ".parquet"):
        raise MasqueradeError(f"{path} cannot be read here; give a .tsv, .csv, .json, .jsonl or .parquet file.")
    else:
        yield from read_records(source)


def _table(path: Path, separator: str, given: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The rows of a table. The first row holds the names of the columns if one of them is given or usual."""
    csv.field_size_limit(LONGEST)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if separator == "\t":
                rows = list(csv.reader(file, delimiter=separator, quoting=csv.QUOTE_NONE))
            else:
                rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MasqueradeError(f"The table {path} cannot be read: {error}.") from error
    usual = {name for names in NAMES.values() for name in names} | {name for name in given.values() if name}
    rows = [row for row in rows if row]
    if rows and usual.intersection(rows[0]):
        names, rows = rows[0], rows[1:]
    else:
        width = len(rows[0]) if rows else 0
        names = ["text", *(["text_b"] if width > 2 else []), *(f"column {n}" for n in range(2, width - 1)), "label"][
            :width
        ]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            said = f"Record {number} of {path} has {len(row)} columns instead of {len(names)}"
            raise MasqueradeError(f"{said}; correct or remove it.")
        yield dict(zip(names, row, strict=True))


def _field(record: Mapping[str, Any], role: str, name: str, source: str) -> str | None:
    """The value of a field, found by the given name or by a usual one."""
    if not isinstance(record, Mapping):
        raise MasqueradeError(f"The records of {source} have to be objects with named fields.")
    if name and name not in record:
        raise MasqueradeError(f"The records of {source} have no '{name}'; they have {', '.join(record)}.")
    found = name or next((usual for usual in NAMES[role] if usual in record), None)
    if found is None or record[found] is None:
        return None
    value = record[found]
    return SEPARATOR.join(map(str, value)) if role == "label" and isinstance(value, list | tuple) else str(value)


def _tagged(record: Mapping[str, Any], source: str) -> Tagged:
    """One record of tagged text."""
    try:
        if "tokens" in record:
            return _from_tokens(record["tokens"], record["tags"], source)
        text = str(record["text"])
        if "entities" in record:
            found = [Entity(str(each["kind"]), int(each["start"]), int(each["end"])) for each in record["entities"]]
        else:  # CLUENER: kind → name → (first, last) characters
            kinds: Mapping[str, Any] = record.get("label") or {}
            found = [
                Entity(kind, start, end + 1)
                for kind, names in kinds.items()
                for offsets in names.values()
                for start, end in offsets
            ]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise MasqueradeError(
            f"The record {str(record)[:60]!r} of {source} has no valid tags; give text and entities (kind, start, "
            "end), or tokens and BIO tags."
        ) from error
    if any(not 0 <= each.start < each.end <= len(text) for each in found):
        raise MasqueradeError(f"An entity of {source} lies outside its text '{text[:40]}'; correct its offsets.")
    return Tagged(text, tuple(sorted(found, key=lambda each: (each.start, each.end))))


def _columns(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """The sentences of a file whose lines hold a token and, last, its tag, with blank lines between sentences."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MasqueradeError(f"{path} cannot be read: {error}.") from error
    for blank, group in groupby(lines, key=lambda line: not line.strip()):
        pairs = [] if blank else [line.split() for line in group]
        if any(len(pair) < 2 for pair in pairs):
            raise MasqueradeError(f"A line of {path} has no tag; each line needs a token and its tag.")
        if pairs:
            yield [pair[0] for pair in pairs], [pair[-1] for pair in pairs]


def _from_tokens(tokens: Sequence[str], tags: Sequence[Any], source: str) -> Tagged:
    """Tokens with BIO tags as a text with entities. Tokens are separated by spaces, Chinese ones are not."""
    if len(tokens) != len(tags) or not all(isinstance(tag, str) for tag in tags):
        raise MasqueradeError(f"A record of {source} needs a BIO tag, as text, for each of its tokens.")
    text, offsets = "", list[tuple[int, int]]()
    for token in tokens:
        if text and not is_wide(text[-1]) and not is_wide(token[:1] or " "):
            text += " "
        offsets.append((len(text), len(text) + len(token)))
        text += token
    found = entities_of(tags)
    return Tagged(text, tuple(Entity(each.kind, offsets[each.start][0], offsets[each.end - 1][1]) for each in found))
