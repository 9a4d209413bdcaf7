"""What a memory of entities costs: the share of a forward pass, by the number of entities; and editing a fact.

    python benchmarks/entities.py [--sizes 1000,10000,100000,1000000] [--rounds 5] [--plot entities.png]

A 6-layer encoder of width 384 reads 8 texts of 128 tokens with 4 mentions each, with and without Entities as Experts
(the best 100 entities of each mention), by turns; shares are medians of the ratios of CPU times, one thread. *Exact*
computes all products; *FAISS* searches some lists of an index, which is in use from 400,000 entities on. Vectors are
random. Facts are edited in a knowledge base of 2,000 facts on disk, each edit a transaction.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from machine import machine
from torch import Tensor

from masquerade import Model, Spec
from masquerade.files import write_whole
from masquerade.layout import batch
from masquerade.masks import bidirectional
from masquerade.memory.entity import search
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.memories import KnownEntity, Relation
from masquerade.memory.entity.networks import parts
from masquerade.memory.entity.vectors import TextVectors

ROWS, LENGTH, MENTIONS, WIDTH, FACTS = 8, 128, 4, 384, 2000
WAYS = {"exact": 10**9, "FAISS": 1}  # from how many entities on FAISS is used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        base = knowledge(Path(folder) / "kb")
        times = [seconds(lambda number=number: base.change(number, "of", number + 1), wall=True)
                 for number in range(500)]  # fmt: skip
        print(f"\nediting a fact: {1000 * median(times):.2f} ms\n", flush=True)
        base.close()
    found: dict[str, dict[int, float]] = {way: {} for way in WAYS}
    print("| entities | exact | FAISS | making the index, CPU s |\n|---|---|---|---|", flush=True)
    for size in map(int, options.sizes.split(",")):
        made = 0.0
        vectors = torch.randn(size, WIDTH, generator=torch.Generator().manual_seed(size))
        for way, least in WAYS.items():
            search.LARGE = least
            found[way][size], made = share(vectors, options.rounds)
        print(f"| {size:,} | {found['exact'][size]:.0%} | {found['FAISS'][size]:.0%} | {made:.1f} |", flush=True)
    if options.plot:
        draw(found, options.plot)


@torch.inference_mode()
def share(vectors: Tensor, rounds: int) -> tuple[float, float]:
    """What the memory adds to a forward pass, as a share of it, and the CPU seconds of the first search, which makes
    the index."""
    settings = {"vocab": 1000, "width": WIDTH, "layers": 6, "heads": 12, "feedforward": 1536, "longest": LENGTH}
    plain = Model(Spec(**settings)).eval()
    memory = Model(Spec(**settings, between={4: ("entities", {"width": WIDTH})})).eval()
    layout = batch([bidirectional(list(range(1, LENGTH + 1)))] * ROWS)
    first = torch.tensor([row * LENGTH + 8 * mention for row in range(ROWS) for mention in range(MENTIONS)])
    inputs = {"memory.mentions": torch.stack([first, first + 2], dim=-1)}
    (part,) = parts(memory)
    part.entities.set(vectors)
    made = seconds(lambda: part.entities.best(torch.zeros(1, WIDTH), 1)) if part.entities.large() else 0.0
    ratios = []
    for _ in range(rounds + 1):  # the first round warms up
        without = seconds(lambda: plain.flow(layout))
        ratios.append(seconds(lambda: memory.flow(layout, inputs=inputs)) / without)
    return median(ratios[1:]) - 1, made


def draw(found: Mapping[str, Mapping[int, float]], path: Path) -> None:
    """Plot the shares against the number of entities."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.add_subplot()
    for way, shares in found.items():
        axes.plot(list(shares), [100 * value for value in shares.values()], marker="o", label=way)
    axes.axhline(25, color="grey", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.set_xlabel("entities")
    axes.set_ylabel("% on top of a forward pass")
    axes.grid(alpha=0.3)
    axes.legend()
    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=130, format=path.suffix[1:]))


def knowledge(folder: Path) -> FactMemory:
    """A knowledge base of FACTS facts with vectors of zeros."""

    class Zeros(TextVectors):
        def __init__(self) -> None:
            self.centre = torch.zeros(4)

        def __call__(self, texts: object, progress: object = None) -> torch.Tensor:
            self.centre = torch.zeros(4)
            return torch.zeros(len(list(texts)), 4)  # type: ignore[call-overload]

    entities = [KnownEntity(str(number), f"entity {number}") for number in range(FACTS + 1)]
    facts = [(str(number), "of", str(number + 1)) for number in range(FACTS)]
    return FactMemory.create(folder, entities, Zeros(), [Relation("of", "of")], facts)


def seconds(run: Callable[[], object], wall: bool = False) -> float:
    """The CPU time of a call, or the time on the clock."""
    clock = time.perf_counter if wall else time.process_time
    start = clock()
    run()
    return clock() - start


if __name__ == "__main__":
    main()
