"""Entities and facts as a memory between the layers: KnowBERT, Entities as Experts, Facts as Experts."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from masquerade.memory.entity.fact_memory import FactMemory
    from masquerade.memory.entity.memories import EntityMemory
    from masquerade.memory.entity.networks import attach, with_memory
    from masquerade.memory.entity.recall import fill_with_memory
    from masquerade.memory.entity.sources import build

_MODULES = {  # imported when first used: a network with a memory needs no knowledge base to be loaded
    "attach": "networks",
    "with_memory": "networks",
    "FactMemory": "fact_memory",
    "EntityMemory": "memories",
    "fill_with_memory": "recall",
    "build": "sources",
}

__all__ = ["EntityMemory", "FactMemory", "attach", "build", "fill_with_memory", "with_memory"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'masquerade.memory.entity' has no attribute '{name}'")
    return getattr(import_module(f"masquerade.memory.entity.{_MODULES[name]}"), name)
