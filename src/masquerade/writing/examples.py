"""Training examples of a writer, laid out by the frame that it decodes in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.decoding.canvas import Canvas
from masquerade.layout import IGNORE, Kind, Layout, join
from masquerade.nn.model import Model
from masquerade.objectives.masked import corrupt
from masquerade.text.vocabulary import Vocabulary
from masquerade.writing.settings import SourceTemplate, WritingSettings

BLOCKS = (1, 1, 1, 2, 4, 8)  # block sizes of the two-mask training, equally likely
MASKED = 0.7  # the share of a target's tokens that UniLM masks in fine-tuning
PARALLEL = 2**20  # the rank of slots that are written in parallel, above that of any other token


@dataclass(frozen=True)
class TargetLayouts:
    """Lays out sources with their targets for training."""

    template: SourceTemplate
    training: str
    slots: int  # the number of slots of a text that is written in parallel
    vocabulary: Vocabulary

    @staticmethod
    def of(model: Model, settings: WritingSettings) -> TargetLayouts:
        """The layouts for a model with these settings."""
        template = SourceTemplate.of(model, settings)
        return TargetLayouts(template, settings.training, settings.target_length, Vocabulary.of(model.tokenizer))

    def example(self, source: Sequence[int], target: Sequence[int], rng: Rng) -> Example:
        """The example of a source and its target, both without special tokens. A target that is too long is cut, and
        then has no end."""
        whole = [*map(int, target), self.template.end][: self.slots]
        canvas = self.template.frame.canvas([self.template.enclose(source[: self.template.room])])
        if self.training == "masked":
            layout = self._masked(canvas, whole, rng)
        elif self.training == "both":
            layout = self._both(canvas, whole, rng)
        else:
            layout = canvas.with_targets(torch.tensor([whole]))
            if canvas.query_kind is None:
                layout = layout[:-1]  # no token is predicted from the last one
        return Example(layout.row(0), None if canvas.source is None else canvas.source.row(0))

    def _masked(self, canvas: Canvas, target: list[int], rng: Rng) -> Layout:
        """UniLM: some tokens of the target are masked in place and predicted; each sees the tokens before it."""
        share = max(1, round(MASKED * len(target)))
        chosen = sorted(rng.permutation(len(target))[:share].tolist())
        shown, label = corrupt(target, chosen, self.vocabulary, rng)
        words = canvas.place(torch.tensor([shown]), 0).replace(label=torch.tensor([label]))
        return join([canvas.prompt, words])

    def _both(self, canvas: Canvas, target: list[int], rng: Rng) -> Layout:
        """Two masks over one source, which sees only itself: the target in blocks, with slots that see the blocks
        before their own (with blocks of one token, that is autoregressive); and all slots at once, which see each
        other and no block."""
        size = BLOCKS[int(rng.integers(len(BLOCKS)))]
        words = canvas.place(torch.tensor([target]), 0)
        block = 1 + torch.arange(len(target)) // size
        clean = words.replace(rank=block, horizon=block)
        count = -(-len(target) // size) * size  # the last block is as long as the others
        blocks = self._slots(canvas, target, count, rng, hidden=1.0 if size == 1 else None)
        rank = 1 + torch.arange(count) // size
        blocks = blocks.replace(rank=rank, horizon=rank - 1)
        once = self._slots(canvas, target, self.slots, rng, hidden=None)
        return join([canvas.prompt, clean, blocks, once.replace(rank=PARALLEL, horizon=0)])

    def _slots(self, canvas: Canvas, target: list[int], count: int, rng: Rng, hidden: float | None) -> Layout:
        """Slots that show some tokens of the target and predict the others, (1, count): all of them in half of the
        examples, a random share in the others; those after the target predict nothing."""
        share = hidden or (1.0 if rng.random() < 0.5 else float(rng.random()))
        masked = rng.random(len(target)) < share
        if not masked.any():
            masked[int(rng.integers(len(target)))] = True
        label = [number if gone else IGNORE for number, gone in zip(target, masked, strict=True)]
        shown = [canvas.mask if gone else number for number, gone in zip(target, masked, strict=True)]
        more = count - len(target)
        ids: Tensor = torch.tensor([[*shown, *[canvas.mask] * more]])
        return canvas.place(ids, 0).replace(kind=Kind.PEER, label=torch.tensor([[*label, *[IGNORE] * more]]))
