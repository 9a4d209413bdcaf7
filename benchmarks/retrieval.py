"""Collections of ten thousand to a million passages: time and size of the indexes, queries a second, and recall against
exact search. The vectors are of real texts: among random vectors none are near, and recall means nothing.

python benchmarks/retrieval.py encode vectors.npy CHECKPOINT TEXTS.jsonl… --count 1000200   # once; goes on where it was
python benchmarks/retrieval.py measure vectors.npy --sizes 10000,100000,1000000 --plot growth.png
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

QUERIES, NEAREST, PART = 200, 10, 4096


def main() -> None:
    """Encode texts, or measure indexes of their vectors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("encode", "measure", "build", "search"))
    parser.add_argument("vectors", type=Path)
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--count", type=int, default=1_000_200)
    parser.add_argument("--token-means", action="store_true", help="means of token embeddings, which take minutes only")
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    if options.action == "encode":
        encode(options.vectors, options.sources[0], options.token_means, options.sources[1:], options.count)
    elif options.action == "measure":
        measure(options.vectors, [int(size) for size in options.sizes.split(",")], options.plot)
    elif options.action == "build":
        print(json.dumps(build(options.vectors, Path(options.sources[0]), options.count)))
    else:
        print(json.dumps(search(options.vectors, Path(options.sources[0]), options.count)))


def sentences(sources: Sequence[str]) -> Iterator[str]:
    """The sentences of the texts of records, from 40 characters on (Chinese: from 12), each once."""
    from masquerade.data.records import read_records
    from masquerade.documents.document import language
    from masquerade.memory.retrieval.training_pairs import sentences as places

    seen = set[int]()
    for source in sources:
        for record in read_records(source):
            text = str(record.get("text") or record.get("abstract") or record.get("content") or "")
            for start, end in places(text):
                sentence = text[start:end].strip()
                if len(sentence) >= (12 if language(sentence) == "zh" else 40) and hash(sentence) not in seen:
                    seen.add(hash(sentence))
                    yield sentence


class TokenMeans:
    """An encoder's token embeddings alone: the vector of a text is their mean. Hundreds of times as fast as the whole
    network, and its vectors too are near each other where texts share words."""

    def __init__(self, checkpoint: str) -> None:
        import torch

        from masquerade import Encoder

        model = Encoder.load(checkpoint).model
        self.tokenizer, self.table = model.tokenizer, model.words.table.weight.detach()
        self.torch = torch

    def encode_passages(self, texts: Sequence[str]) -> Any:
        """The vectors of texts: (n, width)"""
        ids = [self.tokenizer.encode(text) or [0] for text in texts]
        bounds = np.cumsum([0, *(len(each) for each in ids[:-1])])
        flat = self.torch.tensor([number for each in ids for number in each])
        means = self.torch.nn.functional.embedding_bag(flat, self.table, self.torch.from_numpy(bounds))
        return self.torch.nn.functional.normalize(means)


def encode(out: Path, checkpoint: str, means: bool, sources: Sequence[str], count: int) -> None:
    """Write the vectors of the first sentences, in half precision, part by part."""
    from masquerade import Encoder

    encoder, texts = TokenMeans(checkpoint) if means else Encoder.load(checkpoint), sentences(sources)
    parts = Path(f"{out}.parts")
    parts.mkdir(exist_ok=True)
    done, start = 0, time.process_time()
    while done < count and (some := list(islice(texts, min(PART, count - done)))):
        part = parts / f"{done:09d}.npy"
        if not part.is_file():
            np.save(part.with_suffix(".tmp.npy"), encoder.encode_passages(some).numpy().astype(np.float16))
            part.with_suffix(".tmp.npy").rename(part)
        done += len(some)
        print(f"{done:,} sentences, {time.process_time() - start:.0f} s of CPU", file=sys.stderr)
    np.save(out, np.concatenate([np.load(path) for path in sorted(parts.glob("?????????.npy"))]))


def measure(vectors: Path, sizes: Sequence[int], plot: Path | None) -> None:
    """Build and search an index of each size, in processes of their own, and print a table."""
    print("| passages | kind | built, s of CPU | MB on disk | MB of memory | queries/s | recall@10 |")
    print("|---|---|---|---|---|---|---|")
    found = list[tuple[int, dict[str, Any]]]()
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            values = {}
            for action in ("build", "search"):
                words = [sys.executable, __file__, action, str(vectors), folder, "--count", str(size)]
                made = subprocess.run(words, check=True, capture_output=True, text=True)
                values |= json.loads(made.stdout.splitlines()[-1])
        found.append((size, values))
        print(
            f"| {size:,} | {values['kind']} | {values['built']:.1f} | {values['disk']:.0f} | {values['memory']:.0f} | "
            f"{values['rate']:.0f} | {values['recall']:.3f} |",
            flush=True,
        )
    if plot is not None:
        draw(found, plot)


def draw(found: Sequence[tuple[int, dict[str, Any]]], path: Path) -> None:
    """Draw how the costs grow with the passages."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="passages")
    lines = {"ms a query": "ms", "s to build": "built", "MB on disk": "disk", "MB of memory": "memory"}
    for name, key in lines.items():
        axes.plot([size for size, _ in found], [values[key] for _, values in found], marker="o", label=name)
    for size, values in found:
        axes.annotate(
            f"recall {values['recall']:.3f}",
            (size, values["ms"]),
            xytext=(0, 8),
            textcoords="offset points",
            ha="center",
        )
    axes.margins(x=0.12)
    axes.legend()
    axes.grid(which="major", alpha=0.3)
    figure.savefig(path, dpi=120)


def build(vectors: Path, folder: Path, size: int) -> dict[str, Any]:
    """Put the first vectors into a collection, and index them."""
    from masquerade.memory.retrieval.passages import Passage
    from masquerade.memory.retrieval.store import CollectionStore, Entry, SourceFile
    from masquerade.memory.retrieval.vector_index import VectorIndex

    held = np.load(vectors, mmap_mode="r")
    if size + QUERIES > len(held):
        sys.exit(f"There are {len(held):,} vectors; {size:,} passages need {QUERIES} more for queries: encode more.")
    store = CollectionStore(folder, create=True)
    for start in range(0, size, PART):
        some = np.asarray(held[start : min(size, start + PART)], dtype=np.float32)
        passages = [Passage("", 0, 0, "", (), (0,), (1,)) for _ in some]
        with store.transaction():
            store.put(SourceFile(f"{start}", f"{start}", "", ""), [Entry("", "en", "line", passages)], some)
    start_time = time.process_time()
    index = VectorIndex(store, held.shape[1])
    index.save()
    built, disk = time.process_time() - start_time, index.path.stat().st_size / 1e6
    kind = index.kind
    store.close()
    return {"kind": kind, "built": built, "disk": disk}


def search(vectors: Path, folder: Path, size: int) -> dict[str, Any]:
    """Open the index as a cold process does, and search vectors that are not in it."""
    from masquerade.memory.retrieval.store import CollectionStore
    from masquerade.memory.retrieval.vector_index import VectorIndex

    store, held = CollectionStore(folder), np.load(vectors, mmap_mode="r")
    index = VectorIndex(store, held.shape[1])
    queries = np.asarray(held[size : size + QUERIES], dtype=np.float32)
    start = time.process_time()
    found = [[id for id, _ in index.search(query, NEAREST)] for query in queries]
    spent = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    scores, ids = np.zeros((QUERIES, 0), np.float32), np.zeros((QUERIES, 0), np.int64)
    numbers = store.ids()
    for first in range(0, size, PART):  # exact search, after the memory was measured
        part = np.asarray(held[first : min(size, first + PART)], dtype=np.float32)
        scores = np.concatenate([scores, queries @ part.T], 1)
        ids = np.concatenate([ids, np.broadcast_to(numbers[first : first + len(part)], (QUERIES, len(part)))], 1)
        best = np.argsort(-scores, axis=1)[:, :NEAREST]
        scores, ids = np.take_along_axis(scores, best, 1), np.take_along_axis(ids, best, 1)
    hits = sum(len(set(row) & set(right.tolist())) for row, right in zip(found, ids, strict=True))
    return {
        "memory": memory,
        "rate": QUERIES / max(spent, 1e-9),
        "ms": 1000 * spent / QUERIES,
        "recall": hits / (QUERIES * NEAREST),
    }


if __name__ == "__main__":
    main()
