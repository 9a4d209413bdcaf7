"""The loss of a batch: sums over its predictions, term by term, so that batches of any size add up exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.data.examples import Example
from masquerade.data.packing import Batch
from masquerade.layout import IGNORE
from masquerade.nn.between import Flow
from masquerade.nn.model import Model

SCORES = 2**21  # of a vocabulary that are computed at once


class Loss(nn.Module, ABC):
    """A model and its loss in one module, because data-parallel training wraps one forward call. The sum of a term is
    divided by the number of its predictions and multiplied by its weight."""

    weights: Mapping[str, float] = {}  # of terms whose weight is not 1

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    @property
    def networks(self) -> dict[str, Model]:
        """The networks that are trained and saved: the model under "", helpers by their names."""
        return {"": self.model}

    @abstractmethod
    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        """The number of predictions of each term in some rows."""

    @abstractmethod
    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The summed loss of each term that the batch has predictions of."""

    def total(self, sums: Mapping[str, Tensor], counts: Mapping[str, int]) -> Tensor:
        """The terms' sums as one loss: ()"""
        shares = [value * (self.weights.get(name, 1.0) / max(counts[name], 1)) for name, value in sums.items()]
        return torch.stack(shares).sum()


class StatesAt:
    """The hidden states of some tokens of a batch, found by the tokens' indices; and the extra outputs of the network,
    by name."""

    def __init__(self, states: Tensor, at: Tensor, outputs: Mapping[str, Tensor]) -> None:
        self.states, self.outputs = states, outputs  # (m, width)
        self.row = at.flatten().cumsum(0) - 1  # (rows · n,): the row of ``states`` that a token has

    def __getitem__(self, tokens: Tensor) -> Tensor:
        """The states of tokens, given by flat indices (k,) or as bool (rows, n): (k, width)"""
        return self.states[self.row[tokens.flatten() if tokens.dtype == torch.bool else tokens]]


class Term(ABC):
    """One term of a loss that reads the last hidden states."""

    @abstractmethod
    def count(self, example: Example) -> int:
        """The number of predictions in an example: what the summed loss is divided by."""

    @abstractmethod
    def tokens(self, batch: Batch) -> Tensor | None:
        """The tokens whose states the term reads, bool (rows, n); None if the batch has no such prediction."""

    @abstractmethod
    def sum(self, model: Model, states: StatesAt, batch: Batch) -> Tensor:
        """The summed loss: ()"""


@dataclass(frozen=True)
class TokenTerm(Term):
    """Cross-entropy of the labelled tokens, by a head with one score a class."""

    head: str = "lm"

    def count(self, example: Example) -> int:
        return int((example.layout.label != IGNORE).sum())

    def tokens(self, batch: Batch) -> Tensor | None:
        return batch.layout.label != IGNORE

    def sum(self, model: Model, states: StatesAt, batch: Batch) -> Tensor:
        return self.losses(model, states, batch).sum()

    def losses(self, model: Model, states: StatesAt, batch: Batch) -> Tensor:
        """The loss of each labelled token, in reading order: (m,)"""
        labelled = batch.layout.label != IGNORE
        return label_losses(model, self.head, states[labelled], batch.layout.label[labelled])


def label_losses(model: Model, head: str, states: Tensor, label: Tensor) -> Tensor:
    """The cross-entropy of labels by a head, for hidden states (m, width) and labels (m,): (m,). Scores of a vocabulary
    are computed in parts that stay in the processor's cache, and whose memory is used again."""
    size = max(1, SCORES // model.spec.vocab)
    parts = zip(torch.split(states, size), torch.split(label, size), strict=True)
    return torch.cat(
        [F.cross_entropy(model.head(head, some).float(), wanted, reduction="none") for some, wanted in parts]
    )


@dataclass(frozen=True)
class SentenceTerm(Term):
    """The loss of a label for a whole text: the extra field ``sentence_label``, read from the hidden state of the
    token ``sentence_token``. Classes cost cross-entropy; a head with a single score costs its squared error."""

    head: str

    def count(self, example: Example) -> int:
        return example.count("sentence_label")

    def tokens(self, batch: Batch) -> Tensor | None:
        return at_indices(batch, "sentence_token")

    def sum(self, model: Model, states: StatesAt, batch: Batch) -> Tensor:
        label = batch.extra["sentence_label"]
        scores = model.head(self.head, states[batch.extra["sentence_token"]]).float()
        if scores.shape[-1] == 1:
            return F.mse_loss(scores.squeeze(-1), label.float(), reduction="sum")
        return F.cross_entropy(scores, label, reduction="sum")


class LabelSetTerm(SentenceTerm):
    """The loss of texts that may have several labels: binary cross-entropy of each label, whose 0 or 1 are the entries
    of ``sentence_label``, averaged over the labels."""

    def sum(self, model: Model, states: StatesAt, batch: Batch) -> Tensor:
        label = batch.extra["sentence_label"]
        scores = model.head(self.head, states[batch.extra["sentence_token"]]).float()
        return F.binary_cross_entropy_with_logits(scores, label.float(), reduction="sum") / scores.shape[-1]


def at_indices(batch: Batch, *names: str) -> Tensor | None:
    """The tokens that the extra fields name, as bool (rows, n); None if the batch has none of the fields."""
    found = [batch.extra[name] for name in names if name in batch.extra]
    if not found:
        return None
    at = torch.zeros(batch.layout.shape, dtype=torch.bool, device=batch.layout.ids.device)
    at.view(-1)[torch.cat(found)] = True
    return at


class TermLoss(Loss):
    """A loss whose terms share one forward pass. States are computed only for the tokens that some term reads. A batch
    without sources trains the encoder of an encoder–decoder alone."""

    def __init__(self, model: Model, terms: Mapping[str, Term], weights: Mapping[str, float] | None = None) -> None:
        super().__init__(model)
        self.terms, self.weights = dict(terms), dict(weights or {})

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        return {name: sum(term.count(example) for row in rows for example in row) for name, term in self.terms.items()}

    def flow(self, batch: Batch, at: Tensor) -> Flow:
        """The network's pass over a batch, with the states (m, width) of the m tokens ``at``, bool (rows, n)."""
        return self.model.flow(batch.layout, source=batch.source, at=at, inputs=batch.extra)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        model, needed = self.model, {name: term.tokens(batch) for name, term in self.terms.items()}
        at = reduce(torch.logical_or, [tokens for tokens in needed.values() if tokens is not None])
        if model.decoder is not None and batch.source is None:
            encoded = model.encode(batch.layout, batch.extra)
            found = StatesAt(encoded.states[at], at, encoded.outputs)
        else:
            flow = self.flow(batch, at)
            found = StatesAt(flow.states, at, flow.outputs)
        present = [name for name, tokens in needed.items() if tokens is not None]
        sums = {name: self.terms[name].sum(model, found, batch) for name in present}
        if len(present) < len(needed):  # data-parallel training needs a gradient for every head, if only 0
            unused = [weight.sum() for part in (model.heads, model.pooler) if part for weight in part.parameters()]
            sums[present[0]] = sums[present[0]] + 0 * torch.stack(unused).sum()
        return sums
