"""JSON and JSON lines: the texts of their records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from masquerade.documents.document import Document
from masquerade.documents.encodings import decode
from masquerade.errors import MasqueradeError

TEXTS = ("text", "content", "contents", "body", "passage", "context", "article", "正文", "内容", "内容正文", "文本")
TITLES = ("title", "headline", "标题")


def read_json_lines(data: bytes, name: str) -> Document:
    """A JSON value on each line, cited by line. Lines that cannot be read are skipped, and listed in ``skipped``."""
    found = decode(data, name)
    values, skipped = parse_lines(found.text, name)
    return replace(_document(name, values, "line", found.encoding, found.guessed), skipped=skipped)


def read_json(data: bytes, name: str) -> Document:
    """A JSON file; where it is a list, each of its items is cited by its number."""
    found = decode(data, name)
    value = _parsed(found.text, f"'{name}'")
    values = list(enumerate(value if isinstance(value, list) else [value], 1))
    return _document(name, values, "item", found.encoding, found.guessed)


def parse_lines(text: str, name: str) -> tuple[list[tuple[int, Any]], tuple[str, ...]]:
    """The JSON values of a text's lines with the numbers of their lines, and a sentence for each line that is no JSON;
    an error if there is no other line."""
    values, skipped = list[tuple[int, Any]](), list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                values.append((number, _parsed(line, f"'{name}' line {number:,}")))
            except MasqueradeError as error:
                skipped.append(str(error))
    if skipped and not values:
        raise MasqueradeError(skipped[0])
    return values, tuple(skipped)


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise MasqueradeError(f"{where} is not readable JSON: {reason}.") from error


def _document(name: str, values: list[tuple[int, Any]], unit: str, encoding: str, guessed: bool) -> Document:
    parts, starts, numbers, length = list[str](), list[int](), list[int](), 0
    for number, value in values:
        text = _record(value)
        if text.strip():
            starts.append(length)
            numbers.append(number)
            parts.append(text)
            length += len(text) + 2
    return Document(name, "\n\n".join(parts), "", unit, tuple(starts), tuple(numbers), False, encoding, guessed)


def _record(value: Any) -> str:
    """The text of a record: its title and its text field where it has one, else all its values by name."""
    if isinstance(value, dict):
        texts = [value[key] for key in TEXTS if isinstance(value.get(key), str) and value[key].strip()]
        titles = [value[key] for key in TITLES if isinstance(value.get(key), str) and value[key].strip()]
        if texts:
            return "\n".join([*titles[:1], *texts])
    return "\n".join(f"{path}: {words}" if path else words for path, words in _leaves(value))


def _leaves(value: Any) -> Iterator[tuple[str, str]]:
    """The strings and numbers of a value in order, each with the names that lead to it."""
    todo: list[tuple[str, Any]] = [("", value)]
    while todo:
        path, each = todo.pop()
        if isinstance(each, dict):
            todo += reversed([(f"{path} {key}".strip(), inner) for key, inner in each.items()])
        elif isinstance(each, list):
            todo += reversed([(path, inner) for inner in each])
        elif isinstance(each, str) and each.strip():
            yield path, each
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield path, str(each)
