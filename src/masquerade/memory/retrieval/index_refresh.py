"""Vectors of a collection by an encoder that is still being trained: made by a second process, while training goes on.

    python -m masquerade.memory.retrieval.index_refresh KB ENCODER OUT

encodes all passages of the collection in KB with the checkpoint in ENCODER, and writes an index of their vectors to
OUT, whole or not at all.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from masquerade.checkpoints.folders import save
from masquerade.errors import MasqueradeError
from masquerade.files import write_whole
from masquerade.memory.retrieval.encoder import Encoder
from masquerade.memory.retrieval.packages import retrieval_package
from masquerade.memory.retrieval.store import CollectionStore
from masquerade.nn.model import Model

PART = 1024  # passages that are read from the store at once


def write_index(folder: Path, encoder: Encoder, out: Path) -> None:
    """Encode the passages of a collection, and write their vectors as a FAISS index of dot products."""
    faiss, store = retrieval_package("faiss"), CollectionStore(folder)
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(encoder.width))
    ids = store.ids()
    for start in range(0, len(ids), PART):
        part = store.passages(ids[start : start + PART].tolist())
        texts = [each.passage.searched(each.title) for each in part.values()]
        if texts:
            index.add_with_ids(encoder.encode_passages(texts).numpy(), np.array(list(part), dtype=np.int64))
    store.close()
    write_whole(out, lambda path: faiss.write_index(index, str(path)))


def index_name(step: int) -> str:
    """The file of the index of a step's weights."""
    return f"vectors-{step}.faiss"


class RefreshedIndex:
    """The newest complete index of a run, and the process that makes the next one. ``start`` begins an index of the
    weights as they are; ``swap`` waits for it and takes it over. An index that does not come about is not missed: the
    one before stays."""

    def __init__(self, kb: Path, folder: Path, name: str = "", awaited: str = "") -> None:
        self.kb, self.folder, self.name, self.awaited = kb, folder, "", awaited
        self.process: subprocess.Popen[bytes] | None = None
        self.index: Any = None
        if name:
            self._open(name if (folder / name).is_file() else self._newest())

    def start(self, encoder: Model, step: int) -> None:
        """Begin an index of an encoder's weights, in a second process."""
        for old in self.folder.glob("encoder-*"):
            shutil.rmtree(old, ignore_errors=True)
        snapshot, self.awaited = self.folder / f"encoder-{step}", index_name(step)
        save(encoder, snapshot)
        words = [sys.executable, "-m", __name__, str(self.kb), str(snapshot), str(self.folder / self.awaited)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)

    def wait(self) -> None:
        """Wait until the second process has ended; nothing happens if there is none."""
        if self.process is not None:
            self.process.wait()
            self.process = None

    def swap(self) -> str:
        """Take over the awaited index if it is complete. Returns the name of the index that is used from now on, empty
        for that of the collection itself."""
        if self.awaited and (self.folder / self.awaited).is_file():
            before = self.name
            self._open(self.awaited)
            if before and before != self.name:
                (self.folder / before).unlink(missing_ok=True)
        self.awaited = ""
        return self.name

    def search(self, vectors: np.ndarray, k: int) -> list[list[int]]:
        """The numbers of the nearest passages of vectors (n, width), the best first."""
        _, ids = self.index.search(np.ascontiguousarray(vectors, dtype=np.float32), min(k, self.index.ntotal))
        return [[int(id) for id in row if id >= 0] for row in ids]

    def _newest(self) -> str:
        """The index that was made last, for a run that goes on from a checkpoint whose index has been replaced."""
        found = sorted(self.folder.glob("vectors-*.faiss"), key=lambda path: int(path.stem.removeprefix("vectors-")))
        return found[-1].name if found else ""

    def _open(self, name: str) -> None:
        if not name:
            return
        try:
            self.index = retrieval_package("faiss").read_index(str(self.folder / name))
        except RuntimeError as error:
            raise MasqueradeError(f"The index '{self.folder / name}' cannot be read; start the run anew.") from error
        self.name = name


def main(words: Sequence[str]) -> None:
    """The second process."""
    folder, encoder, out = words
    write_index(Path(folder), Encoder.load(encoder), Path(out))


if __name__ == "__main__":
    main(sys.argv[1:])
