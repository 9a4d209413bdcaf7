"""The loss of REALM: −log Σ p(y | z, x) · p(z | x) over the passages z that a retriever finds. y are the masked tokens
of a text, or the answer to a question."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from masquerade.data.examples import Example
from masquerade.data.packing import Batch
from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.encoder import grouped_vectors
from masquerade.memory.retrieval.marginals import label_logs, marginal
from masquerade.memory.retrieval.pooling import Pooling
from masquerade.nn.heads import SpanMlp
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss
from masquerade.objectives.salient import DATES, name_places
from masquerade.text.tokenizer import Tokenizer

RETRIEVER = "retriever"  # the folder of the retriever inside a checkpoint
WIDEST = 10  # tokens of an answer at most
NEVER = -1e30  # the logarithm of a probability of 0; infinity would spoil the gradients of the others


def salient_places(text: str) -> list[tuple[int, int]]:
    """The dates, numbers and names of a text: (start, end) in characters, in order, without overlaps."""
    found = sorted({*name_places(text), *(match.span() for match in DATES.finditer(text))})
    kept = list[tuple[int, int]]()
    for start, end in found:
        if not kept or start >= kept[-1][1]:
            kept.append((start, end))
    return kept


def masked_ids(tokenizer: Tokenizer, text: str, place: tuple[int, int], most: int) -> tuple[list[int], list[int]]:
    """The first ``most`` ids of a text whose characters from start to end are masked, and the indices of the masks."""
    ids, offsets = tokenizer.encode_places([text])[0]
    inside = [index for index, (start, end) in enumerate(offsets[:most]) if start < place[1] and end > place[0]]
    shown = list(ids[:most])
    for index in inside:
        shown[index] = tokenizer.special("mask")
    return shown, inside


def span_grid(count: int) -> Tensor:
    """All spans of up to WIDEST tokens in a passage of that length, as first and last token: (spans, 2)"""
    firsts = torch.arange(count)
    parts = [torch.stack([firsts[: count - more], firsts[more:]], 1) for more in range(min(WIDEST, count))]
    return torch.cat(parts) if parts else torch.zeros(0, 2, dtype=torch.long)


class RealmLoss(Loss):
    """−log p(y | x). A row of a batch is a text or a question: an example for each passage that was found for it, and
    for masked texts a last one for the empty passage. Both the vectors of the text and those of the passages are made
    here, so gradients reach the retriever through p(z | x)."""

    def __init__(self, model: Model, retriever: Model, pooling: Pooling, temperature: float, frozen: bool) -> None:
        super().__init__(model)
        self.retriever, self.pooling, self.temperature, self.frozen = retriever, pooling, temperature, frozen
        for part in (retriever.pooler, retriever.heads, retriever if frozen else None):
            if part is not None:
                part.requires_grad_(False)

    @property
    def networks(self) -> dict[str, Model]:
        return {"": self.model, RETRIEVER: self.retriever}

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        return {"texts": len(rows)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        numbers = batch.extra["realm.candidates"].tolist()
        priors = self.priors(batch, numbers)
        if "realm.right" in batch.extra:
            logs = self.answer_logs(batch)
            found = [
                (part + prior).logsumexp(0) for part, prior in zip(torch.split(logs, numbers), priors, strict=True)
            ]
        else:
            tokens = label_logs(self.model, batch.layout, batch.source)
            masks = batch.extra["realm.masks"].tolist()  # of each text
            sizes = [number * count for number, count in zip(numbers, masks, strict=True)]
            found = [
                marginal(part.view(number, -1), prior, "sequence")
                for part, prior, number in zip(torch.split(tokens, sizes), priors, numbers, strict=True)
            ]
        return {"texts": -torch.stack(found).sum()}

    def priors(self, batch: Batch, numbers: Sequence[int]) -> list[Tensor]:
        """log p(z | x) of each text's candidates, (k,) each."""
        ids = torch.split(batch.extra["realm.ids"], batch.extra["realm.lengths"].tolist())
        texts = [(each.tolist(), [0] * len(each)) for each in ids]  # of each row: the query, then its candidates
        vectors = grouped_vectors(self.retriever, texts, self.pooling)
        own = torch.split(vectors, [1 + number for number in numbers])
        return [(each[1:] @ each[0] / self.temperature).log_softmax(-1) for each in own]

    def answer_logs(self, batch: Batch) -> Tensor:
        """log p(y | z, x) of each candidate: the summed share of the spans that match the answer: (candidates,)"""
        logs = list[Tensor]()
        for scores, right in zip(self.span_scores(batch), self._by_candidate(batch), strict=True):
            some = bool(right.any())
            logs.append(scores[right.bool()].logsumexp(0) - scores.logsumexp(0) if some else scores.new_tensor(NEVER))
        return torch.stack(logs)

    def span_scores(self, batch: Batch) -> list[Tensor]:
        """The score of every span of each candidate, (spans,) each, in the order of ``span_grid``."""
        states = self.model.hidden(batch.layout).flatten(0, 1)  # (rows · n, width)
        sizes = batch.extra["realm.words"].tolist()
        head, scores = self.model.heads["spans"], list[Tensor]()
        if not isinstance(head, SpanMlp):
            raise MasqueradeError("REALM answers by the head 'spans'; train it with task=answers.")
        for tokens in torch.split(batch.extra["realm.tokens"], sizes):
            grid = span_grid(len(tokens)).to(tokens.device)
            scores.append(head(states[tokens[grid[:, 0]]], states[tokens[grid[:, 1]]]).float())
        return scores

    def _by_candidate(self, batch: Batch) -> tuple[Tensor, ...]:
        sizes = [len(span_grid(count)) for count in batch.extra["realm.words"].tolist()]
        return torch.split(batch.extra["realm.right"], sizes)
