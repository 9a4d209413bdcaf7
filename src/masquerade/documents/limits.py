"""Limits of what is read from one file, against damaged and hostile files."""

from __future__ import annotations

from masquerade.errors import MasqueradeError

MAX_BYTES = 64 << 20  # of a file
MAX_UNPACKED = 256 << 20  # bytes of a .docx file's parts after unpacking
MAX_PAGES = 5_000  # of a PDF
MAX_CHARACTERS = 20_000_000  # of a text


def check_limit(size: int, limit: int, unit: str, name: str) -> None:
    """Refuse a file with more than ``limit`` units."""
    if size > limit:
        shown = f"{limit >> 20} MB" if unit == "bytes" else f"{limit:,} {unit}"
        raise MasqueradeError(f"'{name}' is too large: at most {shown} are read; divide the file.")
