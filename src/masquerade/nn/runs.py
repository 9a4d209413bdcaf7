"""Attention with scores of relative positions where the tokens of a row are in a few runs of consecutive positions.

Each row is computed alone: its scores then fit into the processor's cache, nothing is computed for padding, and the
scores of distances are read along diagonals instead of being looked up pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from masquerade.layout import Layout, additive, all_visible, visible

SHORTEST, MOST_RUNS = 16, 8  # rows of fewer tokens, or more runs, are computed together, pair by pair


class TokenRun(NamedTuple):
    """Tokens at consecutive positions."""

    begin: int  # the first token, and the one after the last
    end: int
    position: int  # of the first token


@dataclass(frozen=True)
class RowOfRuns:
    """A row of a batch whose tokens are in a few runs, so that distances need no table of pairs."""

    tokens: int  # without the padding behind them
    runs: tuple[TokenRun, ...]
    span: int  # the greatest distance, and 1
    bias: Tensor | None  # (1, tokens, tokens), the attention mask; None where all tokens see each other


def rows_of_runs(layout: Layout) -> list[RowOfRuns]:
    """The rows of a layout (rows, n) as runs; none at all if a row has more than a few, or sees nothing somewhere, or
    is short."""
    rows = []
    for row in (layout.row(index) for index in range(layout.rows)):
        cuts = [0, *((row.position.diff() != 1).nonzero()[:, 0] + 1).tolist(), len(row)]
        if len(row) < SHORTEST or len(cuts) > MOST_RUNS + 1:
            return []
        runs = tuple(TokenRun(begin, end, int(row.position[begin])) for begin, end in pairwise(cuts))
        span = max(run.position + run.end - run.begin for run in runs) - min(run.position for run in runs)
        seen = None if all_visible(row, row) else visible(row)
        if seen is not None and not bool(seen.any(-1).all()):
            return []
        rows.append(RowOfRuns(len(row), runs, span, None if seen is None else additive(seen.unsqueeze(0))[0]))
    return rows


class RunPairs(NamedTuple):
    """The pairs of the tokens of a run with those of a run, and where the scores of their distances are."""

    own: slice  # the tokens that are scored against distances
    other: slice
    distances: slice  # of the table, all that occur between the first run and any token of the row
    shape: tuple[int, int]  # of these pairs,
    strides: tuple[int, int]  # read along the diagonals
    offset: int  # of the scores (tokens, distances)

    def pairs(self, by_distance: Tensor) -> Tensor:
        """The scores of pairs, a view of those of distances: (heads, own, distances) → (heads, own, other)"""
        heads, size, distances = by_distance.shape
        return by_distance.as_strided((heads, *self.shape), (size * distances, *self.strides), self.offset)


def run_pairs(row: RowOfRuns, longest: int) -> Iterator[list[RunPairs]]:
    """For each run of a row its pairs with every run. Tables have the distances 1 − ``longest`` to ``longest`` − 1."""
    least = min(run.position for run in row.runs)
    for own in row.runs:
        size = own.end - own.begin
        first, distances = longest - size - (own.position - least), row.span + size - 1
        yield [
            RunPairs(
                slice(own.begin, own.end),
                slice(other.begin, other.end),
                slice(first, first + distances),
                (size, other.end - other.begin),
                (distances - 1, 1),
                other.position - least + size - 1,
            )
            for other in row.runs
        ]


def attention_of_runs(
    query: Tensor, key: Tensor, value: Tensor, rows: Sequence[RowOfRuns], tables: Mapping[str, Tensor]
) -> Tensor:
    """Scaled queries, keys and values (rows, heads, n, d) → the weighted means of the values, the same shape, 0 at
    padding. ``tables``, each (heads, d, 2 × longest − 1), are scored against the queries ("c2p": from the least
    distance of key minus query to the greatest) and against the keys ("p2c": the other way round)."""
    apply: Callable[..., Tensor] = _OfRuns.apply
    return apply(query, key, value, rows, tuple(tables), *tables.values())


class _OfRuns(torch.autograd.Function):
    """attention_of_runs, with gradients of queries, keys, values and tables."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rows: Sequence[RowOfRuns],
        kinds: tuple[str, ...],
        *tables: Tensor,
    ) -> Tensor:
        """The weighted means of the values, as attention_of_runs."""
        mixed, kept = torch.zeros_like(value.transpose(1, 2)).transpose(1, 2), list[Tensor]()
        longest = (tables[0].shape[-1] + 1) // 2 if tables else 0
        with torch.autocast(query.device.type, enabled=False):
            for index, row in enumerate(rows):
                here = index, slice(None), slice(row.tokens)
                q, k = query[here], key[here].contiguous()
                scores = q @ k.transpose(-1, -2)
                for parts in run_pairs(row, longest):
                    for kind, table in zip(kinds, tables, strict=True):
                        content = (q if kind == "c2p" else k)[:, parts[0].own]
                        by_distance = content @ table[:, :, parts[0].distances]
                        for part in parts:
                            _pairs(scores, part, kind).add_(part.pairs(by_distance))
                if row.bias is not None:  # its lowest number must stay finite in a lower precision
                    least = max(torch.finfo(each.dtype).min for each in (scores, row.bias))
                    scores += row.bias if scores.dtype == row.bias.dtype else row.bias.clamp(min=least)
                weights = scores.softmax(-1)
                mixed[here] = weights @ value[here]
                kept.append(weights)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(query, key, value, *tables, *kept)
            ctx.rows, ctx.kinds = rows, kinds
        return mixed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of all tensors; those of the tables are summed in float32."""
        (grad,), rows, kinds = grads, ctx.rows, ctx.kinds
        (query, key, value), rest = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        tables, kept = rest[: len(kinds)], rest[len(kinds) :]
        of_query, of_key, of_value = (torch.zeros_like(each) for each in (query, key, value))
        of_tables = [torch.zeros_like(table, dtype=torch.float32) for table in tables]
        longest = (tables[0].shape[-1] + 1) // 2 if tables else 0
        with torch.autocast(query.device.type, enabled=False):
            for index, (row, weights) in enumerate(zip(rows, kept, strict=True)):
                here = index, slice(None), slice(row.tokens)
                q, k, v, g = query[here], key[here].contiguous(), value[here], grad[here]
                of_value[here] = weights.transpose(-1, -2) @ g
                means = (g * (weights @ v)).sum(-1, keepdim=True)  # of the weights' gradients, by the weights
                of_scores = (g @ v.transpose(-1, -2)).sub_(means).mul_(weights)
                of_q, of_k = of_scores @ k, of_scores.transpose(-1, -2) @ q
                for parts in run_pairs(row, longest):
                    own, distances = parts[0].own, parts[0].distances
                    for kind, table, of_table in zip(kinds, tables, of_tables, strict=True):
                        content, of_content = (q, of_q) if kind == "c2p" else (k, of_k)
                        shape = len(q), own.stop - own.start, distances.stop - distances.start
                        of_distance = of_scores.new_zeros(shape)
                        for part in parts:
                            part.pairs(of_distance).add_(_pairs(of_scores, part, kind))
                        of_content[:, own] += of_distance @ table[:, :, distances].transpose(-1, -2)
                        of_table[:, :, distances] += content[:, own].transpose(-1, -2) @ of_distance
                of_query[here], of_key[here] = of_q, of_k
        found = (each.to(table.dtype) for each, table in zip(of_tables, tables, strict=True))
        return of_query, of_key, of_value, None, None, *found


def _pairs(scores: Tensor, part: RunPairs, kind: str) -> Tensor:
    """Those of all scores (heads, n, n) that are of the part's pairs, (heads, own, other): queries come first."""
    if kind == "c2p":
        return scores[:, part.own, part.other]
    return scores[:, part.other, part.own].transpose(-1, -2)
