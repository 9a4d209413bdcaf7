"""Entity and relation vectors from the graph of facts: TransE (Bordes et al., 2013), DistMult (Yang et al., 2015).

TransE takes a relation for a step from subject to object: the score of a fact is −½ ‖s + r − o‖². DistMult takes it for
a weight of each number: Σ s · r · o. Both are trained to tell a fact from others with the same relation, in which the
object, or the subject, is another entity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.errors import MasqueradeError
from masquerade.memory.entity.vectors import Progress

GRAPHS = ("transe", "distmult")
EPOCHS = 40  # passes over the facts


@dataclass(frozen=True)
class GraphVectors:
    """What was trained: vectors of entities (entities, width) and of relations (relations, width)."""

    kind: str  # one of GRAPHS
    entities: Tensor
    relations: Tensor

    def scores(self, subjects: Tensor, relations: Tensor) -> Tensor:
        """The score of every entity as the object of subjects (m,) and relations (m,): (m, entities)"""
        query = _query(self.kind, self.entities[subjects], self.relations[relations], forward=True)
        return _scores(self.kind, query, self.entities)


def train_graph(
    kind: str,
    start: Tensor,
    relations: int,
    facts: Tensor,
    epochs: int = EPOCHS,
    negatives: int = 256,
    batch: int = 512,
    rate: float = 0.02,
    seed: int = 1,
    progress: Progress | None = None,
) -> GraphVectors:
    """Train vectors from facts (n, 3): subject, relation and object, by number.

    Entities begin as ``start`` (entities, width), and keep a length of the fourth root of the width; those without
    facts stay where they begin. ``negatives`` other entities, the same for all facts of a ``batch``, are compared with
    each fact; those that make another fact of the graph do not count. ``progress`` is told of each epoch.
    """
    if kind not in GRAPHS:
        raise MasqueradeError(f"There are no graph vectors of the kind '{kind}'; choose from {', '.join(GRAPHS)}.")
    if not len(facts):
        raise MasqueradeError(f"There are no facts to train '{kind}' on; give files with facts, or vectors 'labels'.")
    rng = torch.Generator().manual_seed(seed)
    entity = nn.Embedding(len(start), start.shape[1], sparse=True, _weight=start.float().clone())
    relation = nn.Parameter(torch.full((relations, start.shape[1]), 0.0 if kind == "transe" else 1.0))
    sparse = torch.optim.SparseAdam([entity.weight], lr=rate)
    dense = torch.optim.Adam([relation], lr=rate)
    known = _codes(facts, len(start))
    for _ in range(epochs):
        order = torch.randperm(len(facts), generator=rng)
        for first in range(0, len(facts), batch):
            chosen = facts[order[first : first + batch]]
            other = torch.randint(len(start), (negatives,), generator=rng)
            ends = [_loss(kind, entity, relation, chosen, other, known, forward) for forward in (True, False)]
            sparse.zero_grad()
            dense.zero_grad()
            torch.stack(ends).sum().backward()  # type: ignore[no-untyped-call]
            sparse.step()  # type: ignore[no-untyped-call]
            dense.step()
        if progress is not None:
            progress(1)
    weight, used = entity.weight.detach(), torch.zeros(len(start), dtype=torch.bool)
    used[facts[:, [0, 2]].flatten()] = True
    return GraphVectors(kind, torch.where(used[:, None], _sized(weight), start.float()), relation.detach())


def _loss(
    kind: str, entity: nn.Embedding, relation: Tensor, facts: Tensor, other: Tensor, known: Tensor, forward: bool
) -> Tensor:
    """The mean negative log-probability of the right end of facts (b, 3) among itself and other entities (k,): ()"""
    given, wanted = (0, 2) if forward else (2, 0)
    query = _query(kind, _sized(entity(facts[:, given])), relation[facts[:, 1]], forward)  # (b, d)
    right = _scores(kind, query.unsqueeze(1), _sized(entity(facts[:, wanted])).unsqueeze(1)).squeeze(1)  # (b, 1)
    wrong = _scores(kind, query, _sized(entity(other)))  # (b, k)
    among = facts.unsqueeze(1).repeat(1, len(other), 1)  # (b, k, 3)
    among[:, :, wanted] = other
    also = torch.isin(_codes(among, entity.num_embeddings), known)
    scores = torch.cat([right, wrong.masked_fill(also, float("-inf"))], dim=1)
    return F.cross_entropy(scores, torch.zeros(len(facts), dtype=torch.long))


def _query(kind: str, given: Tensor, relation: Tensor, forward: bool) -> Tensor:
    """Where the other end of a fact should be, from one end and the relation: (b, d)"""
    if kind == "distmult":
        return given * relation
    return given + relation if forward else given - relation


def _scores(kind: str, query: Tensor, entities: Tensor) -> Tensor:
    """The scores of entities (…, k, d) for queries (…, b, d): (…, b, k)"""
    products = query @ entities.mT
    if kind == "distmult":
        return products
    return products - query.square().sum(-1, keepdim=True) / 2 - entities.square().sum(-1).unsqueeze(-2) / 2


def _sized(vectors: Tensor) -> Tensor:
    """The vectors with a length of the fourth root of the width, as those of labels have it."""
    return F.normalize(vectors, dim=-1) * math.sqrt(math.sqrt(vectors.shape[-1]))


def _codes(facts: Tensor, entities: int) -> Tensor:
    """One number for each fact (…, 3): (…)"""
    subject, relation, thing = facts.unbind(-1)
    return (relation * entities + subject) * entities + thing
