"""Facts as Experts (Verga et al., 2020): a memory of facts, read by [MASK] and used in its prediction.

A fact has a subject, a relation and its objects; its key is a map of subject and relation, its value is made of its
objects. The input ``memory.blanks`` (m, 2) names the [MASK]s as spans of tokens; with the option ``subject``,
``memory.subjects`` (m, 2) names a mention of the entity in question, or the first token of the text where there is
none; ``memory.hidden`` (m,) names a key that the blank may not read, 0 for none. Outputs, with null as key 0 and fact
i as key i + 1: ``memory.answers`` (m, entities), the scores of all entities for the blank; ``memory.null`` (m,);
``memory.fact_scores`` (m, facts + 1); ``memory.facts`` (m, k) and ``memory.fact_weights`` (m, k), the keys that were
read; with the option ``own`` also ``memory.alone`` (m, entities), the scores without any fact.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from masquerade.errors import MasqueradeError
from masquerade.memory.entity.spans import Spans
from masquerade.memory.entity.table import EntityTable
from masquerade.nn.between import Between, Flow, register
from masquerade.nn.spec import Spec

NONE = -1  # an object that is padding
LEVEL = 0.3  # how far null begins above facts that are not read, as a share of an entity's product with itself


class FactsAsExperts(Between):
    """Reads the ``top`` facts that fit a blank, mixes their objects with the query, and scores all entities.

    ``width`` is that of the entity vectors, ``relation`` that of the relations' vectors; both come from a knowledge
    base, or from the entity memory of a lower layer if its vectors are trained. ``subject``: the query also reads a
    mention of the entity in question. As published, the query is also the answer of a blank that reads no fact, and
    null has a key as facts have. With ``own`` the answer without a fact has weights of its own, since a query that
    finds facts is far from their objects; and null's score is counted from the best fact that is not read, since the
    scores of right and of wrong facts vary with the query. With ``top`` = 0 it reads no facts, and is a classifier of
    entities.
    """

    facts: Tensor  # (facts, 2): subject and relation
    objects: Tensor  # (facts, most): entities, NONE at padding
    relations: Tensor  # (relations, relation)

    def __init__(
        self,
        spec: Spec,
        layer: int,
        width: int,
        relation: int,
        top: int = 32,
        subject: bool = True,
        own: bool = False,
        memory: str = "memory",
    ) -> None:
        super().__init__()
        self.top, self.subject, self.memory = top, subject, memory
        self.entities = EntityTable(width)
        self.query = nn.Linear((4 if subject else 2) * spec.width, width)
        self.own = nn.Linear(self.query.in_features, width) if own else None
        self.key = nn.Linear(width + relation, width, bias=False)
        self.null_key = nn.Parameter(torch.zeros(width))
        self.null_value = nn.Parameter(torch.zeros(width))
        self.level = nn.Parameter(torch.tensor(LEVEL * math.sqrt(width))) if own else None
        self.register_buffer("relations", torch.zeros(0, relation), persistent=False)
        self.register_buffer("facts", torch.zeros(0, 2, dtype=torch.long), persistent=False)
        self.register_buffer("objects", torch.zeros(0, 1, dtype=torch.long), persistent=False)

    @torch.no_grad()
    def begin(self) -> None:
        """Where all vectors are as wide as states, begin with the mean of the subject's two ends as the query, and with
        the sum of subject and relation as the key: the vectors of a knowledge base are made of such states."""
        width, states = self.query.out_features, self.query.in_features // (4 if self.subject else 2)
        same = torch.eye(width)
        if self.subject and states == width:
            self.query.weight[:, 2 * width :] = same.repeat(1, 2) / 2
            if self.own is not None:
                self.own.weight.copy_(same.repeat(1, 4) / 4)
        if self.relations.shape[1] == width:
            self.key.weight.copy_(same.repeat(1, 2))

    @torch.no_grad()
    def begin_at(self, centre: Tensor) -> None:
        """Take the mean of the states that entity vectors were made of, (width,), away from queries."""
        for layer in (self.query, self.own):
            if layer is not None and centre.shape == layer.bias.shape:
                layer.bias.copy_(-centre)

    def set_facts(self, facts: Tensor, objects: Tensor, relations: Tensor) -> None:
        """Read these facts from now on: subject and relation (facts, 2), objects (facts, most) with NONE at padding,
        vectors of the relations (relations, width)."""
        if relations.shape[-1] != self.relations.shape[-1]:
            raise MasqueradeError(
                f"The knowledge base has relations of {relations.shape[-1]} numbers, but the network was made for "
                f"{self.relations.shape[-1]}; build it with the encoder that the network was trained with."
            )
        self.facts, self.objects = facts.to(self.facts), objects.to(self.objects)
        self.relations = relations.to(self.relations)

    def forward(self, flow: Flow) -> Flow:
        """States (rows, n, width) unchanged; the answers are outputs."""
        name, outputs = self.memory, flow.outputs
        table = outputs.get(f"{name}.table", self.entities())  # (entities, d)
        none = torch.zeros(0, 2, dtype=torch.long)
        blanks = Spans.of(flow.inputs.get(f"{name}.blanks", none), flow.layout)
        read = [blanks.ends(flow.states)]
        if self.subject:
            subjects = Spans.of(flow.inputs.get(f"{name}.subjects", none), flow.layout)
            if len(subjects) != len(blanks):
                raise MasqueradeError(
                    f"There are {len(blanks)} blanks but {len(subjects)} subjects; give each blank one, or the first "
                    "token of its text."
                )
            read.append(subjects.ends(flow.states))
        joined = torch.cat(read, dim=-1)
        query = self.query(joined)  # (m, d)
        alone = query if self.own is None else self.own(joined)  # (m, d)
        by_entity = query @ table.T  # (m, entities)
        scores = self._scores(query, table)  # (m, facts + 1)
        if f"{name}.hidden" in flow.inputs:
            hidden = torch.zeros_like(scores, dtype=torch.bool).scatter(1, flow.inputs[f"{name}.hidden"][:, None], True)
            hidden[:, 0] = False
            scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        weights, keys = self._best(scores)
        value = self._values(by_entity, table, keys, weights)
        null = (weights * (keys == 0)).sum(-1)  # (m,)
        mixed = null[:, None] * alone + (1 - null[:, None]) * value
        outputs.update({f"{name}.answers": mixed @ table.T, f"{name}.null": null})
        if self.own is not None:
            outputs[f"{name}.alone"] = alone @ table.T
        outputs.update({f"{name}.fact_scores": scores, f"{name}.facts": keys, f"{name}.fact_weights": weights})
        return flow

    def _scores(self, query: Tensor, table: Tensor) -> Tensor:
        """The products of all keys with queries (m, d): (m, facts + 1). Keys are linear in subject and relation, so
        the products of these two are computed once an entity and once a relation, and added for each fact."""
        subject, relation = self.key.weight[:, : table.shape[1]], self.key.weight[:, table.shape[1] :]
        by_subject = (query @ subject) @ table.T  # (m, entities)
        by_relation = (query @ relation) @ self.relations.T  # (m, relations)
        facts = by_subject[:, self.facts[:, 0]] + by_relation[:, self.facts[:, 1]]
        null = query @ self.null_key
        if self.level is not None:
            null = null + self.level
            if facts.shape[1] > self.top:
                null = null + facts.topk(self.top + 1).values[:, -1]
        return torch.cat([null[:, None], facts], dim=1)

    def _best(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and keys, (m, k), of the best keys; null joins them where it is not among them."""
        best, keys = scores.topk(min(self.top, scores.shape[1]))
        missing = (keys != 0).all(-1)  # (m,)
        best = torch.cat([best, scores[:, :1].masked_fill(~missing[:, None], float("-inf"))], dim=1)
        keys = torch.cat([keys, keys.new_zeros(len(keys), 1)], dim=1)
        return best.softmax(-1), keys

    def _values(self, by_entity: Tensor, table: Tensor, keys: Tensor, weights: Tensor) -> Tensor:
        """The weighted values (m, d) of keys (m, k); a fact's value is the mean of its objects' vectors, weighted by
        their products with the query, (m, entities)."""
        value = (weights * (keys == 0)).sum(-1, keepdim=True) * self.null_value
        if not len(self.facts) or not len(table):
            return value
        objects = self.objects[(keys - 1).clamp(min=0)]  # (m, k, most)
        there = (objects != NONE) & (keys > 0).unsqueeze(-1)
        products = by_entity.gather(1, objects.clamp(min=0).flatten(1)).view(objects.shape)
        shares = products.masked_fill(~there, torch.finfo(products.dtype).min).softmax(-1) * there
        flat = (shares * weights.unsqueeze(-1)).flatten(1)  # (m, k · most)
        return value + (flat.unsqueeze(1) @ table[objects.clamp(min=0).flatten(1)]).squeeze(1)


register("facts", FactsAsExperts)
