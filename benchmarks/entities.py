"""What a memory of entities costs: the share of a forward pass, by the number of entities; and editing a fact.

    python benchmarks/entities.py [--sizes 10000,100000] [--rounds 5]

A 6-layer encoder of width 384 reads 8 texts of 128 tokens with 4 mentions each, with and without Entities as Experts
(the best 100 entities of each mention), by turns; shares are medians of the ratios. Facts are edited in a knowledge
base of 2,000 facts on disk, each edit a transaction.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from masquerade import Model, Spec
from masquerade.layout import batch
from masquerade.masks import bidirectional
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.memories import KnownEntity, Relation
from masquerade.memory.entity.networks import parts
from masquerade.memory.entity.vectors import TextVectors

ROWS, LENGTH, MENTIONS, WIDTH, FACTS = 8, 128, 4, 384, 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    settings = {"vocab": 1000, "width": WIDTH, "layers": 6, "heads": 12, "feedforward": 1536, "longest": LENGTH}
    plain = Model(Spec(**settings)).eval()
    memory = Model(Spec(**settings, between={4: ("entities", {"width": WIDTH})})).eval()
    layout = batch([bidirectional(list(range(1, LENGTH + 1)))] * ROWS)
    first = torch.tensor([row * LENGTH + 8 * mention for row in range(ROWS) for mention in range(MENTIONS)])
    inputs = {"memory.mentions": torch.stack([first, first + 2], dim=-1)}
    print("| entities | memory's share on top of a forward pass |\n|---|---|")
    with torch.inference_mode():
        for size in map(int, options.sizes.split(",")):
            (part,) = parts(memory)
            part.entities.set(torch.randn(size, WIDTH))
            ratios = []
            for _ in range(options.rounds + 1):  # the first round warms up
                without = seconds(lambda: plain.flow(layout))
                ratios.append(seconds(lambda: memory.flow(layout, inputs=inputs)) / without)
            print(f"| {size:,} | {median(ratios[1:]) - 1:.0%} |")
    with tempfile.TemporaryDirectory() as folder:
        base = knowledge(Path(folder) / "kb")
        times = [seconds(lambda number=number: base.change(number, "of", number + 1)) for number in range(500)]
        print(f"\nediting a fact: {1000 * median(times):.2f} ms")
        base.close()


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


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
