"""What a batch costs: the sum over what it predicts, part by part, so that batches of any size add up exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.data.examples import Example
from masquerade.data.packing import Batch
from masquerade.layout import IGNORE, Layout
from masquerade.nn.model import Model
from masquerade.objectives.electra import replaced


class Loss(nn.Module):
    """A model and its loss in one module, since data-parallel training hooks into one forward call. A part's sum is
    divided by how many predictions of it there are, and multiplied by its weight."""

    weights: Mapping[str, float] = {}  # what a part counts, where that is not 1

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    @property
    def networks(self) -> dict[str, Model]:
        """What is trained, to be kept: the model, and its helpers by name."""
        return {"": self.model}

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        """How many predictions of each part the rows ask for: what their summed losses are divided by."""
        examples = [example for row in rows for example in row]
        return {
            "words": sum(
                int((example.layout.label != IGNORE).sum()) if example.count is None else example.count
                for example in examples
            ),
            "verdicts": sum(example.verdict is not None for example in examples),
            "boundaries": sum(len(example.spans) for example in examples if example.spans is not None),
        }

    def total(self, parts: Mapping[str, Tensor], counts: Mapping[str, int]) -> Tensor:
        """The parts' sums as one loss."""
        shares = [value * (self.weights.get(name, 1.0) / max(counts[name], 1)) for name, value in parts.items()]
        return torch.stack(shares).sum()

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The summed loss of each part that the batch has labels for: words, pairs of segments, span boundaries."""
        model, layout = self.model, batch.layout
        asked = layout.label != IGNORE
        alone = batch.verdict is None and batch.spans is None  # nothing is asked but words
        if model.decoder is not None and batch.source is None:  # PALM's first stage trains the encoder alone
            states = model.encode(layout).states
        else:
            states = model.hidden(layout, source=batch.source, at=asked if alone else None)
        words = states if states.dim() == 2 else states[asked]
        losses = F.cross_entropy(model.head("lm", words).float(), layout.label[asked], reduction="none")
        parts = {"words": (losses if batch.weight is None else losses * batch.weight[asked]).sum()}
        if batch.verdict is not None:
            scores = model.head("pair", states[layout.first])
            parts["verdicts"] = F.cross_entropy(scores.float(), batch.verdict, reduction="sum")
        if batch.spans is not None and batch.spans_label is not None:
            left, right, place = batch.spans.unbind(-1)
            scores = model.boundary_scores(states, left, right, place)
            parts["boundaries"] = F.cross_entropy(scores.float(), batch.spans_label, reduction="sum")
        return parts


class Electra(Loss):
    """A generator fills the blanks, and the model tells which words are not the original ones. Both are trained at
    once; no gradient flows from the model to the generator, since sampling is in between. Telling two classes apart
    costs far less than choosing one of all words, so that part is weighted up."""

    def __init__(self, model: Model, generator: Model, specials: frozenset[int], weight: float = 50.0) -> None:
        super().__init__(model)
        self.generator = generator
        self.weights = {"replaced": weight}
        self.register_buffer("specials", torch.tensor(sorted(specials)), persistent=False)
        share_embeddings(model, generator)

    @property
    def networks(self) -> dict[str, Model]:
        return {"": self.model, "generator": self.generator}

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        layouts = [example.layout for row in rows for example in row]
        asked = sum(int(self._asked(layout).sum()) for layout in layouts)
        return {"words": sum(int((layout.label != IGNORE).sum()) for layout in layouts), "replaced": asked}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        layout = batch.layout
        blank = layout.label != IGNORE
        scores = self.generator.scores(layout, "lm", at=blank).float()
        words = F.cross_entropy(scores, layout.label[blank], reduction="sum")
        sampled = torch.multinomial(scores.detach().softmax(-1), 1).squeeze(-1)
        shown, changed = replaced(layout, sampled)
        asked = self._asked(layout)
        found = self.model.scores(shown, "detect", at=asked).squeeze(-1).float()
        return {
            "words": words,
            "replaced": F.binary_cross_entropy_with_logits(found, changed[asked].float(), reduction="sum"),
        }

    def _asked(self, layout: Layout) -> Tensor:
        """Which tokens the model is asked about: all but padding and special ones; blanks are words."""
        specials = torch.as_tensor(self.specials, device=layout.ids.device)
        return layout.real & ((layout.label != IGNORE) | ~torch.isin(layout.ids, specials))


def share_embeddings(model: Model, generator: Model) -> None:
    """Give the generator the model's own words, positions and segments: one table of each, trained by both."""
    generator.words = model.words
    generator.embeddings.positions = model.embeddings.positions
    generator.embeddings.segment = model.embeddings.segment
