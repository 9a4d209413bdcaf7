"""Packages that come with the extra ``documents``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from masquerade.errors import MasqueradeError


def needed(module: str, name: str, what: str) -> Any:
    """A module of the extra ``documents``, imported; without it, one sentence says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MasqueradeError(
            f"'{name}' is {what}, which needs further packages; install them: pip install 'masquerade[documents]'."
        ) from error
