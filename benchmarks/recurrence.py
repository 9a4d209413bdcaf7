"""How much faster is a long text scored with a memory than in a sliding window that sees as much?

    python benchmarks/recurrence.py [--lengths 32,64,128,256] [--rounds 5] [--plot recurrence.png] [--json FILE]

A Transformer-XL of random weights (4 layers of 256, 4 heads, feed-forward 1,024, 8,000 tokens; float32, one thread)
reads one text. *Window*: every token is predicted from the n tokens before it, which are encoded anew. *Memory*:
segments of 64 tokens, every token sees exactly the last n tokens (same_length), and each is encoded once. The two take
turns; the ratio of their CPU times a token is that of neighbouring turns. Both are first checked to read the same:
with a memory that holds the whole text, and a window as long, the losses agree to 1e-4.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from statistics import median, quantiles

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from machine import machine

from masquerade.nn.model import Model, build
from masquerade.nn.spec import Spec
from masquerade.writing.segments import segment_losses, window_losses

SEGMENT = 64
SCORED = 512  # tokens that a turn with a memory scores, behind a full memory
PLACES = {"positions": ("transformer-xl",), "max_distance": 1024}
SIZE = {"vocab": 8000, "width": 256, "layers": 4, "heads": 4, "feedforward": 1024, "segments": 0}


def network() -> Model:
    """The network that is timed."""
    torch.manual_seed(0)
    spec = Spec.of(
        {**SIZE, "positions": ("transformer-xl",), "max_distance": 1024, "mask": "causal", "outputs": ("lm",)}
    )
    return build(spec).eval()


def check(model: Model, text: list[int]) -> None:
    """Stop unless both ways give the same losses where both see everything."""
    short = text[:100]
    [ours] = segment_losses(model, [short], 10, 100)
    assert torch.allclose(ours, window_losses(model, short, 100), atol=1e-4), "the two ways disagree"


def seconds(length: int, model: Model, text: list[int]) -> tuple[float, float]:
    """The seconds a token of the memory and of the window."""
    begun = time.process_time()
    segment_losses(model, [text[: length + SCORED]], SEGMENT, length, same_length=True)
    memory = (time.process_time() - begun) / (length + SCORED - 1)
    scored = max(8, 2048 // length)  # one batch of windows
    begun = time.process_time()
    window_losses(model, text[: length + scored], length, first=length)
    return memory, (time.process_time() - begun) / scored


def main() -> None:
    """Time both and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default="32,64,128,256")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model = network()
    lengths = [int(each) for each in asked.lengths.split(",")]
    generator = torch.Generator().manual_seed(1)
    text = torch.randint(5, 8000, (max(lengths) + SCORED + 2,), generator=generator).tolist()
    check(model, text)
    print(machine())
    found = dict[int, list[float]]()
    print("| attention length | memory, tokens/s | window, tokens/s | ratio (quartiles) |\n|---|---|---|---|")
    for length in lengths:
        turns = [seconds(length, model, text) for _ in range(asked.rounds + 1)][1:]  # the first one warms up
        found[length] = [window / memory for memory, window in turns]
        low, _, high = quantiles(found[length], n=4) if asked.rounds > 1 else [found[length][0]] * 3
        speeds = [1 / median(side) for side in zip(*turns, strict=True)]
        ratio = f"{median(found[length]):.0f} ({low:.0f}–{high:.0f})"
        print(f"| {length} | {speeds[0]:,.0f} | {speeds[1]:,.1f} | {ratio} |", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(found))
    if asked.plot:
        draw(found, asked.plot)


def draw(found: dict[int, list[float]], path: Path) -> None:
    """Plot the ratio against the attention length."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(list(found), [median(ratios) for ratios in found.values()], marker="o")
    axes.set_xlabel("tokens that each token sees")
    axes.set_ylabel("times as fast as a sliding window")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
