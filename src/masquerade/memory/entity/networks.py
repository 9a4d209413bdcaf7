"""Networks with a memory: parts added to an encoder, and the vectors and facts of a knowledge base given to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from masquerade.memory.entity.experts import EntitiesAsExperts
from masquerade.memory.entity.facts import FactsAsExperts
from masquerade.memory.entity.knowbert import KnowledgeAttention
from masquerade.nn.model import Model

Part = KnowledgeAttention | EntitiesAsExperts | FactsAsExperts


class Knowledge(Protocol):
    """What a network reads of a knowledge base."""

    centre: Tensor  # (width,), taken away from all vectors

    def vectors(self) -> Tensor:
        """Entity vectors: (entities, width)"""

    def relation_vectors(self) -> Tensor:
        """Vectors of the relations: (relations, width)"""

    def fact_tensors(self) -> tuple[Tensor, Tensor]:
        """Subject and relation of each fact (facts, 2), and its objects (facts, most), −1 at padding."""


def parts(model: Model, memory: str = "memory") -> list[Part]:
    """The parts of a network that read the memory of this name, from the lowest layer up."""
    found = list(getattr(model.stack, "between", {}).values())
    return [part for part in found if isinstance(part, Part) and part.memory == memory]


def with_memory(model: Model, between: Mapping[int, tuple[str, Mapping[str, Any]]]) -> Model:
    """The same network with further parts between its layers, as ``Spec.between`` names them; its own weights stay.
    It is saved in our own format."""
    spec = replace(model.spec, family="masquerade", between={**model.spec.between, **between})
    made = Model(spec, model.tokenizer if model.has_tokenizer else None)
    for layer, part in getattr(made.stack, "between", {}).items():
        if int(layer) in between and isinstance(part, Part):
            part.begin()
    made.load_state_dict(made.state_dict() | model.state_dict())
    return made.to(model.device).train(model.training)


@torch.no_grad()
def attach(model: Model, knowledge: Knowledge, memory: str = "memory", start: bool = False) -> None:
    """Give the network the entities and facts of a knowledge base. To be called again after a change of it. With
    ``start``, entity vectors that are trained begin as those of the knowledge base, and queries are centred as these
    vectors are."""
    for part in parts(model, memory):
        part.entities.set(knowledge.vectors(), start)
        if start:
            part.begin_at(knowledge.centre)
        if isinstance(part, FactsAsExperts):
            part.set_facts(*knowledge.fact_tensors(), knowledge.relation_vectors())
