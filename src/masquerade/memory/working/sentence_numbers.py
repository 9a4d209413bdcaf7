"""Embeddings of sentence numbers, an option of system 1 of CogQA: a part before the first layer."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from masquerade.nn.between import Between, Flow, register
from masquerade.nn.spec import Spec

KIND = "sentences"  # the name of the part in a Spec
INPUT = "sentence"  # the extra input (rows, n): 0 before the paragraph, then 1, 2, … by sentence
MOST = 24  # sentences that are told apart; later ones share the last number


class SentenceNumbers(Between):
    """Adds a vector for the sentence that a token stands in. The vectors are 0 at first, so that a pretrained encoder
    begins as it is."""

    def __init__(self, spec: Spec, layer: int, most: int = MOST) -> None:
        super().__init__()
        self.table = nn.Embedding(most + 1, spec.width)

    def forward(self, flow: Flow) -> Flow:
        """States (rows, n, width) → same shape; unchanged without the input."""
        if INPUT not in flow.inputs:
            return flow
        numbers = flow.inputs[INPUT].clamp(0, self.table.num_embeddings - 1)
        return replace(flow, states=flow.states + self.table(numbers))


register(KIND, SentenceNumbers)
