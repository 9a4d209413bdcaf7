"""The table of entity vectors that a part between the layers reads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from masquerade.errors import MasqueradeError
from masquerade.memory.entity import search


class EntityTable(nn.Module):
    """Entity vectors: those of a knowledge base, which are not trained and not saved with the network, or with
    ``trained`` that many vectors of its own, which are. Entities that a knowledge base has beyond these keep the
    vectors that it gives them."""

    given: Tensor

    def __init__(self, width: int, trained: int = 0) -> None:
        super().__init__()
        self.width = width
        self.own = nn.Parameter(torch.empty(trained, width)) if trained else None
        if self.own is not None:
            nn.init.normal_(self.own, std=width**-0.25)
        self.register_buffer("given", torch.zeros(0, width), persistent=False)
        self._search: tuple[int, search.EntitySearch] | None = None

    def forward(self) -> Tensor:
        """All vectors: (entities, width)"""
        return self.given if self.own is None else torch.cat([self.own, self.given])

    def large(self) -> bool:
        """Whether the best entities are searched by an index instead of by the scores of all."""
        size = len(self.given) + (0 if self.own is None else len(self.own))
        return size >= search.LARGE and self.given.device.type == "cpu" and search.faiss_package() is not None

    def best(self, query: Tensor, k: int) -> Tensor:
        """The numbers of the best k entities of each query (m, width), the best first: (m, k)"""
        version = 0 if self.own is None else self.own._version  # trained vectors change in place
        if self._search is None or self._search[0] != version:
            self._search = (version, search.EntitySearch(self()))
        return self._search[1](query, k)

    @torch.no_grad()
    def set(self, vectors: Tensor, start: bool = False) -> None:
        """Take over the vectors of a knowledge base, (entities, width). With ``start``, trained vectors begin there."""
        if vectors.dim() != 2 or vectors.shape[1] != self.width:
            raise MasqueradeError(
                f"The knowledge base has vectors of {vectors.shape[-1]} numbers, but the network was made for "
                f"{self.width}; build the knowledge base with the encoder that the network was trained with."
            )
        trained = 0 if self.own is None else len(self.own)
        if len(vectors) < trained:
            raise MasqueradeError(
                f"The network has trained vectors of {trained} entities, but the knowledge base has {len(vectors)}; "
                "give the knowledge base that it was trained with."
            )
        if start and self.own is not None:
            self.own.copy_(vectors[:trained])
        given = vectors[trained:].to(self.given)
        if given.shape != self.given.shape or not torch.equal(given, self.given):
            self._search = None  # an index of the same vectors goes on
        self.given = given
