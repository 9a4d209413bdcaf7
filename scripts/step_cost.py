"""What a training step of one run costs beside that of another.

    python scripts/step_cost.py runs/mlm-100-1 runs/electra-100-1 [--rounds 40]

Takes up finished runs of `masquerade pretrain` and lets them take turns, a step each, in one process; their folders
stay as they are. A step is all of it: making the examples, forward, backward and the optimizer. Prints the median and
the quartiles, over the rounds, of each step's time divided by the first run's in the same round.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median, quantiles

from masquerade.files import read_json
from masquerade.training.loop import Run
from masquerade.training.pretraining import Pretrain
from masquerade.training.recipe import Pretraining

UNTIMED = 3  # rounds before the first that counts


def main() -> None:
    """Take turns, and say what that came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="the runs; the first is what the others are compared to")
    parser.add_argument("--rounds", type=int, default=40)
    asked = parser.parse_args()
    recipes = [read_json(folder / "recipe.json") | {"out": str(folder)} for folder in asked.folders]
    runs = [Run(Pretrain(Pretraining(**recipe)), resume=True) for recipe in recipes]
    streams = [run.job.batches(run.place) for run in runs]
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(UNTIMED + asked.rounds):
        for run, stream, spent in zip(runs, streams, times, strict=True):
            start = time.perf_counter()
            rows, _ = next(stream)
            run._step(rows)
            spent.append(time.perf_counter() - start)
    for folder, spent in zip(asked.folders, times, strict=True):
        ratios = [one / other for one, other in zip(spent[UNTIMED:], times[0][UNTIMED:], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        print(f"{folder}: {median(ratios):.2f} ({low:.2f}–{high:.2f}), {1000 * median(spent[UNTIMED:]):.0f} ms a step")


if __name__ == "__main__":
    main()
