"""The process that reads one uploaded document: standard input → "read" and JSON, or "refused" and a sentence. It
imports no more than it needs. A text that is too long is "large" and its number of characters."""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

from masquerade.documents.document import Document
from masquerade.documents.folders import format_of
from masquerade.errors import MasqueradeError


def main() -> None:
    """Read a document from standard input, and print it, or why it cannot be read, as JSON."""
    memory, seconds, most = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    name, data = json.loads(sys.stdin.buffer.readline()), sys.stdin.buffer.read()
    try:
        document = format_of(name, data)(data, name)
        if not document.text.strip():
            raise MasqueradeError(f"There are no words in '{name}'; give a text to read.")
        size = len(document.text)
        made = f"read\n{json.dumps(reply(document))}" if size <= most else f"large\n{size}"
    except MasqueradeError as error:
        made = f"refused\n{error}"
    sys.stdout.buffer.write(made.encode(errors="replace"))


def reply(document: Document) -> dict[str, Any]:
    """A document as the service sends it (``DocumentReply``)."""
    numbers = document.numbers or range(1, len(document.starts) + 1)
    return {
        "name": document.name, "title": document.title, "text": document.text, "language": document.language,
        "unit": document.unit, "skipped": document.skipped[:20],
        "places": [{"start": start, "number": each} for start, each in zip(document.starts, numbers, strict=True)],
    }  # fmt: skip


if __name__ == "__main__":
    main()
