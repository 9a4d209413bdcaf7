"""The entry point: every group of commands, and errors in one sentence."""

from __future__ import annotations

import sys

from masquerade.cli import labelling, models, reading, writing  # noqa: F401  (their commands register themselves)
from masquerade.cli.app import app
from masquerade.errors import MasqueradeError


def main() -> None:
    """Run a command; what went wrong for a reason the user can act on is told in one sentence."""
    try:
        app()
    except (MasqueradeError, ModuleNotFoundError) as error:
        name = error.name if isinstance(error, ModuleNotFoundError) else ""  # of a package that training needs
        missing = f"This needs the package '{name}'; install it with pip install 'masquerade[train]'."
        print(f"masquerade: {missing if name else error}", file=sys.stderr)
        sys.exit(1)
