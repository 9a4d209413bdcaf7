"""Reading and writing files so that nothing is lost: what is written appears whole or not at all."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from masquerade.errors import CheckpointError, MasqueradeError


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not readable JSON ({error}); get the file again.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds no JSON object, but a {type(value).__name__}; is it the right file?")
    return value


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then rename it: a failure leaves what was there before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise MasqueradeError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_text(source: str) -> str:
    """A text file, or with "-" what comes in by standard input."""
    try:
        return sys.stdin.read() if source == "-" else Path(source).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MasqueradeError(f"'{source}' cannot be read as text: {error}.") from error


def read_texts(texts: Sequence[str], source: str | None, purpose: str) -> list[str]:
    """Texts from the command line, and those on the lines of a file, or of standard input."""
    lines = [] if source is None else [line for line in read_text(source).split("\n") if line.strip()]
    if not texts and not lines:
        raise MasqueradeError(f"There is nothing to {purpose}; give a text, or a file with one on each line by --in.")
    return [*texts, *lines]
