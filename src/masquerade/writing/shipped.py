"""The writers that come with Masquerade, and where they are; without importing torch."""

from __future__ import annotations

from pathlib import Path

from masquerade.errors import MasqueradeError

SHIPPED_WRITERS = {"title-en": "English titles"}


def shipped_writer(name: str) -> Path:
    """The folder of a shipped writer: inside the installed package, or in a clone of the repository."""
    package = Path(__file__).parents[1]
    for parent in (package / "models", package.parents[1] / "models"):
        if (parent / name / "config.json").is_file():
            return parent / name
    raise MasqueradeError(
        f"The writer of {SHIPPED_WRITERS[name]} is not part of this installation; train one with 'masquerade train "
        f"writer writer-{name}', and give its folder with --model (in Python: Writer.load(path))."
    )
