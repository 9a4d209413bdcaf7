"""Scores of the blocks of a passage: which of them may hold the answer to a question."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from masquerade.errors import SpecError
from masquerade.nn.spec import Spec

SIZE = 128  # numbers of a projected state


class BlockScorer(nn.Module):
    """Scores every block of a passage against a question, from the states of one layer.

    A token's score is the inner product of its projected state with that of the row's first token ([CLS], which
    stands for the question); a block's is the log of the sum of its tokens' exponentials. No answer has the score 0,
    so scores are log-odds, and blocks of several windows can be compared.
    """

    def __init__(self, spec: Spec, block: int) -> None:
        super().__init__()
        if block < 1:
            raise SpecError(f"A block of {block} tokens is impossible; give 1 or more, or 0 for no blocks.")
        self.block = block
        self.question, self.token = nn.Linear(spec.width, SIZE), nn.Linear(spec.width, SIZE)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, states: Tensor, number: Tensor) -> Tensor:
        """States (rows, n, width), and the number of each token's block, −1 for tokens outside of the passage,
        (rows, n) → scores (rows, blocks), −inf for blocks that a row does not have."""
        return self.score(self.token(states), self.question(states[:, 0]), number)

    def score(self, tokens: Tensor, question: Tensor, number: Tensor) -> Tensor:
        """The same from projected tokens (rows, n, SIZE) and a projected question (rows, SIZE)."""
        scores = (tokens @ question[..., None])[..., 0].float() / SIZE**0.5 + self.bias
        inside = number >= 0
        most = scores.detach().masked_fill(~inside, -torch.inf).amax(1, keepdim=True).clamp(min=-1e4)
        weights, place = (scores - most).exp() * inside, number.clamp(min=0)
        total = weights.new_zeros(len(scores), max(int(number.max()) + 1, 1)).scatter_add(1, place, weights)
        held = torch.zeros_like(total).scatter_add(1, place, inside.to(total.dtype)) > 0
        return torch.where(held, total.clamp(min=1e-30).log() + most, -torch.inf)


def block_numbers(position: Tensor, passage: Tensor, block: int) -> Tensor:
    """The number of each token's block, counted from the passage's first position; −1 outside of the passage. Positions
    and bool (rows, n) → (rows, n)"""
    first = position.masked_fill(~passage, torch.iinfo(position.dtype).max).amin(1, keepdim=True)
    return torch.where(passage, (position - first) // block, -1)
