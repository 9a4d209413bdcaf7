"""Heads: hidden states to scores, (…, width) → (…, scores). Callers choose the tokens, so that no other is scored."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.nn.activations import ACTIVATIONS
from masquerade.nn.norms import norm
from masquerade.nn.spec import Spec

TokenLogits = Callable[[Tensor, Tensor | None], Tensor]  # vectors and biases → logits of all tokens

SENTENCE = ("classify", "pair")  # heads of the first token of a document


class Dense(nn.Module):
    """A dense layer and its activation, such as BERT's pooler of the first token."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.dense = nn.Linear(spec.width, spec.width)
        self.activation = ACTIVATIONS[spec.classifier_activation]

    def forward(self, x: Tensor) -> Tensor:
        """(…, width) → (…, width)"""
        return self.activation(self.dense(x))


class Language(nn.Module):
    """Logits of all tokens by the token table, or by a table of its own; after a dense layer in BERT's relatives,
    without one in GPT's."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.dense = nn.Linear(spec.width, spec.sum_width) if spec.lm_dense else None
        self.norm = norm(spec, spec.sum_width) if spec.lm_dense else None
        self.activation = ACTIVATIONS[spec.lm_activation]
        self.scale = 1 / math.sqrt(spec.width) if spec.lm_scale else None
        self.decoder = None if spec.tied else nn.Linear(spec.sum_width, spec.vocab, bias=False)
        self.bias = nn.Parameter(torch.zeros(spec.vocab)) if spec.lm_bias else None

    def forward(self, x: Tensor, token_logits: TokenLogits) -> Tensor:
        """(…, width) → (…, vocab)"""
        if self.dense is not None and self.norm is not None:
            x = self.norm(self.activation(self.dense(x)))
        if self.scale is not None:
            x = x * self.scale
        return token_logits(x, self.bias) if self.decoder is None else F.linear(x, self.decoder.weight, self.bias)


class Adaptive(nn.Module):
    """Transformer-XL's adaptive softmax: one softmax over frequent tokens and clusters of rare ones, and one inside of
    each cluster."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.clusters = nn.Linear(spec.width, len(spec.cutoffs))
        self.bias = nn.Parameter(torch.zeros(spec.vocab))
        self.sizes = [end - start for start, end in zip((0, *spec.cutoffs), (*spec.cutoffs, spec.vocab), strict=True)]

    def forward(self, x: Tensor, token_logits: TokenLogits) -> Tensor:
        """(…, width) → log-probabilities (…, vocab)"""
        frequent, *rare = torch.split(token_logits(x, self.bias), self.sizes, dim=-1)
        top = torch.cat([frequent, self.clusters(x)], dim=-1).log_softmax(-1)
        parts = [top[..., : self.sizes[0]]]
        for index, scores in enumerate(rare):
            parts.append(top[..., self.sizes[0] + index].unsqueeze(-1) + scores.log_softmax(-1))
        return torch.cat(parts, dim=-1)


class Boundary(nn.Module):
    """SpanBERT's boundary head: logits of a token inside a span, from the states of the two tokens around the span and
    its index in it."""

    PLACES, PLACE_WIDTH = 20, 200

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.place = nn.Embedding(self.PLACES, self.PLACE_WIDTH)
        self.first = nn.Linear(2 * spec.width + self.PLACE_WIDTH, spec.width)
        self.first_norm = norm(spec)
        self.second = nn.Linear(spec.width, spec.sum_width)
        self.second_norm = norm(spec, spec.sum_width)
        self.bias = nn.Parameter(torch.zeros(spec.vocab))
        self.activation = ACTIVATIONS[spec.lm_activation]

    def forward(self, left: Tensor, right: Tensor, place: Tensor, token_logits: TokenLogits) -> Tensor:
        """States left and right of the span (m, width), indices in the span (m,) → (m, vocab)"""
        x = torch.cat([left, right, self.place(place)], dim=-1)
        x = self.first_norm(self.activation(self.first(x)))
        x = self.second_norm(self.activation(self.second(x)))
        return token_logits(x, self.bias)


class Copy(nn.Module):
    """Scores of the passage's tokens to be copied into the slots of an answer: scaled products of queries and keys."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.query = nn.Linear(spec.width, spec.width)
        self.key = nn.Linear(spec.width, spec.width)
        self.scale = 1 / math.sqrt(spec.width)

    def forward(self, slots: Tensor, tokens: Tensor) -> Tensor:
        """States of slots (rows, m, width) and of tokens (rows, n, width) → (rows, m, n)"""
        out: Tensor = self.query(slots) @ self.key(tokens).transpose(-1, -2) * self.scale
        return out


class SpanMlp(nn.Module):
    """REALM's score of a span: a multilayer perceptron over the states of its first and its last token."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.first = nn.Linear(spec.width, spec.width)  # both together are one layer over the two states side by side
        self.last = nn.Linear(spec.width, spec.width, bias=False)
        self.norm = norm(spec)
        self.out = nn.Linear(spec.width, 1)

    def forward(self, first: Tensor, last: Tensor) -> Tensor:
        """States of the first and of the last tokens of m spans, each (m, width) → (m,)"""
        out: Tensor = self.out(self.norm(F.relu(self.first(first) + self.last(last))))
        return out[..., 0]


class Activation(nn.Module):
    """An activation as a module."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = ACTIVATIONS[name]

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def _detector(spec: Spec) -> nn.Module:
    """ELECTRA's discriminator: the score of a token to be a replaced one."""
    return nn.Sequential(nn.Linear(spec.width, spec.width), Activation(spec.activation), nn.Linear(spec.width, 1))


def _classifier(spec: Spec) -> nn.Module:
    """A score for each label, from the pooled first token or through a dense layer of its own."""
    out = nn.Linear(spec.width, len(spec.labels))
    return out if spec.pooled else nn.Sequential(Dense(spec), nn.Dropout(spec.dropout), out)


MAKERS: dict[str, Callable[[Spec], nn.Module]] = {
    "lm": lambda spec: Adaptive(spec) if spec.cutoffs else Language(spec),
    "boundary": Boundary,
    "detect": _detector,
    "tag": lambda spec: nn.Linear(spec.width, len(spec.labels)),
    "span": lambda spec: nn.Linear(spec.width, 2),
    "spans": SpanMlp,
    "copy": Copy,
    "classify": _classifier,
    "pair": lambda spec: nn.Linear(spec.width, 2),
}
