"""ELECTRA: a small generator fills blanks, and the network finds out which words are not the original ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from masquerade.errors import LayoutError
from masquerade.layout import IGNORE
from masquerade.masks import bidirectional
from masquerade.objectives.base import Example, Rng, Terms
from masquerade.objectives.masked import Units, pick


@dataclass(frozen=True)
class GeneratorWords:
    """What the generator reads: a share of the tokens masked, every one of them as [MASK].

    BERT's random and kept words are left out: they prepare a network for text without masks, and here another network,
    the discriminator, reads that. ``units`` as in ``MaskedWords``.
    """

    terms: Terms
    rate: float = 0.15
    units: Units | None = None

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        maskable = self.terms.maskable(ids)
        units = [[index] for index in maskable] if self.units is None else self.units(ids)
        shown, label = list(ids), [IGNORE] * len(ids)
        for index in pick(units, max(1, round(self.rate * len(maskable))), rng):
            shown[index], label[index] = self.terms.mask, ids[index]
        return Example(bidirectional(shown).replace(label=label))


def replaced(example: Example, original: Sequence[int], sampled: Tensor, terms: Terms) -> Example:
    """What the discriminator reads: the generator's example with its blanks filled, and for each token whether it is
    not the original one. Where the generator happens to be right, the token is original. Special tokens are not asked.

    ``sampled`` has the generator's word for each of the m labelled tokens, in reading order: (m,).
    """
    layout = example.layout
    places = (layout.label != IGNORE).nonzero().squeeze(-1)
    true = torch.as_tensor(original, dtype=torch.long)
    if sampled.shape != places.shape or true.shape != layout.ids.shape:
        raise LayoutError(
            f"An example of {len(layout)} tokens with {len(places)} blanks needs as many original and sampled ids, "
            f"but there are {tuple(true.shape)} and {tuple(sampled.shape)}."
        )
    ids = true.clone()
    ids[places] = sampled.to(ids)
    special = torch.tensor([number in terms.specials for number in true.tolist()], dtype=torch.bool)
    changed = (ids != true).long().masked_fill(special, IGNORE)
    return replace(example, layout=layout.replace(ids=ids, label=IGNORE), replaced=changed)


def joint_loss(generator_loss: Tensor, discriminator_loss: Tensor, weight: float = 50.0) -> Tensor:
    """Both networks are trained at once. Telling two classes apart costs far less than choosing one of all words, so
    the discriminator's loss is weighted up. No gradient flows from it to the generator: sampling is in between."""
    return generator_loss + weight * discriminator_loss
