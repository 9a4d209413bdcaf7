"""Records from JSON files, Parquet files and data sets of the hub."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from masquerade.errors import MasqueradeError


def read_records(source: str) -> Iterator[Any]:
    """The records of a JSON file (an array, or objects one after another; also gzipped), of a Parquet file, or of a hub
    data set (its name, or name:split)."""
    path = Path(source).expanduser()
    if path.is_file() and path.suffix != ".parquet":
        yield from _objects(path)
    elif not path.is_file() and (source.startswith((".", "/", "~")) or path.suffix):
        raise MasqueradeError(f"There is no file '{source}'; check the path.")
    else:
        yield from _data_set(source, path)


def _objects(path: Path) -> Iterator[Any]:
    """The values of a JSON file; the elements of arrays at the top level."""
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8-sig") as file:
            text = str(file.read()).strip()
        decoder, start = json.JSONDecoder(), 0
        while start < len(text):
            value, start = decoder.raw_decode(text, start)
            yield from value if isinstance(value, list) else [value]
            while start < len(text) and text[start].isspace():
                start += 1
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise MasqueradeError(f"The records of {path} cannot be read: {error}.") from error


def _data_set(source: str, path: Path) -> Iterator[Any]:
    """The records of a Parquet file or of a hub data set."""
    from datasets import load_dataset

    try:
        if path.is_file():
            yield from load_dataset("parquet", data_files=str(path), split="train", streaming=True)
        else:
            name, _, split = source.partition(":")
            yield from load_dataset(name, split=split or "train", streaming=True)
    except Exception as error:
        if path.is_file():
            raise MasqueradeError(f"{path} is not a Parquet file that can be read.") from error
        raise MasqueradeError(f"'{source}' is neither a file nor a data set that the hub returns.") from error
