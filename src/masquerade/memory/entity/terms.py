"""Terms of the loss of a network with a memory: linking, mention detection, answers and facts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from masquerade.data.examples import Example
from masquerade.data.packing import Batch
from masquerade.layout import IGNORE
from masquerade.memory.entity.losses import link_loss, margin_loss, softmax_loss
from masquerade.memory.entity.spans import Spans, to_tags
from masquerade.nn.model import Model
from masquerade.objectives.loss import StatesAt, Term


class MemoryTerm(Term):
    """A term over the outputs of a part between the layers; it reads no states."""

    labels: str  # the extra field of its labels

    def count(self, example: Example) -> int:
        return int((example.extra[self.labels].tensor != IGNORE).sum()) if self.labels in example.extra else 0

    def tokens(self, batch: Batch) -> Tensor | None:
        """No tokens, or None if nothing is labelled."""
        labelled = self.labels in batch.extra and bool((batch.extra[self.labels] != IGNORE).any())
        return torch.zeros(batch.layout.shape, dtype=torch.bool, device=batch.layout.ids.device) if labelled else None

    def sum(self, model: Model, states: StatesAt, batch: Batch) -> Tensor:
        return self.of(states.outputs, batch)

    @abstractmethod
    def of(self, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """The summed loss: ()"""


@dataclass(frozen=True)
class CandidateTerm(MemoryTerm):
    """KnowBERT's linking loss over candidates: by softmax, or with a margin."""

    margin: float | None = None
    labels: str = "memory.gold_candidate"

    def count(self, example: Example) -> int:
        if self.margin is None or self.labels not in example.extra:
            return super().count(example)
        known = example.extra[self.labels].tensor != IGNORE
        return int(((example.extra["memory.candidates"].tensor >= 0) & known[:, None]).sum())

    def of(self, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
        scores, gold = outputs["memory.candidate_scores"].float(), batch.extra[self.labels]
        if self.margin is None:
            return softmax_loss(scores, gold)
        return margin_loss(scores, gold, batch.extra["memory.candidates"] >= 0, self.margin)


@dataclass(frozen=True)
class ScoresTerm(MemoryTerm):
    """The cross-entropy of an output (m, classes) with labels (m,): entities of mentions, answers, facts."""

    output: str
    labels: str

    def of(self, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
        return link_loss(outputs[self.output], batch.extra[self.labels])


@dataclass(frozen=True)
class DetectionTerm(MemoryTerm):
    """Mention detection: the class of every token, BEGIN, INSIDE or OUTSIDE."""

    labels: str = "memory.mentions"

    def count(self, example: Example) -> int:
        return len(example.layout)

    def tokens(self, batch: Batch) -> Tensor | None:
        return torch.zeros(batch.layout.shape, dtype=torch.bool, device=batch.layout.ids.device)

    def of(self, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
        tags = to_tags(Spans.of(batch.extra[self.labels], batch.layout), batch.layout)
        real = batch.layout.real
        return F.cross_entropy(outputs["memory.tags"][real].float(), tags[real], reduction="sum")
