"""Masquerade: small language models under any mask."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from masquerade.checkpoints.folders import load, save
    from masquerade.layout import Layout
    from masquerade.nn.cache import Cache
    from masquerade.nn.model import Model, build
    from masquerade.nn.spec import Spec
    from masquerade.reading.reader import Reader

__version__ = "0.1.0"

_HOMES = {  # names are fetched when first used, so that `masquerade --help` need not wait for torch
    "load": "masquerade.checkpoints.folders",
    "save": "masquerade.checkpoints.folders",
    "Reader": "masquerade.reading.reader",
    "Layout": "masquerade.layout",
    "Cache": "masquerade.nn.cache",
    "Model": "masquerade.nn.model",
    "build": "masquerade.nn.model",
    "Spec": "masquerade.nn.spec",
}

__all__ = ["Cache", "Layout", "Model", "Reader", "Spec", "build", "load", "save"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'masquerade' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
