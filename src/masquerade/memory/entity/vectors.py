"""Vectors of entities and relations: what an encoder makes of their labels and descriptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from masquerade.checkpoints.folders import load
from masquerade.layout import batch
from masquerade.masks import bidirectional
from masquerade.nn.model import Model

LENGTH = 48  # tokens of a label and its description
TOGETHER = 64  # texts of a pass

Progress = Callable[[int], object]  # told how many texts each pass has done
Named = tuple[str, str]  # a label and a description, which may be empty


class TextVectors:
    """Makes vectors of labels and descriptions: the mean of an encoder's last states, less ``centre``, with a length of
    the fourth root of the width. The product of an entity with itself is then the root of the width: enough for a
    softmax over 10⁵ entities to find it."""

    def __init__(self, model: Model, centre: Tensor | None = None) -> None:
        self.model, self.centre = model.eval(), centre

    @staticmethod
    def load(folder: str | Path, centre: Tensor | None = None) -> TextVectors:
        """From an encoder's checkpoint."""
        return TextVectors(load(folder), centre)

    @property
    def width(self) -> int:
        """The width of the vectors."""
        return self.model.spec.width

    def __call__(self, texts: Sequence[Named], progress: Progress | None = None) -> Tensor:
        """(texts, width); ``centre`` is the mean of these texts if there was none. ``progress`` is told how many texts
        each pass has done."""
        means = self._means(texts, progress)
        if self.centre is None:
            self.centre = means.mean(0) if len(means) > 1 else torch.zeros(self.width)
        return F.normalize(means - self.centre, dim=-1) * math.sqrt(math.sqrt(self.width))

    @torch.inference_mode()
    def _means(self, texts: Sequence[Named], progress: Progress | None) -> Tensor:
        """The mean state of each text: (texts, width)"""
        tokenizer, device = self.model.tokenizer, self.model.device
        length = min(LENGTH, self.model.spec.longest)
        pairs = [(label, description or None) for label, description in texts]
        encoded = tokenizer.encode_pairs(pairs, length) if pairs else []
        order = sorted(range(len(encoded)), key=lambda index: len(encoded[index][0]))
        means = torch.zeros(len(encoded), self.width)
        for start in range(0, len(order), TOGETHER):
            chosen = order[start : start + TOGETHER]
            layouts = [bidirectional(encoded[index][0], segment=encoded[index][1]) for index in chosen]
            layout = batch(layouts, self.model.spec.pad).to(device)
            states = self.model.hidden(layout) * layout.real.unsqueeze(-1)
            means[chosen] = (states.sum(1) / layout.real.sum(1, keepdim=True).clamp(min=1)).float().cpu()
            if progress is not None:
                progress(len(chosen))
        return means
