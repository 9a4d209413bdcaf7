"""System 2 of CogQA: a graph network over the nodes of a question, and what it decides. It is a part between two layers
of system 1, whose [CLS] states there are the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.errors import SpecError
from masquerade.nn.between import Between, Flow, register
from masquerade.nn.spec import Spec

KIND = "graph"  # the name of the part in a Spec
FORMS = ("authors", "sources")
STEPS = 2
SELF = 2.0  # the weight of a node as its own predecessor, in the authors' form
YES_NO = 0.2  # the weight of the loss of yes/no and of comparison questions, as the authors have it


class NodePredictor(nn.Module):
    """A score for a vector: two layers with a norm between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width, eps=1e-5)
        self.last = nn.Linear(width, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(…, width) → (…,)"""
        out: Tensor = self.last(self.norm(F.gelu(self.first(x))))
        return out.squeeze(-1)


def adjacency(count: int, edges: Tensor, form: str, like: Tensor) -> Tensor:
    """How much of each node (row) goes to each node (column): edges (m, 2) from and to → (count, count). Columns sum to
    1, or to 0 without a predecessor. In the authors' form every node is its own predecessor, with the weight SELF."""
    matrix = torch.zeros(count, count, dtype=like.dtype, device=like.device)
    if form == "authors":
        matrix.fill_diagonal_(SELF)
    if len(edges):
        matrix[edges[:, 0], edges[:, 1]] = 1.0
    return matrix / matrix.sum(0).clamp(min=1.0)


class GraphNetwork(nn.Module):
    """The graph network and its three predictors. One step, for nodes X (n, width) and adjacency A:

    sources:  Δ = σ(Aᵀ σ(X W1)),  X′ = σ(X W2 + Δ)
    authors:  Δ = Aᵀ σ(X W1),     X′ = σ(X W2 + Δ)

    The weights are shared by all steps, and σ is GELU. Comparison and yes/no questions are decided by the difference of
    two nodes: in the authors' form before the graph network, in the sources' after it."""

    def __init__(self, width: int, form: str = "authors", steps: int = STEPS) -> None:
        super().__init__()
        if form not in FORMS or steps < 1:
            raise SpecError(f"A graph network has a form of {', '.join(FORMS)} and at least 1 step.")
        self.form, self.steps = form, steps
        self.message = nn.Linear(width, width, bias=False)  # W1
        self.own = nn.Linear(width, width, bias=False)  # W2
        self.answer, self.yesno, self.which = (NodePredictor(width) for _ in range(3))

    def step(self, x: Tensor, matrix: Tensor) -> Tensor:
        """Nodes (n, width) and adjacency (n, n) → (n, width)"""
        change = matrix.T @ F.gelu(self.message(x))
        if self.form == "sources":
            change = F.gelu(change)
        return F.gelu(self.own(x) + change)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """The nodes after all steps: (n, width) and edges (m, 2) → (n, width)"""
        matrix = adjacency(len(nodes), edges, self.form, nodes)
        x = nodes
        for _ in range(self.steps):
            x = self.step(x, matrix)
        return x

    def answers(self, after: Tensor) -> Tensor:
        """The score of each node to be the answer: (n, width) → (n,)"""
        out: Tensor = self.answer(after)
        return out

    def compare(self, nodes: Tensor, after: Tensor, pair: Sequence[int], yes_no: bool) -> Tensor:
        """The log-odds of yes, or of the first of two nodes: nodes before and after the graph network (n, width), and
        the numbers of the two → ()"""
        x = nodes if self.form == "authors" else after
        out: Tensor = (self.yesno if yes_no else self.which)(x[pair[0]] - x[pair[1]])
        return out

    def loss(self, nodes: Tensor, edges: Tensor, target: Sequence[int]) -> Tensor:
        """The loss of a question, (). ``target`` is (kind, a, b, label): kind 0, the answer is node ``label`` of those
        from ``a`` on; kind 1, yes (1) or no (0), and kind 2, the first (1) or the second (0), of nodes a and b."""
        kind, a, b, label = target
        after = self(nodes, edges)
        if kind == 0:
            scores = self.answers(after)[a:]
            return F.cross_entropy(scores[None], torch.tensor([label - a], device=scores.device))
        odds = self.compare(nodes, after, (a, b), yes_no=kind == 1)
        return YES_NO * F.binary_cross_entropy_with_logits(odds, torch.full_like(odds, float(label)))


class GraphPart(Between):
    """The graph network before a layer of system 1. The first token of every document is a node: its state there goes
    to ``outputs["semantics"]`` (documents, width). States go on unchanged."""

    def __init__(self, spec: Spec, layer: int, form: str = "authors", steps: int = STEPS) -> None:
        super().__init__()
        self.network = GraphNetwork(spec.width, form, steps)

    def forward(self, flow: Flow) -> Flow:
        """The same flow with one more output."""
        semantics = flow.states[flow.layout.batched().first]
        return replace(flow, outputs={**flow.outputs, "semantics": semantics})


def split_graphs(nodes: Tensor, sizes: Tensor, edges: Tensor, counts: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The nodes and edges of each graph of a batch: nodes (n, width) and edges (m, 2) of all graphs one after the
    other, with the number of nodes and of edges of each graph, (graphs,) each."""
    some, between = torch.split(nodes, sizes.tolist()), torch.split(edges.reshape(-1, 2), counts.tolist())
    return list(zip(some, between, strict=True))


register(KIND, GraphPart)
