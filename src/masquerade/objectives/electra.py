"""ELECTRA: a small generator fills blanks, and the network finds out which words are not the original ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.errors import LayoutError
from masquerade.layout import IGNORE, Layout
from masquerade.masks import bidirectional
from masquerade.nn.spec import Spec
from masquerade.objectives.masked import Units, pick
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class GeneratorWords:
    """What the generator reads: a share of the tokens masked, every one of them as [MASK].

    BERT's random and kept words are left out: they prepare a network for text without masks, and here another network,
    the discriminator, reads that. ``units`` as in ``MaskedWords``.
    """

    vocabulary: Vocabulary
    rate: float = 0.15
    units: Units | None = None
    size: float = 0.25  # the generator's width, as a share of the network's
    weight: float = 50.0  # what finding replaced words counts beside filling blanks

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        maskable = self.vocabulary.maskable(ids)
        units = [[index] for index in maskable] if self.units is None else self.units(ids)
        shown, label = list(ids), [IGNORE] * len(ids)
        for index in pick(units, max(1, round(self.rate * len(maskable))), rng):
            shown[index], label[index] = self.vocabulary.mask, ids[index]
        return Example(bidirectional(shown).replace(label=label))


def replaced(layout: Layout, sampled: Tensor) -> tuple[Layout, Tensor]:
    """What the discriminator reads: the generator's layout with its m blanks filled by its words, (m,) in reading
    order; and which tokens are not the original ones, bool of the layout's shape. Where the generator happens to be
    right, the token is original."""
    blank = layout.label != IGNORE
    original = torch.where(blank, layout.label, layout.ids)
    if sampled.shape != original[blank].shape:
        raise LayoutError(
            f"{int(blank.sum())} blanks cannot be filled with {tuple(sampled.shape)} words; give one each."
        )
    ids = original.clone()
    ids[blank] = sampled.to(ids)
    return layout.replace(ids=ids, label=IGNORE), ids != original


def generator_spec(spec: Spec, size: float) -> Spec:
    """A generator for a discriminator: as deep, narrower by a share, with embeddings of the same width, so that they
    can be shared. Heads keep their size."""
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
