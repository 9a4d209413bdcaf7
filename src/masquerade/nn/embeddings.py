"""Tokens to vectors."""

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


class Words(nn.Module):
    """The token table, read both ways: which vector a token has, and how much a vector is like each token."""

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

    def likeness(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """(…, embedding) → (…, vocab)"""
        if self.project is not None:
            x = x @ self.project.weight
        return F.linear(x, self.table.weight, bias)


class Embeddings(nn.Module):
    """What is added to a token's word: its position, segment and task; then the norm, and the widening of what is
    narrow. A decoder has embeddings of its own around the encoder's words."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.positions = nn.ModuleDict({name: ABSOLUTE[name](spec) for name in spec.positions if name in ABSOLUTE})
        self.segment = nn.Embedding(spec.segments, spec.sum_width) if spec.segments else None
        self.task = nn.Embedding(spec.tasks, spec.sum_width) if spec.tasks else None
        self.norm = norm(spec, spec.sum_width) if spec.embedding_norm else None
        self.dropout = nn.Dropout(spec.dropout)
        self.project = nn.Linear(spec.sum_width, spec.width) if spec.embedding and not spec.project_words else None

    def forward(self, words: Tensor, layout: Layout) -> Tensor:
        """The words' vectors (rows, n, embedding) and their layout → (rows, n, width)"""
        x: Tensor = words
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
    """The rows of a table, with a sentence where an id has none."""
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < table.num_embeddings:
        wrong = int(ids.max()) if int(ids.max()) >= table.num_embeddings else int(ids.min())
        raise LayoutError(
            f"There is no {what} {wrong}: this model has {table.num_embeddings} of them, from 0 on; "
            "is the text encoded with the tokenizer of this model?"
        )
    out: Tensor = table(ids)
    return out
