"""The scores of a head for many sequences, which are packed without padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from masquerade.data.packing import first_fit
from masquerade.layout import PADDING, Layout, batch
from masquerade.masks import bidirectional, causal, pack
from masquerade.nn.heads import SENTENCE
from masquerade.nn.model import Model

ROW, ROWS = 256, 8  # tokens of a packed row, and rows that go through the network at once


@torch.inference_mode()
def predict(
    model: Model, layouts: Sequence[Layout], head: str, done: Callable[[int], None] = lambda count: None
) -> list[Tensor]:
    """The scores of each layout: (labels,) from a head for texts, (n, labels) from a head for tokens. ``done`` is
    called with the number of layouts scored since the last call."""
    found: dict[int, Tensor] = {}
    packing = first_fit([len(layout) for layout in layouts], ROW)
    model.eval()
    for start in range(0, len(packing), ROWS):
        rows = packing[start : start + ROWS]
        layout = batch([pack([layouts[index] for index in row]) for row in rows], model.spec.pad).to(model.device)
        at = sentence_tokens(model, layout) if head in SENTENCE else layout.real
        scores = model.scores(layout, head, at=at).float().cpu()
        order = [index for row in rows for index in row]
        sizes = [1 if head in SENTENCE else len(layouts[index]) for index in order]
        for index, part in zip(order, torch.split(scores, sizes), strict=True):
            found[index] = part[0] if head in SENTENCE else part
        done(len(order))
    return [found[index] for index in range(len(layouts))]


def under_own_mask(model: Model, ids: Sequence[int]) -> Layout:
    """The layout of a text under the mask that the model was trained with: (n,)"""
    return causal(ids) if model.spec.mask == "causal" else bidirectional(ids)


def sentence_tokens(model: Model, layout: Layout) -> Tensor:
    """The token of each document whose state stands for the whole: the first, or in a causal model the last, which
    alone sees all others. Bool, of the layout's shape."""
    if model.spec.mask != "causal":
        return layout.first
    after = layout.document.roll(-1, dims=-1)
    after[..., -1] = PADDING
    return layout.real & (layout.document != after)
