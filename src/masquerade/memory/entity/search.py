"""The entities that fit a query best: by all products, or through FAISS where there are very many.

An index that compares a query with all entities is slower in FAISS than one product of matrices (benchmarks/README.md),
so FAISS is used only where it leaves most entities out.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

LARGE = 400_000  # entities from which on FAISS is used, if it is installed
PROBED = 16  # one in this many lists is searched
SAMPLE = 50  # vectors of each list that the lists are made from


def faiss_package() -> Any:
    """FAISS, or None where it is not installed: it belongs to the extra 'retrieval'."""
    try:
        return import_module("faiss")
    except ImportError:
        return None


class EntitySearch:
    """Finds the entities with the largest products. From LARGE entities on, FAISS searches the lists of entities that
    are nearest to the query, so it may miss some; with PROBED = 1 it searches all lists, and misses none."""

    def __init__(self, table: Tensor) -> None:
        """Take entity vectors (entities, width), on the CPU if FAISS is to be used."""
        self.table = table.detach()
        self.index: Any = None
        faiss = faiss_package() if len(table) >= LARGE and table.device.type == "cpu" else None
        if faiss is not None:
            self.index = _index(faiss, table)

    def __call__(self, query: Tensor, k: int) -> Tensor:
        """The numbers of the best k entities of each query (m, width), the best first: (m, k)"""
        k = min(k, len(self.table))
        if self.index is None or not len(query):
            return (query @ self.table.T).topk(k).indices
        found = torch.from_numpy(self.index.search(query.detach().float().contiguous().numpy(), k)[1])
        return found if bool((found >= 0).all()) else (query @ self.table.T).topk(k).indices  # too few in the lists


def _index(faiss: Any, table: Tensor) -> Any:
    """An index of entity vectors (entities, width) for products."""
    vectors, (count, width) = table.detach().float().contiguous().numpy(), table.shape
    lists = int(count**0.5)
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, lists, faiss.METRIC_INNER_PRODUCT)
    index.nprobe = max(1, lists // PROBED)
    chosen = torch.randperm(count, generator=torch.Generator().manual_seed(0))[: lists * SAMPLE].sort().values
    index.train(vectors[chosen.numpy()])
    index.add(vectors)
    return index
