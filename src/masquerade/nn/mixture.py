"""A decoder with two halves over one source: an autoregressive GRU, and a non-autoregressive LSTM. The probability of a
token is p = (1 − γ) · p_AR + γ · p_NAR."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.errors import LayoutError, MasqueradeError
from masquerade.layout import Layout
from masquerade.nn.attention import KeyValues
from masquerade.nn.between import Flow
from masquerade.nn.cache import Cache
from masquerade.nn.cells import run_cells, states_before, states_kept, token_states, zero_states
from masquerade.nn.documents import check_causal, check_one_document, documents, last_real
from masquerade.nn.heads import Language, TokenLogits
from masquerade.nn.spec import Spec
from masquerade.nn.stack import Encoded

CERTAIN = 1e4  # the logit of a γ of 1; its negative is that of 0


class MixtureStack(nn.Module):
    """The two halves. Steps are the tokens of a target, counted from 0; a target has at most ``longest``.

    1. Allocation: a softmax over the steps spreads each source token over them. Step t gets the sum of the tokens'
       features with these weights, times steps / tokens; where few tokens go, it is small.
    2. Pair attention: queries of the allocated features f_t over the source: z̃_t = softmax(Q Kᵀ / √d) V, and
       z_t = W f_t + U z̃_t.
    3. The autoregressive half: a GRU over [token before; z_t]. Its state beside f_t gives the first vector.
    4. The other half: an LSTM in both directions over [f_{t−1}; f_{t+1}; z_t], which sees no token of the target. It
       gives the second vector.

    The states of a token are both vectors and the logit of γ: 2 · width + 1 numbers, which MixtureHead reads.
    """

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        width, dropout = spec.width, spec.dropout if spec.layers > 1 else 0.0
        self.steps = nn.Embedding(spec.longest, width)  # the query of each step
        self.allocate = nn.Linear(width, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.from_feature = nn.Linear(width, width)
        self.from_pairs = nn.Linear(width, width, bias=False)
        self.gru = nn.GRU(2 * width, width, spec.layers, batch_first=True, dropout=dropout)
        self.lstm = nn.LSTM(3 * width, width // 2, spec.layers, batch_first=True, dropout=dropout, bidirectional=True)
        self.combine = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(spec.dropout)
        self.logit = nn.Parameter(torch.zeros(()))  # the logit of γ
        self.override: float | None = None  # the logit of another γ, for a while
        self.recompute = False  # trainers set it; it does nothing here

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        cache: Cache | None = None,
        source: Encoded | None = None,
        at: Tensor | None = None,
        inputs: Mapping[str, Tensor] | None = None,
    ) -> Flow:
        """The states behind every token, (rows, n, 2 · width + 1), for x (rows, n, width) of a causal layout (rows, n)
        and its source; with ``at``, bool (rows, n), those of the m tokens there, (m, 2 · width + 1)."""
        if source is None:
            raise LayoutError("The mixture is a decoder; give it a source.")
        if cache is None:
            states, keys = self._states(x, layout, source), layout
        else:
            states, keys = self._cached(x, layout, cache, source)
        states = states * layout.real.unsqueeze(-1)
        return Flow(states if at is None else states[at], layout, keys, inputs or {}, cached=cache is not None)

    def _states(self, x: Tensor, layout: Layout, source: Encoded) -> Tensor:
        """(rows, n, width) → (rows, n, 2 · width + 1)"""
        if not bool(layout.real.any()):
            return x.new_zeros(*layout.shape, 2 * x.shape[-1] + 1)
        found, own = documents(layout), documents(source.layout)
        check_causal(layout, found)
        place = own.places(found.name)
        features, pairs, parallel = self.features(own.gather(source.states)[place], own.there[place])
        step = found.gather(layout.position.unsqueeze(-1))
        given = torch.cat([found.gather(x), at_steps(pairs, step)], -1)
        behind = run_cells(self.gru, given, zero_states(self.gru, given))
        joined = self._joined(at_steps(features, step), behind, at_steps(parallel, step))
        return found.scatter(joined, layout.shape)

    def _cached(self, x: Tensor, layout: Layout, cache: Cache, source: Encoded) -> tuple[Tensor, Layout]:
        """The states of tokens after those of a cache, which then has these too; and the layout of all tokens."""
        keys, old = cache.extended(layout), len(cache)
        check_one_document(keys)
        kept = cache.source
        if not kept:
            features, pairs, parallel = (part.unsqueeze(1) for part in self.features(source.states, source.layout.real))
            kept = [KeyValues((features, pairs)), KeyValues((parallel, parallel))]
        together, step = len(x) // max(len(kept[0][0]), 1), layout.position.unsqueeze(-1)
        features, pairs, parallel = (
            at_steps(part[:, 0].repeat_interleave(together, 0), step) for part in (*kept[0], kept[1][0])
        )
        given = torch.cat([x, pairs], -1)
        layers = cache.layers if old else []
        before = states_before(layers, last_real(keys[:old]), zero_states(self.gru, given))
        found = token_states(self.gru, given, before)
        cache.keep(keys, states_kept(layers, found), kept)
        return self._joined(features, found[-1][0], parallel), keys

    def features(self, source: Tensor, there: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The allocated features, the pair attention and the parallel half of every step, each (documents, steps,
        width), for the states of sources (documents, s, width) and which of them are tokens, bool (documents, s)."""
        scale, steps = 1 / math.sqrt(source.shape[-1]), self.steps.weight
        weights = self.allocation(source, there)
        count = there.sum(-1).clamp(min=1).view(-1, 1, 1)
        features = weights.transpose(1, 2) @ source * (len(steps) / count)
        scores = self.query(features) @ self.key(source).transpose(1, 2) * scale
        scores = scores.masked_fill(~there.unsqueeze(1), -torch.inf)
        pairs = self.from_feature(features) + self.from_pairs(scores.softmax(-1) @ self.value(source))
        left, right = F.pad(features, (0, 0, 1, 0))[:, :-1], F.pad(features, (0, 0, 0, 1))[:, 1:]
        parallel: Tensor = self.lstm(self.dropout(torch.cat([left, right, pairs], -1)))[0]
        return features, pairs, parallel

    def allocation(self, source: Tensor, there: Tensor) -> Tensor:
        """The time-step allocation matrix: how each token of a source is spread over the steps, (documents, s, steps);
        every token's weights sum to 1, those of padding are 0."""
        scores = self.allocate(source) @ self.steps.weight.T / math.sqrt(source.shape[-1])
        weights: Tensor = scores.softmax(-1) * there.unsqueeze(-1)
        return weights

    def _joined(self, features: Tensor, behind: Tensor, parallel: Tensor) -> Tensor:
        """Both vectors and the logit of γ: three of (rows, n, width) → (rows, n, 2 · width + 1)"""
        first = self.dropout(torch.tanh(self.combine(torch.cat([features, behind], -1))))
        logit = self.logit if self.override is None else self.logit.new_tensor(self.override)
        return torch.cat([first, self.dropout(parallel), logit.expand(*first.shape[:-1], 1)], -1)

    def key_values(self, states: Tensor) -> list[KeyValues]:
        """An error: recurrent layers have no keys and values."""
        raise LayoutError("A recurrent model has no attention between its tokens, so it takes no memory of keys.")


class MixtureHead(Language):
    """The log-probabilities of the mixture, by one language head for both halves."""

    def forward(self, x: Tensor, token_logits: TokenLogits) -> Tensor:
        """States of a MixtureStack (…, 2 · width + 1) → log-probabilities (…, vocab)"""
        one, other = self.halves(x, token_logits)
        logit = x[..., -1:].float()
        return torch.logaddexp(one + F.logsigmoid(-logit), other + F.logsigmoid(logit))

    def halves(self, x: Tensor, token_logits: TokenLogits) -> tuple[Tensor, Tensor]:
        """The log-probabilities of the autoregressive half and of the other, each (…, vocab)."""
        width = x.shape[-1] // 2
        one, other = (
            super(MixtureHead, self).forward(part, token_logits) for part in (x[..., :width], x[..., width:-1])
        )
        return one.float().log_softmax(-1), other.float().log_softmax(-1)


def at_steps(parts: Tensor, step: Tensor) -> Tensor:
    """The vectors of steps: (documents, steps, width), indices (documents, n, 1) → (documents, n, width)"""
    return parts.gather(1, step.expand(-1, -1, parts.shape[-1]))


def gamma_logit(gamma: float) -> float:
    """The logit of a weight γ from 0 to 1."""
    if not 0 <= gamma <= 1:
        raise MasqueradeError(f"A mixture has no share γ = {gamma}; give a number from 0 to 1.")
    return CERTAIN * (2 * gamma - 1) if gamma in (0, 1) else math.log(gamma / (1 - gamma))


@contextmanager
def mixed_by(stack: MixtureStack, gamma: float | None) -> Iterator[None]:
    """The mixture with another γ, for a while; None: with its own."""
    before, stack.override = stack.override, None if gamma is None else gamma_logit(gamma)
    try:
        yield
    finally:
        stack.override = before
