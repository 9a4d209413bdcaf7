"""Entities as Experts (Févry et al., 2020): a memory of entities between two layers.

The input ``memory.mentions`` (m, 2) names the mentions as spans of tokens; without it the part finds them itself. The
outputs are ``memory.tags`` (rows, n, 3), the scores of BEGIN, INSIDE and OUTSIDE; ``memory.spans`` (m, 2), the
mentions; ``memory.table``, the entity vectors; ``memory.entity_scores`` (m, entities); and in use
``memory.entities`` (m, k) and ``memory.weights`` (m, k), the best entities of each mention. In use with a large memory
FAISS finds these, and there are no ``memory.entity_scores``.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from masquerade.memory.entity.spans import TAGS, Spans, from_tags
from masquerade.memory.entity.table import EntityTable
from masquerade.nn.between import Between, Flow, register
from masquerade.nn.norms import norm
from masquerade.nn.spec import Spec


class EntitiesAsExperts(Between):
    """Looks up the entity of each mention, by its first and last token, and adds it at the mention's first token.

    ``width`` is that of the entity vectors, ``top`` the number of entities that a mention reads in use; while training
    it reads all of them. ``trained`` is the number of entities whose vectors are trained too.
    """

    def __init__(
        self, spec: Spec, layer: int, width: int, top: int = 100, trained: int = 0, memory: str = "memory"
    ) -> None:
        super().__init__()
        self.top, self.memory = top, memory
        self.entities = EntityTable(width, trained)
        self.tag = nn.Linear(spec.width, TAGS)
        self.query = nn.Linear(2 * spec.width, width)
        self.back = nn.Linear(width, spec.width)
        self.norm = norm(spec)

    @torch.no_grad()
    def begin(self) -> None:
        """Where entity vectors are as wide as states, begin with the mean of the mention's two ends as its query: the
        vectors of a knowledge base are made of such states."""
        if self.query.out_features * 2 == self.query.in_features:
            self.query.weight.copy_(torch.eye(self.query.out_features).repeat(1, 2) / 2)

    @torch.no_grad()
    def begin_at(self, centre: Tensor) -> None:
        """Take the mean of the states that entity vectors were made of, (width,), away from queries."""
        if centre.shape == self.query.bias.shape:
            self.query.bias.copy_(-centre)

    def forward(self, flow: Flow) -> Flow:
        """States (rows, n, width) → the same shape"""
        states, name, table = flow.states, self.memory, self.entities()
        tags = self.tag(states)  # (rows, n, 3)
        mentions = flow.inputs.get(f"{name}.mentions")
        if mentions is None:
            mentions = from_tags(tags.argmax(-1), flow.layout)
        spans = Spans.of(mentions, flow.layout)
        flow.outputs.update({f"{name}.tags": tags, f"{name}.spans": mentions, f"{name}.table": table})
        query = self.query(spans.ends(states))  # (m, d)
        if self.training:
            flow.outputs[f"{name}.entity_scores"] = scores = query @ table.T  # (m, entities)
            entity = scores.softmax(-1) @ table
        else:
            if self.entities.large():
                index = self.entities.best(query, self.top)  # (m, k)
            else:
                flow.outputs[f"{name}.entity_scores"] = scores = query @ table.T
                index = scores.topk(min(self.top, len(table))).indices
            near = table[index]  # (m, k, d)
            weights = (near @ query.unsqueeze(-1)).squeeze(-1).softmax(-1)  # (m, k)
            flow.outputs.update({f"{name}.entities": index, f"{name}.weights": weights})
            entity = (weights.unsqueeze(1) @ near).squeeze(1)
        update = self.back(entity) * bool(len(table))  # (m, width); an empty memory adds nothing
        added = torch.zeros_like(states).flatten(0, 1).index_add(0, spans.first, update.to(states.dtype))
        return replace(flow, states=self.norm(states + added.view_as(states)))


register("entities", EntitiesAsExperts)
