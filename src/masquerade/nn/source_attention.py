"""The attention of a recurrent decoder to its source: scaled products, or a network of one hidden layer."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from masquerade.nn.attention import Attention, KeyValues
from masquerade.nn.relations import View
from masquerade.nn.spec import Spec


class AdditiveAttention(nn.Module):
    """Additive attention (Bahdanau et al., 2015): the score of a source token is v · tanh(W query + U source)."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.query = nn.Linear(spec.width, spec.width)
        self.key = nn.Linear(spec.width, spec.width, bias=False)
        self.score = nn.Linear(spec.width, 1, bias=False)

    def key_values(self, states: Tensor) -> KeyValues:
        """Keys and values of a source: (rows, k, width) → two of (rows, 1, k, width)"""
        return KeyValues((self.key(states).unsqueeze(1), states.unsqueeze(1)))

    def attend(self, x: Tensor, view: View, pair: KeyValues) -> Tensor:
        """Weighted means of the values for queries x (rows, q, width) → (rows, q, width). If keys have fewer rows than
        x, each of their rows serves equally many consecutive rows of x."""
        key, value = (part[:, 0].repeat_interleave(len(x) // max(len(part), 1), 0) for part in pair)
        scores = self.score(torch.tanh(self.query(x).unsqueeze(2) + key.unsqueeze(1)))[..., 0]  # (rows, q, k)
        if view.bias is not None:
            scores = scores + view.bias[:, 0]
        mixed: Tensor = scores.softmax(-1) @ value
        return mixed if view.blind is None else mixed.masked_fill(view.blind[:, 0], 0.0)


def source_attention(spec: Spec) -> Attention | AdditiveAttention:
    """The attention that a decoder's spec names in ``source_scores``; products have one head."""
    if spec.source_scores == "additive":
        return AdditiveAttention(spec)
    return Attention(replace(spec, heads=1, head_size=None, attention_dropout=0.0), cross=True)
