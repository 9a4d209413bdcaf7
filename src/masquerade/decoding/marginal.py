"""One text from several prompts: the probability of each token is a weighted mean over the prompts, as in RAG-Token.
The prompts of a text differ, its tokens do not; the methods and the loop are those of single prompts."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from masquerade.decoding.canvas import Canvas
from masquerade.decoding.loop import Session
from masquerade.layout import Layout
from masquerade.nn.model import Model
from masquerade.nn.spec import Spec


@dataclass(frozen=True)
class SharedCanvas(Canvas):
    """A canvas on which ``shared`` consecutive rows write the same text. Tokens are given once a text."""

    shared: int = 1

    @staticmethod
    def of(canvas: Canvas, shared: int) -> SharedCanvas:
        """A canvas whose rows are the prompts of the first text, then those of the second …"""
        return SharedCanvas(**{each.name: getattr(canvas, each.name) for each in fields(Canvas)}, shared=shared)

    @property
    def texts(self) -> int:
        return self.first.rows // self.shared

    @property
    def history(self) -> Tensor:
        """What the first prompt of each text holds, as a text continues several."""
        return self.before[:: self.shared]

    def place(self, ids: Tensor, at: int) -> Layout:
        """The layout of new tokens, (texts, m), in every row of their text: (rows, m)"""
        return super().place(ids.repeat_interleave(self.shared, 0), at)

    def prompts(self) -> list[list[int]]:
        return super().prompts()[:: self.shared]

    def room(self, spec: Spec) -> list[int]:
        """The number of tokens that can be written after all prompts of a text."""
        rooms = super().room(spec)
        return [min(rooms[start : start + self.shared]) for start in range(0, len(rooms), self.shared)]


class MarginalSession(Session):
    """A session in which several prompts write one text. ``priors`` (texts, shared) are the log-probabilities of a
    text's prompts; the scores are log Σ p(prompt) · p(token | prompt), one row a text."""

    def __init__(self, model: Model, canvas: SharedCanvas, priors: Tensor, cached: bool = True) -> None:
        self.shared, self.priors = canvas.shared, priors.to(model.device)
        super().__init__(model, canvas, cached)

    def clear(self) -> None:
        super().clear()
        self.weights = self.priors  # (live texts, shared)

    def logits(self, at_queries: Tensor, new: Layout, states: Tensor) -> Tensor:
        """(texts · shared, m, width) → (texts, m, vocab)"""
        each = super().logits(at_queries, new, states).log_softmax(-1)  # (texts · shared, m, vocab)
        logs = each.view(len(each) // self.shared, self.shared, *each.shape[1:])
        return (logs + self.weights[:, :, None, None]).logsumexp(1)

    @torch.inference_mode()
    def select(self, rows: Tensor) -> None:
        """Keep these texts, (m,), in this order; a text may occur several times."""
        self.weights = self.weights[rows]
        super().select((rows[:, None] * self.shared + torch.arange(self.shared, device=rows.device)).flatten())
