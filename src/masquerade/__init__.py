"""Masquerade: small language models under any mask."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from masquerade.errors import MasqueradeError

if TYPE_CHECKING:
    from masquerade import masks
    from masquerade.checkpoints.folders import load, save
    from masquerade.labelling.classifier import Classifier
    from masquerade.labelling.tagger import Tagger
    from masquerade.layout import Layout
    from masquerade.memory.retrieval.encoder import Encoder
    from masquerade.memory.retrieval.knowledge import KnowledgeBase
    from masquerade.nn.cache import Cache
    from masquerade.nn.model import Model, build
    from masquerade.nn.spec import Spec
    from masquerade.pipelines import pipeline
    from masquerade.reading.answers import Answer
    from masquerade.reading.reader import Reader
    from masquerade.writing.generate import generate
    from masquerade.writing.writer import Writer

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Cache",
    "Classifier",
    "Encoder",
    "KnowledgeBase",
    "Layout",
    "MasqueradeError",
    "Model",
    "Reader",
    "Spec",
    "Tagger",
    "Writer",
    "build",
    "generate",
    "load",
    "masks",
    "pipeline",
    "save",
]

_MODULES = {  # each name is imported when it is first used, so that `masquerade --help` does not import torch
    "Answer": "masquerade.reading.answers",
    "Cache": "masquerade.nn.cache",
    "Classifier": "masquerade.labelling.classifier",
    "Encoder": "masquerade.memory.retrieval.encoder",
    "KnowledgeBase": "masquerade.memory.retrieval.knowledge",
    "Layout": "masquerade.layout",
    "Model": "masquerade.nn.model",
    "Reader": "masquerade.reading.reader",
    "Spec": "masquerade.nn.spec",
    "Tagger": "masquerade.labelling.tagger",
    "Writer": "masquerade.writing.writer",
    "build": "masquerade.nn.model",
    "generate": "masquerade.writing.generate",
    "load": "masquerade.checkpoints.folders",
    "pipeline": "masquerade.pipelines",
    "save": "masquerade.checkpoints.folders",
}

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the program asks for log messages


def __getattr__(name: str) -> Any:
    if name == "masks":
        return import_module("masquerade.masks")
    if name not in _MODULES:
        raise AttributeError(f"module 'masquerade' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
