"""ELMo: a forward and a backward LSTM language model, trained together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from masquerade.data.examples import Example
from masquerade.data.packing import Batch
from masquerade.data.rng import Rng
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE, Layout
from masquerade.masks import causal
from masquerade.nn.model import Model, build
from masquerade.objectives.base import Objective
from masquerade.objectives.loss import Loss
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class TwoDirections(Objective):
    """One language model predicts each next token, the other, which reads the piece reversed, each previous one. They
    share token embeddings and the language head. The reversed piece is the example's source."""

    vocabulary: Vocabulary

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        ahead, back = list(ids), list(reversed(ids))
        layouts = [causal(each).replace(label=[*each[1:], IGNORE]) for each in (ahead, back)]
        return Example(layouts[0], source=layouts[1])

    def helpers(self, model: Model) -> dict[str, Model]:
        backward = build(model.spec)
        backward.tokenizer = model.tokenizer
        return {"backward": backward}

    def loss(self, networks: Mapping[str, Model]) -> Loss:
        return ElmoLoss(networks[""], networks["backward"])


class ElmoLoss(Loss):
    """The losses of both directions."""

    def __init__(self, model: Model, backward: Model) -> None:
        super().__init__(model)
        if model.spec.recurrent != "lstm":
            raise MasqueradeError("ELMo's language models are LSTMs; leave model.recurrent as it is.")
        self.backward_model = backward
        backward.words, backward.embeddings, backward.heads = model.words, model.embeddings, model.heads

    @property
    def networks(self) -> dict[str, Model]:
        return {"": self.model, "backward": self.backward_model}

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        examples = [example for row in rows for example in row]
        sides = {
            "tokens": [example.layout for example in examples],
            "backward": [example.source for example in examples if example.source is not None],
        }
        return {name: sum(int((each.label != IGNORE).sum()) for each in found) for name, found in sides.items()}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        if batch.source is None:
            raise TypeError("a batch of ELMo has the reversed texts as its sources")
        return {"tokens": _loss(self.model, batch.layout), "backward": _loss(self.backward_model, batch.source)}


def _loss(model: Model, layout: Layout) -> Tensor:
    """The summed loss of a layout's labels: ()"""
    labelled = layout.label != IGNORE
    scores = model.scores(layout, "lm", at=labelled).float()
    return F.cross_entropy(scores, layout.label[labelled], reduction="sum")
