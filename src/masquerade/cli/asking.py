"""How the command ``ask`` reads its own words; light, for the command line loads it before anything is asked."""

from __future__ import annotations

import os
from typing import Any

from typer.core import TyperCommand


class Ask(TyperCommand):
    """A command whose --in takes several files at once, as the *.txt of a shell gives them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Words behind a file of --in belong to it as well, as long as they are files."""
        spread = args[:2]
        for word in args[2:]:
            is_file = word == "-" or (not word.startswith("-") and os.path.exists(word))  # of a name of any length
            spread += ["--in", word] if spread[-2] == "--in" and is_file else [word]
        return super().parse_args(ctx, spread)
