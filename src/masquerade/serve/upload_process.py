"""The process that reads one uploaded document: standard input → JSON. It imports no more than it needs."""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict
from typing import Any

from masquerade.documents.folders import format_of
from masquerade.documents.limits import MAX_CHARACTERS, check_limit
from masquerade.errors import MasqueradeError


def main() -> None:
    """Read a document from standard input, and print it, or why it cannot be read, as JSON."""
    memory, seconds = int(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    name, data = json.loads(sys.stdin.buffer.readline()), sys.stdin.buffer.read()
    try:
        document = format_of(name, data)(data, name)
        check_limit(len(document.text), MAX_CHARACTERS, "characters", name)
        if not document.text.strip():
            raise MasqueradeError(f"There are no words in '{name}'; give a text to read.")
        made: dict[str, Any] = asdict(document)
    except MasqueradeError as error:
        made = {"error": str(error)}
    sys.stdout.write(json.dumps(made))


if __name__ == "__main__":
    main()
