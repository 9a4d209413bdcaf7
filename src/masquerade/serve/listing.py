"""What the service has, for GET /v1/models."""

from __future__ import annotations

from typing import Any

from masquerade.serve.models import ServedModels, size_of
from masquerade.serve.replies import ModelInfo


def list_models(loaded: ServedModels) -> list[ModelInfo]:
    """Models, collections and knowledge bases by name. Called in the thread of the models."""
    found = [
        ModelInfo(
            name=name, kind="reader", parameters=size_of(each.model),
            about={"window_tokens": each.layout.room, "question_tokens": each.layout.question},
        )
        for name, each in loaded.readers.items()
    ]  # fmt: skip
    for kind, some in (("filler", loaded.fillers), ("generator", loaded.generators)):
        found += [
            ModelInfo.model_validate(
                {"name": name, "kind": kind, "parameters": size_of(each), "about": {"family": each.spec.family}}
            )
            for name, each in some.items()
        ]
    for name, writer in loaded.writers.items():
        found.append(ModelInfo(name=name, kind="writer", parameters=size_of(writer.model)))
    for name, encoder in loaded.encoders.items():
        about: dict[str, Any] = {"width": encoder.width, "longest": encoder.longest}
        found.append(ModelInfo(name=name, kind="encoder", parameters=size_of(encoder.model), about=about))
    for name, base in loaded.collections.items():
        info = base.info()
        about = {"documents": info["documents"], "passages": info["passages"]}
        found.append(ModelInfo(name=name, kind="collection", about=about))
    for name, facts in loaded.facts.items():
        about = {"entities": len(facts.memory), "facts": facts.memory.count()}
        found.append(ModelInfo(name=name, kind="facts", parameters=size_of(facts.model), about=about))
    return found
