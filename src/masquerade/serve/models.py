"""The models of the service, by the names that they were given when it was started."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from masquerade.checkpoints.folders import load
from masquerade.documents.document import language
from masquerade.errors import MasqueradeError
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.retrieval.encoder import Encoder
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.nn.model import Model
from masquerade.reading.lexical import WindowIndex
from masquerade.reading.reader import RECENT, Reader
from masquerade.reading.shipped import LANGUAGES, shipped
from masquerade.serve.answering import common_folder
from masquerade.serve.batch_threads import BatchThreads
from masquerade.serve.counting import TokenCounter
from masquerade.serve.failures import ServiceError
from masquerade.serve.heap import give_back
from masquerade.serve.limits import ServiceLimits
from masquerade.serve.shared_weights import share_weights
from masquerade.writing.shipped import SHIPPED_WRITERS, shipped_writer
from masquerade.writing.writer import Writer

KERNELS = 32  # prepared matrix products that are kept, each for one size of a batch; the usual 1,024 take gigabytes
BEGINNINGS = 40_000  # characters of a request's texts by which its language is found
WINDOW_TOKENS = 200_000  # of the texts whose windows are kept from one request to the next; about 200 bytes each


@dataclass(frozen=True)
class Sources:
    """What is loaded, by name: folders, hub ids or names of shipped models."""

    readers: Mapping[str, str] = field(default_factory=dict)  # empty: the shipped readers
    fillers: Mapping[str, str] = field(default_factory=dict)
    generators: Mapping[str, str] = field(default_factory=dict)
    writers: Mapping[str, str] = field(default_factory=dict)
    encoders: Mapping[str, str] = field(default_factory=dict)
    collections: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # a model and the folder of its knowledge base
    shared_weights: str = ""  # a folder for weights that several processes map; empty: every process has its own
    keep_facts: bool = False  # changes of facts are written to their folder, and not to a copy


class KeptWindows:
    """The windows of texts, kept from one call to the next up to a number of tokens."""

    def __init__(self, reader: Reader, most: int = WINDOW_TOKENS) -> None:
        self._cut, self._most, self._held = reader.cut, most, 0
        self._kept: OrderedDict[tuple[str, ...], WindowIndex] = OrderedDict()
        self._lock = Lock()

    def __call__(self, passages: tuple[str, ...]) -> WindowIndex:
        """The windows of passages. May be called from several threads."""
        with self._lock:
            if passages in self._kept:
                self._kept.move_to_end(passages)
                return self._kept[passages]
        found = self._cut(passages)
        with self._lock:
            if passages not in self._kept:
                self._kept[passages] = found
                self._held += _size(found)
            while self._held > self._most and len(self._kept) > 1:
                self._held -= _size(self._kept.popitem(last=False)[1])
        return found


def _size(index: WindowIndex) -> int:
    return sum(len(window.ids) for window in index.windows)


@dataclass(frozen=True)
class ServedFacts:
    """A network with a memory between its layers, and the knowledge base that it reads."""

    model: Model
    memory: FactMemory


class ServedModels:
    """All loaded models. Made, used and closed in the thread of the models; names may be read anywhere."""

    def __init__(self, sources: Sources, limits: ServiceLimits) -> None:
        self.sources = sources
        for cache in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):  # PyTorch's, and that of its library
            os.environ.setdefault(cache, str(KERNELS))
        self.threads = BatchThreads()
        self.readers = dict(self._readers(sources, limits))
        self.fillers = {name: _with_tokenizer(load(path), name) for name, path in sources.fillers.items()}
        self.generators = {name: _with_tokenizer(load(path), name) for name, path in sources.generators.items()}
        self.writers = {name: Writer.load(path) for name, path in _with_shipped(sources).items()}
        self.encoders = {name: Encoder.load(path) for name, path in sources.encoders.items()}
        self._folders = list[str]()
        self.facts = {name: self._open_facts(*pair) for name, pair in sources.facts.items()}
        self.collections = dict[str, KnowledgeBase]()
        for name, folder in sources.collections.items():
            self.collections[name] = KnowledgeBase.open(folder)
            self.collections[name].search("北京 first", 1)  # word lists are loaded now, and not at the first question
            if self.readers:
                usual = next(iter(self.readers.values()))
                self.collections[name].readers |= {key: self.readers.get(key, usual) for key in LANGUAGES}
        self.folders = {name: common_folder(base) for name, base in self.collections.items()}
        if sources.shared_weights:
            for model in self._networks():
                share_weights(model, Path(sources.shared_weights).expanduser())
        gc.collect()
        give_back()
        self.counters = {
            **{("reader", name): TokenCounter(each.tokenizer) for name, each in self.readers.items()},
            **{("filler", name): TokenCounter(each.tokenizer) for name, each in self.fillers.items()},
            **{("generator", name): TokenCounter(each.tokenizer) for name, each in self.generators.items()},
            **{("writer", name): TokenCounter(each.model.tokenizer) for name, each in self.writers.items()},
            **{("encoder", name): TokenCounter(each.model.tokenizer) for name, each in self.encoders.items()},
            **{("facts", name): TokenCounter(each.model.tokenizer) for name, each in self.facts.items()},
        }

    def _networks(self) -> Iterator[Model]:
        """All networks, each once."""
        parts = (self.readers, self.writers, self.encoders, self.facts)
        wrapped = [each.model for some in parts for each in some.values()]
        yield from {id(each): each for each in (*wrapped, *self.fillers.values(), *self.generators.values())}.values()

    @staticmethod
    def _readers(sources: Sources, limits: ServiceLimits) -> Iterator[tuple[str, Reader]]:
        given = dict(sources.readers)
        if not given:
            for name in LANGUAGES:
                with suppress(MasqueradeError):
                    shipped(name)
                    given[name] = name
        for name, path in given.items():
            reader = Reader.load(path)
            if reader.memory.size:  # some readers keep nothing
                reader.memory.size, reader.recent.size = limits.memory_bytes, limits.memory_bytes // RECENT
            reader.cut = KeptWindows(reader)
            reader.ask("Who?", "Ann and 安。")  # what a first question prepares is done before the service is ready
            yield name, reader

    def _open_facts(self, model: str, folder: str) -> ServedFacts:
        place = folder
        if not self.sources.keep_facts:
            self._folders.append(tempfile.mkdtemp(prefix="masquerade-facts-"))
            place = os.path.join(self._folders[-1], "kb")
            try:
                shutil.copytree(folder, place)
            except OSError as error:
                raise MasqueradeError(
                    f"The knowledge base '{folder}' cannot be read: {error}; check the path."
                ) from error
        return ServedFacts(load(model), FactMemory(place))

    def reader_for(self, name: str | None, question: str, *texts: str) -> str:
        """The name of the reader that was asked for, or of the one for the language of the question and texts, of which
        the beginnings are looked at."""
        if name is not None:
            named(self.readers, name, "reader")
            return name
        if not self.readers:
            raise ServiceError(404, "unknown_name", "No reader is loaded; start the service with --reader.")
        beginning = max(200, BEGINNINGS // max(1, len(texts)))
        spoken = language(question, *(text[:beginning] for text in texts))
        return spoken if spoken in self.readers else next(iter(self.readers))

    def close(self) -> None:
        """Close files, end threads, and delete the copies of knowledge bases."""
        self.threads.close()
        for base in self.collections.values():
            base.close()
        for facts in self.facts.values():
            facts.memory.close()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)


def named(models: Mapping[str, Any], name: str | None, what: str) -> str:
    """A name that exists; None is the first."""
    if not models:
        raise ServiceError(404, "unknown_name", f"No {what} is loaded; the service was started without one.")
    if name is None:
        return next(iter(models))
    if name not in models:
        raise ServiceError(404, "unknown_name", f"There is no {what} of that name; there are {', '.join(models)}.")
    return name


def size_of(model: Model) -> int:
    """The number of weights of a model."""
    return sum(each.numel() for each in model.parameters())


def _with_tokenizer(model: Model, name: str) -> Model:
    if not model.has_tokenizer:
        raise MasqueradeError(f"The model '{name}' came without a tokenizer, so it cannot read text; give another one.")
    return model.eval()


def _with_shipped(sources: Sources) -> dict[str, str]:
    """The writers that were given; if no model was given at all, those that are shipped."""
    given = (sources.readers, sources.fillers, sources.generators, sources.writers, sources.encoders, sources.facts)
    if any(given):
        return dict(sources.writers)
    found = dict[str, str]()
    for name in SHIPPED_WRITERS:
        with suppress(MasqueradeError):
            shipped_writer(name)
            found[name] = name
    return found
