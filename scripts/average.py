"""The mean of the weights of several runs that went on from one another, which often reads better than any of them.

    python scripts/average.py RUN RUN … OUT [--weights 1 2 …]

Heads, vocabulary and settings are those of the last run; all of them have to be alike in that.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from masquerade.checkpoints.folders import load, save


def main() -> None:
    """Read, average, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("out", type=Path)
    parser.add_argument("--weights", type=float, nargs="+", help="what each run counts; all alike if not said")
    asked = parser.parse_args()
    weights = torch.tensor(asked.weights or [1.0] * len(asked.runs))
    if len(weights) != len(asked.runs) or not weights.sum() > 0:
        parser.error(f"there are {len(asked.runs)} runs and {len(weights)} weights, whose sum has to be above 0")
    models = [load(run) for run in asked.runs]
    states = [model.state_dict() for model in models]
    if any({name: each.shape for name, each in state.items()} != {name: each.shape for name, each in states[0].items()}
           for state in states):  # fmt: skip
        parser.error("the runs have other weights than the first one, or of other sizes")
    shares = weights / weights.sum()
    mean = {
        name: sum((share * state[name] for share, state in zip(shares, states, strict=True)), torch.zeros(()))
        for name in states[-1]
    }
    models[-1].load_state_dict(mean)
    save(models[-1], asked.out)
    print(f"{asked.out}: the mean of {len(states)} runs")


if __name__ == "__main__":
    main()
