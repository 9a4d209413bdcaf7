"""KnowBERT (Peters et al., 2019): knowledge attention and recontextualisation between two layers.

The input ``memory.mentions`` (m, 2) names spans of tokens, ``memory.candidates`` (m, k) the entities that each may
mean, −1 at padding, and ``memory.priors`` (m, k) how often it means them. The output ``memory.candidate_scores`` (m, k)
is for the linking loss.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from masquerade.errors import LayoutError
from masquerade.layout import Layout, additive, visible
from masquerade.memory.entity.spans import Spans
from masquerade.memory.entity.table import EntityTable
from masquerade.nn.attention import Attention
from masquerade.nn.between import Between, Flow, register
from masquerade.nn.feedforward import FeedForward
from masquerade.nn.norms import norm
from masquerade.nn.relations import View
from masquerade.nn.spec import Spec
from masquerade.nn.stack import Layer

UNSCORED = -10000.0  # the score of a candidate that is padding
PRIOR = 2.0  # the weight of the prior in a score, beside the product, as a linker begins
EPSILON = 1e-5  # of the norms outside of the two Transformer blocks


class WordsToSpans(nn.Module):
    """A Transformer block in which each token attends to the spans of its text."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.attention = Attention(spec, cross=True)
        self.attention_norm = norm(spec)
        self.feedforward = FeedForward(spec)
        self.feedforward_norm = norm(spec)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, tokens: Tensor, spans: Tensor, view: View) -> Tensor:
        """Tokens (rows, n, width) and spans (rows, c, width) → (rows, n, width)"""
        change = self.attention.attend(tokens, view, self.attention.key_values(spans))
        tokens = self.attention_norm(tokens + self.dropout(change))
        out: Tensor = self.feedforward_norm(tokens + self.dropout(self.feedforward(tokens)))
        return out


class KnowledgeAttention(Between):
    """Links mentions to entities and adds what the entities know to every token of the text.

    ``width`` is that of the entity vectors. With a ``threshold`` candidates below it drop out, and a mention without
    any gets the vector ``null``: the way of the margin loss. Without one, all candidates count: the way of the softmax
    loss.
    """

    def __init__(
        self,
        spec: Spec,
        layer: int,
        width: int,
        heads: int = 4,
        feedforward: int = 1024,
        hidden: int = 100,
        threshold: float | None = None,
        trained: int = 0,
        memory: str = "memory",
    ) -> None:
        super().__init__()
        inside = Spec(
            width=width, heads=heads, feedforward=feedforward, positions=(), layers=1, longest=1,
            dropout=spec.dropout, attention_dropout=spec.attention_dropout, init_std=spec.init_std,
        )  # fmt: skip
        self.memory, self.threshold = memory, threshold
        self.down = nn.Linear(spec.width, width)
        self.pool = nn.Linear(width, 1)
        self.span_norm = nn.LayerNorm(width, eps=EPSILON)
        self.span_block = Layer(inside)
        self.entities = EntityTable(width, trained)
        self.entity_norm = nn.LayerNorm(width, eps=EPSILON)
        self.score = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.null = nn.Parameter(torch.zeros(width)) if threshold is not None else None
        self.mix_norm = nn.LayerNorm(width, eps=EPSILON)
        self.word_block = WordsToSpans(inside)
        self.up = nn.Linear(width, spec.width)
        self.out_norm = nn.LayerNorm(spec.width, eps=EPSILON)
        self.dropout = nn.Dropout(spec.dropout)

    @torch.no_grad()
    def begin(self) -> None:
        """Begin with spans where vectors of the same encoder are, or else with ``down`` as a rotation: the inverse of a
        random map is huge in some directions, and drowns the states. The score of a candidate begins as the product and
        PRIOR times the prior: from small random weights, a linker learns the prior alone first."""
        if self.down.in_features == self.down.out_features:
            nn.init.eye_(self.down.weight)
        else:
            nn.init.orthogonal_(self.down.weight)
        first, last = (layer.weight for layer in self.score if isinstance(layer, nn.Linear))
        first[:3] = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
        last[0, :3] = torch.tensor([1.0, -1.0, PRIOR])
        self.invert()

    @torch.no_grad()
    def begin_at(self, centre: Tensor) -> None:
        """Take the mean of the states that entity vectors were made of, (width,), away on the way down."""
        if centre.shape == self.down.bias.shape:
            self.down.bias.copy_(-centre)
            self.invert()

    @torch.no_grad()
    def invert(self) -> None:
        """Set ``up`` to the inverse of ``down``, as far as there is one: P = pinv(W), y → P (y − b)."""
        inverse = torch.linalg.pinv(self.down.weight.double())
        self.up.weight.copy_(inverse)
        self.up.bias.copy_(-(inverse @ self.down.bias.double()))

    def forward(self, flow: Flow) -> Flow:
        """States (rows, n, width) → the same shape"""
        if flow.cached:
            raise LayoutError("KnowBERT attends to all mentions of a text, so it takes no cache; read the text whole.")
        states, inputs = flow.states, flow.inputs
        mentions = inputs.get(f"{self.memory}.mentions", torch.zeros(0, 2, dtype=torch.long))
        spans = Spans.of(mentions, flow.layout)
        down = self.down(states)  # (rows, n, e)
        contextual, seen, view = self._contextual(down, spans, flow.layout)
        candidates = inputs.get(f"{self.memory}.candidates", torch.full((len(spans), 1), -1)).to(states.device)
        priors = inputs.get(f"{self.memory}.priors", torch.zeros(candidates.shape)).to(states)
        scores, vectors = self._scores(contextual, candidates, priors)
        flow.outputs[f"{self.memory}.candidate_scores"] = scores
        mixed = self.mix_norm(contextual + self._entity(scores, vectors, candidates >= 0))  # (m, e)
        words = self.word_block(down, mixed[seen], view) if len(spans) else self._alone(down)
        return replace(flow, states=self.out_norm(states + self.dropout(self.up(words))))

    def _contextual(self, down: Tensor, spans: Spans, layout: Layout) -> tuple[Tensor, Tensor, View]:
        """Span vectors (m, e) that know the other spans of their text; the numbers of each row's spans (rows, c); and
        which tokens attend to which of these."""
        index, there = spans.tokens(spans.longest)
        tokens = down.flatten(0, 1)[index]  # (m, longest, e)
        weights = self.pool(tokens).squeeze(-1).masked_fill(~there, float("-inf")).softmax(-1)  # (m, longest)
        pooled = self.span_norm((weights.unsqueeze(-1) * tokens).sum(1))  # (m, e)
        numbers, present = spans.by_row(layout)
        if not len(spans):
            return pooled, numbers, View(None)
        ends = [layout.take(each[numbers]) for each in (spans.first, spans.last)]  # (rows, c)
        words = visible(layout, ends[0]) & visible(layout, ends[1]) & present[:, None]  # (rows, n, c)
        others = visible(ends[1], ends[0]) & visible(ends[1], ends[1]) & present[:, None]  # (rows, c, c)
        block, _ = self.span_block(pooled[numbers], _view(others, down), None, None, None)
        contextual = torch.zeros_like(pooled).index_put((numbers[present],), block[present])
        return contextual, numbers, _view(words, down)

    def _scores(self, contextual: Tensor, candidates: Tensor, priors: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of the candidates (m, k) and their normed vectors (m, k, e), from span vectors (m, e)."""
        table = self.entities()
        if len(table) and candidates.numel() and int(candidates.max()) >= len(table):
            raise LayoutError(
                f"A mention has the candidate {int(candidates.max())}, but the memory has {len(table)} entities; give "
                "candidates of the knowledge base that is attached."
            )
        if not len(table):
            vectors = contextual.new_zeros(*candidates.shape, contextual.shape[-1])
        else:
            vectors = self.entity_norm(table[candidates.clamp(min=0)])
        product = (contextual.unsqueeze(1) * vectors).sum(-1) / math.sqrt(vectors.shape[-1])  # (m, k)
        scores = self.score(torch.stack([product, priors], dim=-1)).squeeze(-1)
        return scores.masked_fill(candidates < 0, UNSCORED), vectors

    def _entity(self, scores: Tensor, vectors: Tensor, there: Tensor) -> Tensor:
        """The weighted entity of each mention (m, e), from scores (m, k), vectors (m, k, e) and which candidates are
        no padding (m, k). Without any candidate it is ``null``, or zero where there is no threshold."""
        kept = there if self.threshold is None else there & (scores >= self.threshold)
        none = ~kept.any(-1, keepdim=True)  # (m, 1)
        weights = scores.masked_fill(~(kept | none), float("-inf")).softmax(-1)
        entity = (weights.unsqueeze(-1) * vectors).sum(1)
        return torch.where(none, torch.zeros_like(entity) if self.null is None else self.null, entity)

    def _alone(self, down: Tensor) -> Tensor:
        """The word block of texts without any mention: tokens attend to nothing. (rows, n, e) → (rows, n, e)"""
        empty = down.new_zeros(len(down), 1, down.shape[-1])
        hidden = torch.zeros(*down.shape[:2], 1, dtype=torch.bool, device=down.device)
        return self.word_block(down, empty, _view(hidden, down))  # type: ignore[no-any-return]


def _view(seen: Tensor, like: Tensor) -> View:
    """The attention mask of which query sees which key, (rows, q, k)."""
    return View(additive(seen, like.dtype), ~seen.any(-1)[:, None, :, None])


register("knowbert", KnowledgeAttention)
