"""The readers that come with Masquerade, and where they are; without importing torch."""

from __future__ import annotations

from pathlib import Path

from masquerade.errors import MasqueradeError

SHIPPED = {"en": "reader-en", "zh": "reader-zh"}
LANGUAGES = {"en": "English", "zh": "Chinese"}


def shipped(name: str) -> Path:
    """The folder of a shipped reader: inside the installed package, or in a clone of the repository."""
    package = Path(__file__).parents[1]
    for parent in (package / "models", package.parents[1] / "models"):
        if (parent / SHIPPED[name] / "config.json").is_file():
            return parent / SHIPPED[name]
    raise MasqueradeError(
        f"The {LANGUAGES[name]} reader is not part of this installation; get the folder models/{SHIPPED[name]} from "
        "the project's repository, and give its path with --model (in Python: Reader.load(path))."
    )
