"""Standard output for any terminal: characters that its encoding lacks are escaped, not a traceback."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Mapping
from typing import Any

HANDLER = "masquerade.escape"
_escaped = False


def print_json(value: Mapping[str, Any]) -> None:
    """Print an object as one line of JSON; escaped where the output's encoding is not Unicode."""
    unicode = (sys.stdout.encoding or "utf-8").lower().replace("-", "").startswith("utf")
    print(json.dumps(value, ensure_ascii=not unicode), flush=True)


def escape_what_cannot_be_shown() -> None:
    """Let standard output and standard error print any text: a character that their encoding lacks becomes \\uXXXX."""
    codecs.register_error(HANDLER, _escape)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=HANDLER)


def note_on_escapes() -> str:
    """What to do about escaped characters; empty if there were none."""
    if not _escaped:
        return ""
    return (
        f"Some characters do not exist in this terminal's encoding ({sys.stdout.encoding}) and are shown as \\u…; "
        "set PYTHONIOENCODING=utf-8 to see them."
    )


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    global _escaped
    _escaped = True
    return codecs.backslashreplace_errors(error)
