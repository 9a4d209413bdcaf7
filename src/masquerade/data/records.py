"""Records from where people keep them: JSON files, Parquet files, data sets of the hub."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from masquerade.errors import MasqueradeError


def read_records(source: str) -> Iterator[Any]:
    """The records of a JSON file (an array, or objects one behind another), of a Parquet file, or of a hub data set
    (its name, or name:split)."""
    path = Path(source).expanduser()
    if path.is_file() and path.suffix != ".parquet":
        yield from _objects(path)
    elif not path.is_file() and (source.startswith((".", "/", "~")) or path.suffix):
        raise MasqueradeError(f"There is no file '{source}'; check the path.")
    else:
        yield from _data_set(source, path)


def _objects(path: Path) -> Iterator[Any]:
    """The values of a JSON file, however they stand in it."""
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8-sig") as file:
            text = str(file.read()).strip()
        decoder, place = json.JSONDecoder(), 0
        while place < len(text):
            value, place = decoder.raw_decode(text, place)
            yield from value if isinstance(value, list) else [value]
            while place < len(text) and text[place].isspace():
                place += 1
    except (OSError, ValueError) as error:
        raise MasqueradeError(f"The records of {path} cannot be read: {error}.") from error


def _data_set(source: str, path: Path) -> Iterator[Any]:
    from datasets import load_dataset

    try:
        if path.is_file():
            yield from load_dataset("parquet", data_files=str(path), split="train", streaming=True)
        else:
            name, _, split = source.partition(":")
            yield from load_dataset(name, split=split or "train", streaming=True)
    except Exception as error:
        raise MasqueradeError(f"'{source}' is no file here, and no data set to be had from the hub.") from error
