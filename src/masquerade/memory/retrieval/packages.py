"""Packages that come with the extra ``retrieval``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from masquerade.errors import MasqueradeError


def retrieval_package(module: str) -> Any:
    """A module of the extra ``retrieval``, imported; without it, one sentence says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MasqueradeError(
            f"Collections need the package '{module}'; install it: pip install 'masquerade[retrieval]'."
        ) from error
