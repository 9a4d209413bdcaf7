"""Tokens to vectors."""

from __future__ import annotations

from torch import Tensor, nn

from masquerade.errors import LayoutError
from masquerade.layout import Layout
from masquerade.nn.norms import norm
from masquerade.nn.positions import ABSOLUTE
from masquerade.nn.spec import Spec


class Embeddings(nn.Module):
    """The sum of a token's word, position, segment and task vectors, normalised, and widened if it is narrow."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.token = nn.Embedding(spec.vocab, spec.embedding or spec.width)
        self.positions = nn.ModuleDict({name: ABSOLUTE[name](spec) for name in spec.positions if name in ABSOLUTE})
        self.segment = nn.Embedding(spec.segments, spec.sum_width) if spec.segments else None
        self.task = nn.Embedding(spec.tasks, spec.sum_width) if spec.tasks else None
        self.norm = None if spec.norm_first else norm(spec, spec.sum_width)
        self.dropout = nn.Dropout(spec.dropout)
        self.project = None
        if spec.embedding:
            self.project = nn.Linear(spec.embedding, spec.width, bias=not spec.project_words)
        self.project_words = spec.project_words

    def forward(self, layout: Layout) -> Tensor:
        """A layout of (rows, n) → (rows, n, width)"""
        x: Tensor = _look_up(self.token, layout.ids, "token")
        if self.project is not None and self.project_words:
            x = self.project(x)
        for position in self.positions.values():
            x = x + position(layout)
        if self.segment is not None:
            x = x + _look_up(self.segment, layout.segment, "segment")
        if self.task is not None:
            x = x + _look_up(self.task, layout.task, "task")
        x = self.dropout(x if self.norm is None else self.norm(x))
        return x if self.project is None or self.project_words else self.project(x)

    def words(self, x: Tensor) -> Tensor:
        """How much a vector is like each word, by the token table: (…, sum width) → (…, vocab)"""
        if self.project is not None and self.project_words:
            x = x @ self.project.weight
        return x @ self.token.weight.T


def _look_up(table: nn.Embedding, ids: Tensor, what: str) -> Tensor:
    """The rows of a table, with a sentence where an id has none."""
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < table.num_embeddings:
        wrong = int(ids.max()) if int(ids.max()) >= table.num_embeddings else int(ids.min())
        raise LayoutError(
            f"There is no {what} {wrong}: this model has {table.num_embeddings} of them, from 0 on; "
            "is the text encoded with the tokenizer of this model?"
        )
    out: Tensor = table(ids)
    return out
