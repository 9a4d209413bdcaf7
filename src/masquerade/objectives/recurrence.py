"""The loss of segments whose rows remember the segments before (Transformer-XL, XLNet)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from masquerade.data.packing import Batch
from masquerade.errors import MasqueradeError
from masquerade.nn.between import Flow
from masquerade.nn.model import Model
from masquerade.nn.segments import RELATIVE, StreamMemory
from masquerade.objectives.loss import Term, TermLoss


class RecurrentLoss(TermLoss):
    """A loss whose rows also see the last ``memory`` tokens that their stream read before, without a gradient into
    these. Batches come from ``masquerade.data.streams``. Training and evaluation have separate memories."""

    def __init__(self, model: Model, terms: Mapping[str, Term], streams: int, memory: int) -> None:
        super().__init__(model, terms)
        spec = model.spec
        if spec.recurrent or spec.decoder is not None or spec.between:
            raise MasqueradeError("Only a plain stack of attention layers can remember segments; set memory=0.")
        if not spec.positions or not set(spec.positions) <= set(RELATIVE):
            found = ", ".join(spec.positions) or "none"
            raise MasqueradeError(
                f"A memory needs relative positions ({', '.join(RELATIVE)}), but this network's are {found}; "
                "set model.positions, or memory=0."
            )
        self.memories = {mode: StreamMemory(streams, memory, len(spec.order), spec.width) for mode in (True, False)}

    @property
    def memory(self) -> StreamMemory:
        """The memory of training, or in evaluation mode that of evaluation."""
        return self.memories[self.training]

    def flow(self, batch: Batch, at: Tensor) -> Flow:
        streams = batch.extra["stream"]
        memory = self.memory.before(streams, batch.extra["continued"])
        flow = self.model.flow(batch.layout, cache=memory, at=at)
        self.memory.keep(streams, memory)
        return flow
