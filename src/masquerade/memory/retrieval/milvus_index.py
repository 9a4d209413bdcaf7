"""The vectors of a collection in Milvus: a server or cluster by its address, or Milvus Lite in a .db file."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.store import CollectionStore

PART = 1_000  # passages whose vectors are sent at once
PARTS = 4  # times as many vectors as passages are searched, where a passage has several
KEYS = 1_000  # a vector's key is the number of its passage times this, and the number of the part
MOST = 16_384  # vectors that Milvus finds at once
PAUSES = (0.2, 0.5, 1.0, 2.0)  # seconds before a call that failed is tried again
UNAVAILABLE, RELEASED = 2, 101  # Milvus's codes of a server that cannot be reached, a collection that is not loaded
TOKEN = "MILVUS_TOKEN"  # the environment variable with "user:password" or a token

T = TypeVar("T")


class MilvusIndex:
    """Nearest passages by dot product, with the methods of ``VectorIndex``. What Milvus holds is brought up to date
    with the store; a version of the store's state says when that is needed."""

    saved = True  # Milvus keeps what it is given

    def __init__(self, store: CollectionStore, width: int, uri: str) -> None:
        try:
            pymilvus = import_module("pymilvus")
        except ImportError as error:
            raise MasqueradeError(
                "Vectors in Milvus need further packages; install them: pip install 'masquerade[milvus]'."
            ) from error
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # its errors are told in a sentence here
        self.milvus: Any = pymilvus
        self.store, self.width, self.uri = store, width, uri
        self.name = f"masquerade_{store.meta('id')}"
        self.client = self._call(lambda: pymilvus.MilvusClient(uri, token=os.environ.get(TOKEN, ""), timeout=10))
        there = self._call(lambda: self.client.has_collection(self.name))
        if there and self._held_width() != width:  # left from before a rebuild with another encoder
            self._call(lambda: self.client.drop_collection(self.name))
            there = False
        if not there:
            self._create()
        self._call(lambda: self.client.load_collection(self.name))
        self.synchronise()

    @property
    def kind(self) -> str:
        """Where the vectors are."""
        return f"Milvus, {self.uri}"

    def synchronise(self) -> None:
        """Add and remove what the store has gained and lost."""
        count = self._count()
        self.several = count > self.store.count("passages")
        if self.store.meta("milvus") == f"{self.store.version()} {count}":
            return
        version, wanted, held = self.store.version(), self.store.ids(), self._held()
        gone, new = np.setdiff1d(held, wanted), np.setdiff1d(wanted, held)
        for start in range(0, len(gone), PART):
            part = f"passage in {gone[start : start + PART].tolist()}"
            self._call(lambda part=part: self.client.delete(self.name, filter=part))  # type: ignore[misc]
        for start in range(0, len(new), PART):
            vectors, owner = self.store.vectors(new[start : start + PART], self.width)
            number = np.arange(len(owner)) - np.searchsorted(owner, owner)  # of the part within its passage
            rows = [
                {"id": int(id) * KEYS + int(part), "passage": int(id), "vector": vector.tolist()}
                for id, part, vector in zip(owner, number, vectors, strict=True)
            ]
            self._call(lambda rows=rows: self.client.upsert(self.name, rows))  # type: ignore[misc]
        self._call(lambda: self.client.flush(self.name))
        count = self._count()
        self.several = count > len(wanted)
        if self.store.lock_held:  # a reader leaves the note to the writer
            with self.store.transaction():
                self.store.set_meta(milvus=f"{version} {count}")

    def save(self) -> None:
        """Nothing to do."""

    def search(self, vector: np.ndarray, k: int, allowed: np.ndarray | None = None) -> list[tuple[int, float]]:
        """The nearest passages of a vector (width,) with their dot products, the best one first; of ``allowed`` ones
        only, if given. A passage with a vector for each of its parts is as near as its nearest part."""
        if allowed is not None and not len(allowed):
            return []
        wanted = "" if allowed is None else f"passage in {allowed.tolist()}"
        query = [np.asarray(vector, dtype=np.float32).tolist()]
        most = min(k * PARTS if self.several else k, MOST)
        while True:
            rows = self._call(
                lambda most=most: self.client.search(  # type: ignore[misc]
                    self.name, query, limit=most, filter=wanted, output_fields=["passage"]
                )
            )[0]
            best = dict[int, float]()
            for row in rows:
                best.setdefault(int(row["entity"]["passage"]), float(row["distance"]))  # the first is the nearest part
            if len(best) >= k or len(rows) < most or most == MOST:
                return list(best.items())[:k]
            most = min(most * PARTS, MOST)

    def _create(self) -> None:
        schema = self.client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", self.milvus.DataType.INT64, is_primary=True)
        schema.add_field("passage", self.milvus.DataType.INT64)
        schema.add_field("vector", self.milvus.DataType.FLOAT_VECTOR, dim=self.width)
        index = self.client.prepare_index_params()
        index.add_index("vector", index_type="FLAT" if self.uri.endswith(".db") else "AUTOINDEX", metric_type="IP")
        self._call(
            lambda: self.client.create_collection(
                self.name, schema=schema, index_params=index, consistency_level="Strong"
            )
        )

    def _held_width(self) -> int:
        fields = self._call(lambda: self.client.describe_collection(self.name))["fields"]
        return next(int(field["params"]["dim"]) for field in fields if field["name"] == "vector")

    def _count(self) -> int:
        rows = self._call(lambda: self.client.query(self.name, filter="", output_fields=["count(*)"]))
        return int(rows[0]["count(*)"])

    def _held(self) -> np.ndarray:
        """The numbers of the passages in Milvus: (n,)"""
        found, pages = (
            list[int](),
            self._call(
                lambda: self.client.query_iterator(
                    self.name, batch_size=PART, filter="id >= 0", output_fields=["passage"]
                )
            ),
        )
        while rows := self._call(pages.next):
            found += [int(row["passage"]) for row in rows]
        pages.close()
        return np.unique(np.array(found, dtype=np.int64))

    def _call(self, function: Callable[[], T]) -> T:
        """The result of a call to Milvus. One that fails because the server cannot be reached is tried again, and so is
        one that meets a server that has been started anew, which does not have the collection in memory yet."""
        for pause in (*PAUSES, None):
            try:
                return function()
            except self.milvus.MilvusException as error:
                if error.code == RELEASED and pause is not None:
                    self._load()
                elif error.code != UNAVAILABLE or pause is None:
                    raise MasqueradeError(
                        f"Milvus at '{self.uri}' cannot be used ({error.message}); check the address, that the server "
                        f"is running, and the access in {TOKEN}."
                    ) from error
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _load(self) -> None:
        """Have the server take the collection into memory, if it answers."""
        with suppress(self.milvus.MilvusException):
            self.client.load_collection(self.name)


def absolute_uri(uri: str) -> str:
    """An address as it is; the path of a .db file without what depends on the current folder."""
    return uri if "://" in uri else os.path.realpath(os.path.expanduser(uri))


def is_milvus_uri(uri: str) -> bool:
    """Whether this is the address of a server or the path of a .db file."""
    return "://" in uri or uri.endswith(".db")
