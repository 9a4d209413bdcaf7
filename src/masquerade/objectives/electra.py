"""ELECTRA: a small generator fills masks, and the network finds the tokens that were replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from masquerade.data.examples import Example
from masquerade.data.packing import Batch
from masquerade.data.rng import Rng
from masquerade.errors import LayoutError
from masquerade.layout import IGNORE, Layout
from masquerade.masks import bidirectional
from masquerade.nn.model import Model, build
from masquerade.nn.spec import Spec
from masquerade.objectives.base import Objective
from masquerade.objectives.loss import Loss
from masquerade.objectives.masked import Units, pick
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class ReplacedTokens(Objective):
    """The generator's input: a share of the tokens is masked, all of them as [MASK]. BERT's random and unchanged tokens
    are not needed, because the network itself, the discriminator, reads text without masks. ``units`` as in
    ``MaskedTokens``.
    """

    vocabulary: Vocabulary
    rate: float = 0.15
    units: Units | None = None
    size: float = 0.25  # the generator's width divided by the network's
    weight: float = 50.0  # of the discriminator's loss
    shared: bool = True  # whether both networks have the same embeddings

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        maskable = self.vocabulary.maskable(ids)
        units = [[index] for index in maskable] if self.units is None else self.units(ids)
        shown, label = list(ids), [IGNORE] * len(ids)
        for index in pick(units, max(1, round(self.rate * len(maskable))), rng):
            shown[index], label[index] = self.vocabulary.mask, ids[index]
        return Example(bidirectional(shown).replace(label=label))

    def helpers(self, model: Model) -> dict[str, Model]:
        generator = build(generator_spec(model.spec, self.size))
        generator.tokenizer = model.tokenizer
        return {"generator": generator}

    def loss(self, networks: Mapping[str, Model]) -> Loss:
        return ElectraLoss(networks[""], networks["generator"], self.weight, self.shared)


class ElectraLoss(Loss):
    """The generator's loss at the masked tokens, and the model's loss of telling which of all tokens, [CLS] and [SEP]
    included, were replaced. Both networks are trained at once. No gradient flows from the model to the generator,
    because its tokens are sampled. Telling two classes apart costs far less than choosing a token of the vocabulary,
    hence the weight: with a weight of 1 the model's gradients are so small that Adam's epsilon matters.

    As published, one table of embeddings is trained by both networks. With so great a weight the generator of a small
    network then hardly learns, because the model's gradients move its table; with ``shared`` false it has its own."""

    def __init__(self, model: Model, generator: Model, weight: float = 50.0, shared: bool = True) -> None:
        super().__init__(model)
        self.generator = generator
        self.weights = {"replaced": weight}
        if shared:
            generator.words = model.words
            generator.embeddings.positions = model.embeddings.positions
            generator.embeddings.segment = model.embeddings.segment

    @property
    def networks(self) -> dict[str, Model]:
        return {"": self.model, "generator": self.generator}

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        layouts = [example.layout for row in rows for example in row]
        return {
            "tokens": sum(int((layout.label != IGNORE).sum()) for layout in layouts),
            "replaced": sum(len(layout) for layout in layouts),
        }

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        layout = batch.layout
        masked = layout.label != IGNORE
        scores = self.generator.scores(layout, "lm", at=masked).float()
        sampled = torch.multinomial(scores.detach().softmax(-1), 1).squeeze(-1)
        shown, changed = replaced(layout, sampled)
        found = self.model.scores(shown, "detect", at=layout.real).squeeze(-1).float()
        return {
            "tokens": F.cross_entropy(scores, layout.label[masked], reduction="sum"),
            "replaced": F.binary_cross_entropy_with_logits(found, changed[layout.real].float(), reduction="sum"),
        }


def replaced(layout: Layout, sampled: Tensor) -> tuple[Layout, Tensor]:
    """The discriminator's input, which is the generator's layout with its m masks filled by sampled tokens, (m,) in
    reading order; and which tokens differ from the original ones, bool of the layout's shape."""
    blank = layout.label != IGNORE
    original = torch.where(blank, layout.label, layout.ids)
    if sampled.shape != original[blank].shape:
        raise LayoutError(
            f"{int(blank.sum())} masks cannot be filled with {tuple(sampled.shape)} tokens; give one for each."
        )
    ids = original.clone()
    ids[blank] = sampled.to(ids)
    return layout.replace(ids=ids, label=IGNORE), ids != original


def generator_spec(spec: Spec, size: float) -> Spec:
    """The spec of a generator: as deep as the discriminator and narrower, with heads of the same size, and embeddings
    of the same width, which both share."""
    heads = max(1, round(spec.heads * size))
    width = spec.head_width * heads
    return replace(
        spec,
        width=width,
        heads=heads,
        feedforward=max(1, round(spec.feedforward * size)),
        embedding=spec.sum_width if spec.sum_width != width else None,
        outputs=("lm",),
        spare=(),
        pooler=False,
    )
