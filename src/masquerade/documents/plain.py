"""Plain text, Markdown and source code: the text as it is, cited by line."""

from __future__ import annotations

import re

from masquerade.documents.document import Document
from masquerade.documents.encodings import decode

_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_UNDERLINED = re.compile(r"\A\s*(\S[^\r\n]*)\r?\n=+[ \t]*\r?$", re.MULTILINE)


def read_plain(data: bytes, name: str) -> Document:
    """A text file; line ends are not changed, so that offsets are those of the file's characters."""
    found = decode(data, name)
    return Document(name, found.text, encoding=found.encoding, guessed=found.guessed)


def read_markdown(data: bytes, name: str) -> Document:
    """A Markdown file with its markup; the first heading is the title."""
    found = decode(data, name)
    heading = _UNDERLINED.search(found.text) or _HEADING.search(found.text)
    title = heading[1].strip() if heading else ""
    return Document(name, found.text, title, encoding=found.encoding, guessed=found.guessed)


def read_code(data: bytes, name: str) -> Document:
    """Source code or a configuration file; hyphens at line ends are no divided words."""
    found = decode(data, name)
    return Document(name, found.text, prose=False, encoding=found.encoding, guessed=found.guessed)
