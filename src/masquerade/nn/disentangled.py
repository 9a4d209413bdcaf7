"""DeBERTa's disentangled attention: scores of content and relative position, and the convolution of DeBERTa-v2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.errors import LayoutError
from masquerade.layout import Kind
from masquerade.nn.activations import ACTIVATIONS
from masquerade.nn.between import Between, Flow, register
from masquerade.nn.norms import norm
from masquerade.nn.runs import RowOfRuns, attention_of_runs
from masquerade.nn.spec import Spec

if TYPE_CHECKING:
    from masquerade.nn.relations import View

ROUND = 64  # projected tables grow by this many distances
CONVOLVED = "convolved"  # the output of the convolution, between the layers before which it is made and added


class RelativeTable(nn.Module):
    """A vector for each relative position, shared by all layers. Without buckets there are 2 × ``max_distance`` of
    them; with buckets 2 × ``buckets``: near distances have a row each, farther ones share rows that widen
    logarithmically."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.span, self.buckets, self.max_distance = spec.buckets or spec.max_distance, spec.buckets, spec.max_distance
        self.table = nn.Embedding(2 * self.span, spec.width)
        self.norm = norm(spec) if spec.relative_norm else None

    def forward(self, distance: Tensor, consecutive: bool = False) -> tuple[Tensor | None, Tensor]:
        """Key position minus query position, (rows or 1, q, k) → the row of each pair, (rows or 1, 1, q, k), and the
        table's vectors (2 × span, width). If the tokens are ``consecutive``, no rows are needed: the table is then that
        of all distances from the greatest to the least, (q + k − 1, width)."""
        if consecutive:
            _, q, k = distance.shape
            return None, self.vectors()[self._rows(torch.arange(q - 1, -k, -1, device=distance.device))]
        return self._rows(distance).unsqueeze(1), self.vectors()

    def vectors(self) -> Tensor:
        """The table's vectors: (2 × span, width)"""
        table: Tensor = self.table.weight
        return table if self.norm is None else self.norm(table)

    def of_distances(self, longest: int) -> Tensor:
        """The vectors of the distances 1 − longest to longest − 1: (2 × longest − 1, width)"""
        return self.vectors()[self._rows(torch.arange(1 - longest, longest, device=self.table.weight.device))]

    def _rows(self, distance: Tensor) -> Tensor:
        """The table's row for each distance; same shape."""
        ahead = -distance  # the reference counts from the key to the query
        if self.buckets:
            middle = self.buckets // 2
            far = ahead.abs().clamp(min=middle)
            ratio = (far / middle).log() / torch.tensor((self.max_distance - 1) / middle).log()
            wide = ((ratio * (middle - 1)).ceil() + middle).long() * ahead.sign()
            ahead = torch.where(ahead.abs() <= middle, ahead, wide)
        return (ahead + self.span).clamp(0, 2 * self.span - 1)


def diagonals(scores: Tensor) -> Tensor:
    """Row i shifted left by n − 1 − i: scores (…, n, n + m − 1) of n places to n + m − 1 distances in a row → scores of
    n places to m places, (…, n, m). No copy, and no index, is made."""
    n, distances = scores.shape[-2:]
    m = distances - n + 1
    if n == 1:
        return scores
    flat = scores.flatten(-2)[..., n - 1 : n - 1 + n * (distances - 1)]
    return flat.view(*scores.shape[:-1], distances - 1)[..., :m]


class Disentangled(nn.Module):
    """The scores of relative positions: the query's content against the position ("c2p"), and the position against
    the key's content ("p2c"). Positions have projections of their own, or share those of the content."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        inside, kinds = spec.heads * spec.head_width, spec.position_scores
        own = not spec.share_projections
        self.key = nn.Linear(spec.width, inside) if own and "c2p" in kinds else None
        self.query = nn.Linear(spec.width, inside) if own and "p2c" in kinds else None
        self.kinds, self.heads = kinds, spec.heads
        self.dropout = nn.Dropout(spec.dropout)
        self.scale = 1 / math.sqrt(1 + len(kinds))  # all kinds of scores are summed, content against content too
        self._projected: Projected | None = None

    def train(self, mode: bool = True) -> Disentangled:
        """Set the mode of training, which forgets the projected table."""
        self._projected = None
        return super().train(mode)

    def scores(
        self, query: Tensor, key: Tensor, view: View, content_query: nn.Linear, content_key: nn.Linear
    ) -> Tensor:
        """Queries (rows, heads, q, d) and keys (rows, heads, k, d) → (rows, heads, q, k). ``content_query`` and
        ``content_key`` are the projections of the content, for those who share them."""
        if view.relative is None:
            raise TypeError("a view for DeBERTa carries relative positions")
        index, table = view.relative
        table = self.dropout(table)
        index = None if index is None else index.expand(len(query), self.heads, -1, -1)
        scores = query.new_zeros(())
        if "c2p" in self.kinds:
            places = self._split((self.key or content_key)(table)).transpose(-1, -2)
            if index is None:
                scores = scores + diagonals(query @ places.flip(-1))  # from the least distance to the greatest
            else:
                scores = scores + (query @ places).gather(-1, index)
        if "p2c" in self.kinds:
            by_position = key @ self._split((self.query or content_query)(table)).transpose(-1, -2)
            picked = diagonals(by_position) if index is None else by_position.gather(-1, index.transpose(-1, -2))
            scores = scores + picked.transpose(-1, -2)
        return scores

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rows: Sequence[RowOfRuns],
        table: RelativeTable,
        content: tuple[nn.Linear, nn.Linear],
        scale: float,
    ) -> Tensor:
        """Attention of rows of runs: queries, keys and values (rows, heads, n, d) → the same shape, 0 at padding.
        ``content`` are the projections of queries and keys."""
        tables = self._tables(table, max(row.span for row in rows), content, scale, query.dtype)
        return attention_of_runs(query * scale, key, value, rows, tables)

    def _tables(
        self, table: RelativeTable, span: int, content: tuple[nn.Linear, nn.Linear], scale: float, dtype: torch.dtype
    ) -> dict[str, Tensor]:
        """The projected vectors of at least all distances below ``span`` by the kind of scores, each (heads, d,
        2 × longest − 1). Without gradients they are kept while no weight changes."""
        query, key = self.query or content[0], self.key or content[1]
        weights = [each for part in (table, query, key) for each in part.parameters()]
        kept, mark = self._projected, [(each, each.data_ptr(), _version(each)) for each in weights]
        if not torch.is_grad_enabled() and kept is not None and kept.fits(span, dtype, mark):
            return kept.tables
        longest = -(-span // ROUND) * ROUND
        vectors, tables = table.of_distances(longest), dict[str, Tensor]()
        if "c2p" in self.kinds:  # seen from the query: from the least distance to the greatest
            tables["c2p"] = self._split(key(vectors)).transpose(-1, -2).contiguous()
        if "p2c" in self.kinds:  # seen from the key: the other way round
            tables["p2c"] = self._split(query(vectors.flip(0)) * scale).transpose(-1, -2).contiguous()
        if not torch.is_grad_enabled():
            self._projected = Projected(longest, dtype, tables, mark)
        return tables

    def _split(self, x: Tensor) -> Tensor:
        """(positions, heads × d) → (heads, positions, d)"""
        return x.view(len(x), self.heads, -1).transpose(0, 1)


@dataclass(frozen=True)
class Projected:
    """A layer's projections of the vectors of all distances, each (heads, d, 2 × longest − 1)."""

    longest: int
    dtype: torch.dtype
    tables: dict[str, Tensor]  # by the kind of scores
    mark: Sequence[tuple[Tensor, int, int]]  # the weights they were computed from: each one, where it is, its version

    def fits(self, span: int, dtype: torch.dtype, mark: Sequence[tuple[Tensor, int, int]]) -> bool:
        """Whether they hold all distances below ``span``, and were computed from these weights as they are now."""
        same = (a is b and (i, j) == (m, n) for (a, i, j), (b, m, n) in zip(self.mark, mark, strict=True))
        return self.longest >= span and self.dtype == dtype and len(mark) == len(self.mark) and all(same)


def _version(weight: Tensor) -> int:
    """How often a weight was changed in place; not counted where it was made in inference mode."""
    return 0 if weight.is_inference() else weight._version


class Convolution(Between):
    """The convolution of a layer's input over neighbouring tokens of a document, kept for ``AddConvolution``."""

    def __init__(self, spec: Spec, layer: int, size: int, activation: str) -> None:
        super().__init__()
        self.conv = nn.Conv1d(spec.width, spec.width, size)
        self.activation, self.dropout = ACTIVATIONS[activation], nn.Dropout(spec.dropout)

    def forward(self, flow: Flow) -> Flow:
        """States (rows, n, width) stay; the convolution (rows, n, width) goes to the outputs. Tokens of other
        documents and padding count as 0, so that packed rows give what single ones give."""
        if flow.cached:
            raise LayoutError("A convolution reads the next token, so a pass through it cannot be cached.")
        size, document, n = self.conv.kernel_size[0], flow.layout.document, flow.states.shape[1]
        room = ((size - 1) // 2, size // 2)
        states = F.pad(flow.states, (0, 0, *room))
        documents = F.pad(document.masked_fill(flow.layout.kind != Kind.CONTENT, -1), room, value=-1)
        found = torch.zeros_like(flow.states)
        for offset in range(size):
            same = (documents[:, offset : offset + n] == document).unsqueeze(-1)
            found = found + F.linear(states[:, offset : offset + n] * same, self.conv.weight[:, :, offset])
        if self.conv.bias is not None:
            found = found + self.conv.bias
        found = self.activation(self.dropout(found))
        return replace(flow, outputs={**flow.outputs, CONVOLVED: found})


class AddConvolution(Between):
    """Adds the convolution of the first layer's input to that layer's output, and normalises the sum."""

    def __init__(self, spec: Spec, layer: int) -> None:
        super().__init__()
        self.norm = norm(spec)

    def forward(self, flow: Flow) -> Flow:
        """States (rows, n, width) → the same shape"""
        outputs = dict(flow.outputs)
        return replace(flow, states=self.norm(flow.states + outputs.pop(CONVOLVED)), outputs=outputs)


register("convolution", Convolution)
register("add-convolution", AddConvolution)
