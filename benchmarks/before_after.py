"""An older commit of this repository beside the working tree: layout operations, a training step, answers.

    python benchmarks/before_after.py --rounds 5

Each commit is unpacked to a temporary folder with `git archive`. Old and new run in separate processes that take turns,
in one thread, and are compared by CPU time, so that other programs on the machine matter little. Ratios are old over
new: above 1, the working tree is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
LAYOUTS, WHOLE = "a852b53", "c96f583"  # the last commit with layouts of 12 tensors; the last one before the new tree
FUSED = "2302601"  # the last one whose attention is always PyTorch's fused kernel
QUESTION = "Who announced how hieroglyphs work?"

WORKER = """
import json, sys, time
import torch
torch.set_num_threads(1)
torch.manual_seed(0)


def seconds(run, times):
    run()
    begun = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - begun) / times


def layouts():
    from masquerade.layout import batch, join, pad
    from masquerade.masks import prefix
    some = [prefix(list(range(1, 65)), list(range(1, 33 - n))) for n in range(16)]
    rows, order = batch(some), torch.tensor([3, 1, 2, 0] * 4)
    select = getattr(rows, "select", None) or (lambda order: rows.map(lambda field: field[order]))
    return {
        "join": seconds(lambda: join(some), 200), "pad": seconds(lambda: pad(some[0], 128), 200),
        "batch": seconds(lambda: batch(some), 50), "slice": seconds(lambda: some[0][10:50], 500),
        "select": seconds(lambda: select(order), 500),
    }


def training():
    from masquerade import Spec, build
    from masquerade.layout import batch
    from masquerade.masks import bidirectional
    try:
        from masquerade import kernels
        kernels.use()
    except ImportError:
        pass
    sizes = {"vocab": 8000, "width": 384, "layers": 4, "heads": 6, "feedforward": 1536}
    model = build(Spec(**sizes, outputs=("lm",), attention_dropout=0.0))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    rows = batch([bidirectional(torch.randint(5, 8000, (128,)).tolist()) for _ in range(8)])
    at = torch.rand(8, 128) < 0.15

    def step():
        loss = torch.nn.functional.cross_entropy(model.scores(rows, at=at), rows.ids[at])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    model.train()
    return {"training step": seconds(step, 4)}


def reading():
    from masquerade.reading.reader import Reader
    reader, question = Reader.load("en"), "Who announced how hieroglyphs work?"
    text = open("examples/rosetta.txt", encoding="utf-8").read()
    short = [(question, f"{n}. {text[:900]}") for n in range(16)]
    long = [(question, " ".join(f"{n}. {text}" for n in range(20)))]

    def ask(asked):
        reader.recent.held.clear()
        reader.recent.used = 0
        reader.ask_many(asked)

    return {
        "16 questions on 900 characters each": seconds(lambda: ask(short), 2),
        "a question on 38,000 characters": seconds(lambda: ask(long), 2),
    }


print(json.dumps({"layouts": layouts, "training": training, "reading": reading}[sys.argv[1]]()))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        trees = {commit: unpacked(commit, Path(name) / commit) for commit in (LAYOUTS, WHOLE, FUSED)}
        tasks: list[tuple[str, Callable[[Path], dict[str, float]]]] = [
            (LAYOUTS, lambda tree: worker(tree, "layouts")),
            (WHOLE, lambda tree: worker(tree, "training")),
            (WHOLE, cold_answer),
            (FUSED, lambda tree: worker(tree, "reading")),
        ]
        print(subprocess.run([sys.executable, ROOT / "benchmarks" / "machine.py"], env=environment(ROOT),
                             capture_output=True, text=True, check=True).stdout)  # fmt: skip
        for commit, task in tasks:
            pairs = [(task(trees[commit]), task(ROOT)) for _ in range(rounds)]
            for what in pairs[0][0]:
                ratios = sorted(old[what] / new[what] for old, new in pairs)
                before, now = (median(pair[side][what] for pair in pairs) for side in (0, 1))
                print(f"{what}: {median(ratios):.2f} times {commit} ({ratios[0]:.2f}–{ratios[-1]:.2f}), "
                      f"{before * 1000:.3g} → {now * 1000:.3g} ms of CPU", flush=True)  # fmt: skip


def unpacked(commit: str, folder: Path) -> Path:
    """The tree of a commit in a folder."""
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder


def environment(tree: Path) -> dict[str, str]:
    """The environment of a process that uses a tree."""
    return {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def worker(tree: Path, task: str) -> dict[str, float]:
    """CPU seconds of each part of a task."""
    command = [sys.executable, "-c", WORKER, task]
    done = subprocess.run(command, env=environment(tree), cwd=tree, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def cold_answer(tree: Path) -> dict[str, float]:
    """CPU seconds of `masquerade ask` from the start of its process to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "masquerade", "ask", QUESTION, "--in", "examples/rosetta.txt"]
    subprocess.run(command, env=environment(tree), cwd=tree, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"cold answer": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


if __name__ == "__main__":
    main()
