"""What a batch costs: the sum over what it predicts, part by part, so that batches of any size add up exactly."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from masquerade.data.rows import Batch
from masquerade.layout import IGNORE
from masquerade.nn.model import Model
from masquerade.objectives.base import Example


class Loss(nn.Module):
    """A model and its loss in one module, since data-parallel training hooks into one forward call."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The summed loss of each part that the batch has labels for: words, the pair of segments, span boundaries."""
        model, layout = self.model, batch.layout
        if model.decoder is not None and batch.source is None:  # PALM's first stage trains the encoder alone
            states = model.encode(layout).states
        else:
            states = model.hidden(layout, source=batch.source)
        asked = layout.label != IGNORE
        losses = F.cross_entropy(model.head("lm", states[asked]).float(), layout.label[asked], reduction="none")
        parts = {"words": (losses if batch.weight is None else losses * batch.weight[asked]).sum()}
        if batch.pair is not None:
            scores = model.head("pair", states[layout.first])
            parts["pair"] = F.cross_entropy(scores.float(), batch.pair, reduction="sum")
        if batch.spans is not None and batch.spans_label is not None:
            left, right, place = batch.spans.unbind(-1)
            scores = model.boundary_scores(states, left, right, place)
            parts["boundary"] = F.cross_entropy(scores.float(), batch.spans_label, reduction="sum")
        return parts


def counts(rows: Sequence[Sequence[Example]]) -> dict[str, int]:
    """How many predictions of each part the rows ask for: what their summed losses are divided by."""
    examples = [example for row in rows for example in row]
    words = sum(
        int((example.layout.label != IGNORE).sum()) if example.count is None else example.count for example in examples
    )
    spans = sum(len(example.spans) for example in examples if example.spans is not None)
    return {"words": words, "pair": sum(example.pair is not None for example in examples), "boundary": spans}
