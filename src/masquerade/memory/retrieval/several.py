"""Passages encoded by several processes, on one machine or on many: ``accelerate launch -m masquerade index …``. The
first process writes the collection; all of them encode."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor

from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.encoder import Encoder


def several_processes() -> bool:
    """Whether this process is one of several that Accelerate or torchrun has started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def shared_encoder(encoder: Encoder | None) -> SharedEncoder:
    """An encoder for several processes; an error if there is none to share."""
    if encoder is None:
        raise MasqueradeError("Several processes divide the encoding of passages; name the encoder by --encoder.")
    return SharedEncoder(encoder)


class SharedEncoder(Encoder):
    """An encoder whose passages are divided among the processes. The first process calls ``encode_parts`` and at
    last ``finish``; the others call ``work``, which returns after that."""

    def __init__(self, encoder: Encoder) -> None:
        from accelerate import PartialState

        super().__init__(encoder.model, encoder.pooling, encoder.source, encoder.projection)
        self.state = PartialState(cpu=encoder.model.device.type == "cpu")

    @property
    def main(self) -> bool:
        """Whether this is the process that writes."""
        return bool(self.state.is_main_process)

    def encode_parts(self, texts: Sequence[str]) -> list[Tensor]:
        """The vectors of the parts of each passage: (parts, width) each"""
        return self._together(list(texts)) if texts else []

    def finish(self) -> None:
        """Tell the other processes that there is no more to encode."""
        self._said(None)

    def work(self) -> None:
        """Encode shares of the passages that the first process has, until it has no more."""
        while (texts := self._said(None)) is not None:
            self._together(texts, told=True)

    def _together(self, texts: list[str], told: bool = False) -> list[Tensor]:
        from accelerate.utils import gather_object

        if not told:
            self._said(texts)
        rank, world = self.state.process_index, self.state.num_processes
        shares = gather_object([super().encode_parts(texts[rank::world])])
        vectors = [torch.zeros(0)] * len(texts)
        for number, share in enumerate(shares):
            vectors[number::world] = share
        return vectors

    def _said(self, texts: list[str] | None) -> list[str] | None:
        """The texts that the first process has, None after the last of them; the same in all processes."""
        from accelerate.utils import broadcast_object_list

        box = [texts]
        broadcast_object_list(box)
        return box[0]
