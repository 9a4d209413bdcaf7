"""The vectors of a collection in FAISS, kept in step with the store."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from masquerade.files import write_whole
from masquerade.memory.retrieval.packages import retrieval_package
from masquerade.memory.retrieval.store import CollectionStore

KINDS = {"flat": 0, "8 bits": 100_000, "IVF, 8 bits": 400_000}  # from how many vectors on each kind is used
SAMPLE = 50_000  # vectors that quantisers are trained on
PROBED = 16  # one in this many lists of an inverted file is searched
FEW = 10_000  # passages; if a filter leaves at most this many, all lists are searched
PART = 10_000  # passages whose vectors are added at once
FIRST = 1_000  # passages that tell how many vectors a passage has
PARTS = 4  # times as many vectors as passages are searched, where a passage has several


def kind_for(count: int) -> str:
    """The kind of index for a number of vectors."""
    return next(kind for kind, least in reversed(KINDS.items()) if count >= least)


class Vectors(Protocol):
    """What a collection needs of an index of vectors."""

    saved: bool  # whether the next process finds it as it is now

    @property
    def kind(self) -> str:
        """What the index is, for people."""

    def synchronise(self) -> None:
        """Add and remove what the store has gained and lost."""

    def save(self) -> None:
        """Keep the index for the next time."""

    def search(self, vector: np.ndarray, k: int, allowed: np.ndarray | None = None) -> list[tuple[int, float]]:
        """The nearest passages of a vector (width,) with their dot products, the best one first."""


class VectorIndex:
    """Nearest passages by dot product. The index is a copy of the vectors in the store: it is brought up to date when
    it is opened, and made anew if its file is missing, damaged, or of another kind or width."""

    def __init__(self, store: CollectionStore, width: int) -> None:
        self.faiss = retrieval_package("faiss")
        self.store, self.width, self.path = store, width, store.index_path("vectors").with_suffix(".faiss")
        self.index, self.saved = self._read(), True
        if self.index is None:
            self.index, self.saved = self._empty("flat", np.zeros(0, np.int64), 0), False
        self.synchronise()

    @property
    def kind(self) -> str:
        """The kind of the index, one of KINDS."""
        if self._is_ivf(self.index):
            return "IVF, 8 bits"
        return "flat" if isinstance(self.faiss.downcast_index(self.index.index), self.faiss.IndexFlat) else "8 bits"

    def synchronise(self) -> None:
        """Add and remove what the store has gained and lost since the index was written."""
        wanted, held = self.store.ids(), self._held()
        count = self._expected(wanted, held)
        kind = kind_for(count)
        if KINDS[kind] > KINDS[self.kind]:
            self.index, held = self._empty(kind, wanted, count), np.zeros(0, np.int64)
            self.saved = False
        gone, new = np.setdiff1d(held, wanted), np.setdiff1d(wanted, held)
        if len(gone):
            self.index.remove_ids(gone)
            self.saved = False
        for start in range(0, len(new), PART):
            self.index.add_with_ids(*self.store.vectors(new[start : start + PART], self.width))
            self.saved = False
        self.several = self.index.ntotal > len(wanted)

    def save(self) -> None:
        """Write the index, whole or not at all."""
        if not self.saved:
            write_whole(self.path, lambda path: self.faiss.write_index(self.index, str(path)))
            self.saved = True

    def search(self, vector: np.ndarray, k: int, allowed: np.ndarray | None = None) -> list[tuple[int, float]]:
        """The nearest passages of a vector (width,) with their dot products, the best one first; of ``allowed`` ones
        only, if given."""
        if not self.index.ntotal or (allowed is not None and not len(allowed)):
            return []
        selector = None if allowed is None else self.faiss.IDSelectorBatch(allowed)
        if self._is_ivf(self.index):
            few = allowed is not None and len(allowed) <= FEW
            probed = self.index.nlist if few else max(1, self.index.nlist // PROBED)
            parameters = self.faiss.SearchParametersIVF(sel=selector, nprobe=probed)
        else:
            parameters = self.faiss.SearchParameters(sel=selector)
        query = np.ascontiguousarray(vector, dtype=np.float32)[None]
        most = min(k * PARTS if self.several else k, self.index.ntotal)
        while True:
            scores, ids = self.index.search(query, most, params=parameters)
            best = dict[int, float]()
            for id, score in zip(ids[0].tolist(), scores[0].tolist(), strict=True):
                if id >= 0:
                    best.setdefault(id, score)  # the first is the nearest part
            if len(best) >= k or most >= self.index.ntotal or ids[0, -1] < 0:
                return list(best.items())[:k]
            most = min(most * PARTS, self.index.ntotal)

    def _read(self) -> Any:
        """The index in the file, or None if there is none that can be used."""
        if not self.path.is_file():
            return None
        try:
            index = self.faiss.read_index(str(self.path))
        except RuntimeError:  # what FAISS raises for a damaged file
            return None
        fits = isinstance(index, self.faiss.IndexIDMap2) or self._is_ivf(index)
        return index if fits and index.d == self.width else None

    def _empty(self, kind: str, ids: np.ndarray, count: int) -> Any:
        """A new index for about ``count`` vectors, those of the passages ``ids``; quantisers are trained on some of
        them."""
        metric = self.faiss.METRIC_INNER_PRODUCT
        if kind == "flat":
            return self.faiss.IndexIDMap2(self.faiss.IndexFlat(self.width, metric))
        sample = np.random.default_rng(0).permutation(ids)[: SAMPLE * len(ids) // count]
        name = f"IVF{int(4 * count**0.5)},SQ8" if kind.startswith("IVF") else "SQ8"
        made = self.faiss.index_factory(self.width, name if name.startswith("IVF") else f"IDMap2,{name}", metric)
        made.train(self.store.vectors(np.sort(sample), self.width)[0])
        return made

    def _expected(self, wanted: np.ndarray, held: np.ndarray) -> int:
        """About how many vectors some passages have, from those that are held, or else from the first ones."""
        some = wanted[:FIRST]
        has = (
            self.index.ntotal / len(held)
            if len(held)
            else len(self.store.vectors(some, self.width)[1]) / max(1, len(some))
        )
        return int(len(wanted) * has)

    def _is_ivf(self, index: Any) -> bool:
        return isinstance(index, self.faiss.IndexIVF)

    def _held(self) -> np.ndarray:
        """The numbers of the passages in the index: (n,)"""
        if not self._is_ivf(self.index):
            return np.unique(np.asarray(self.faiss.vector_to_array(self.index.id_map), dtype=np.int64))
        lists = self.index.invlists
        parts = [
            np.array(self.faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number)), dtype=np.int64)
            for number in range(self.index.nlist)
            if lists.list_size(number)
        ]
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
