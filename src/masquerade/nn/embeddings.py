"""The vectors of tokens: embeddings of token, position, segment and task."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.errors import LayoutError
from masquerade.layout import Kind, Layout
from masquerade.nn.norms import norm
from masquerade.nn.positions import ABSOLUTE
from masquerade.nn.spec import Spec


class TokenEmbedding(nn.Module):
    """The token table: the vector of each token, and with ``logits`` the scores of all tokens for a vector."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.table = nn.Embedding(spec.vocab, spec.embedding or spec.width)
        self.project = (
            nn.Linear(spec.embedding, spec.width, bias=False) if spec.embedding and spec.project_words else None
        )
        self.query = nn.Parameter(torch.zeros(spec.width)) if spec.query_vector else None
        self.scale = math.sqrt(spec.width) if spec.embedding_scale else None

    def forward(self, layout: Layout) -> Tensor:
        """A layout of (rows, n) → (rows, n, embedding)"""
        x = look_up(self.table, layout.ids, "token")
        if self.project is not None:
            x = self.project(x)
        if self.query is not None:
            x = torch.where((layout.kind == Kind.QUERY).unsqueeze(-1), self.query, x)
        return x if self.scale is None else x * self.scale

    def logits(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """(…, embedding) → (…, vocab)"""
        if self.project is not None:
            x = x @ self.project.weight
        return F.linear(x, self.table.weight, bias)


class Embeddings(nn.Module):
    """The input of a stack: position, segment and task embeddings added to the token embeddings, then the norm, then a
    projection of narrow embeddings to the width."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.positions = nn.ModuleDict({name: ABSOLUTE[name](spec) for name in spec.positions if name in ABSOLUTE})
        self.segment = nn.Embedding(spec.segments, spec.sum_width) if spec.segments else None
        self.task = nn.Embedding(spec.tasks, spec.sum_width) if spec.tasks else None
        self.norm = norm(spec, spec.sum_width) if spec.embedding_norm else None
        self.dropout = nn.Dropout(spec.dropout)
        self.project = nn.Linear(spec.sum_width, spec.width) if spec.embedding and not spec.project_words else None

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Token embeddings (rows, n, embedding) and their layout → (rows, n, width)"""
        for position in self.positions.values():
            x = x + position(layout).to(x.dtype)
        if self.segment is not None:
            x = x + look_up(self.segment, layout.segment, "segment")
        if self.task is not None:
            x = x + look_up(self.task, layout.task, "task")
        x = self.dropout(x if self.norm is None else self.norm(x))
        if self.project is not None:
            x = self.project(x)
        return x


def look_up(table: nn.Embedding, ids: Tensor, what: str) -> Tensor:
    """The rows of a table, (…,) → (…, width); an error for an id outside of it."""
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < table.num_embeddings:
        wrong = int(ids.max()) if int(ids.max()) >= table.num_embeddings else int(ids.min())
        raise LayoutError(
            f"There is no {what} {wrong}: this model has ids 0 to {table.num_embeddings - 1}; "
            "encode the text with the tokenizer of this model."
        )
    out: Tensor = table(ids)
    return out
