"""The runs behind docs/results.md: every objective with one small network and one budget of tokens.

    python scripts/results.py DATA OUT [--only mlm,electra] [--seeds 3] [--steps 100] [--threads 1]

From the project's root. DATA holds wikitext2-{train,valid}.txt. Runs that are finished are not done again, broken
ones go on, so it can be stopped and started at will. Prints the table as Markdown; each row's run is one
`masquerade pretrain` command.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from masquerade.objectives import OBJECTIVES

SENTINELS = "options.sentinels=[7990, 7991, 7992, 7993, 7994, 7995, 7996, 7997, 7998, 7999]"  # the rarest word pieces
NAMES = 'options.names=["United States", "New York", "World War", "Los Angeles", "New Zealand", "Royal Navy"]'
SMALL = "train=runs/small.txt"  # head -c 60000 wikitext2-train.txt: read some seven times
CHANGES = {  # what a run changes besides its objective
    **{name: ["model.layers=2"] for name, entry in OBJECTIVES.items() if entry.writes},  # … of encoder and decoder
    "t5": ["model.layers=2", SENTINELS],
    "bart": ["model.layers=2", "model.longest=192"],  # an empty span that is filled in makes a text longer
    "unilm": ["length=127"],  # one more [SEP], between source and target
    "entity": [NAMES],
    "dynamic": ["objective=mlm", SMALL],
    "static": ["objective=mlm", SMALL, "copies=1"],
    "lstm": ["objective=next", "model.recurrent=lstm", "model.positions=[]", "model.layers=2"],
    "gru": ["objective=next", "model.recurrent=gru", "model.positions=[]", "model.layers=2"],
}
RUNS = [*OBJECTIVES, *(name for name in CHANGES if name not in OBJECTIVES)]


def command(name: str, seed: int, data: Path, out: Path, steps: int) -> list[str]:
    """The command of one run."""
    return [
        "masquerade", "pretrain", "recipes/table.toml", f"objective={name}", f"seed={seed}", f"steps={steps}",
        f"train={data}/wikitext2-train.txt", f"held_out={data}/wikitext2-valid.txt", f"tokenizer={out}/vocab",
        f"out={out}/{name}-{steps}-{seed}", *(change.replace("runs", str(out)) for change in CHANGES.get(name, [])),
    ]  # fmt: skip


def curve(folder: Path) -> dict[int, dict[str, float]]:
    """What the log of a run says of the held-out text, by step."""
    log = folder / "log.jsonl"
    entries = [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
    return {entry["step"]: entry for entry in entries if "held_out" in entry}


def main() -> None:
    """Do what is still to do, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default=",".join(RUNS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    text = (asked.data / "wikitext2-train.txt").read_bytes()[:60_000].decode(errors="ignore")
    (asked.out / "small.txt").write_text(text, encoding="utf-8")
    environment = os.environ | {"OMP_NUM_THREADS": str(asked.threads)}
    if not (asked.out / "vocab").is_dir():
        words = ["vocab", f"{asked.data}/wikitext2-train.txt", "--size", "8000", "--out", f"{asked.out}/vocab"]
        subprocess.run([sys.executable, "-m", "masquerade", *words], check=True, env=environment)
    for seed in range(1, asked.seeds + 1):
        for name in asked.only.split(","):
            words = command(name, seed, asked.data, asked.out, asked.steps)
            folder = asked.out / f"{name}-{asked.steps}-{seed}"
            if asked.steps in curve(folder):
                continue
            print(shlex.join(words), file=sys.stderr, flush=True)
            resume = ["--resume"] if folder.is_dir() else []
            tokens = asked.out / f"mlm-{asked.steps}-1" / "tokens"
            if tokens.is_dir() and not resume:
                shutil.copytree(tokens, folder / "tokens")  # the text is the same for all: tokenise it once
            subprocess.run([sys.executable, "-m", "masquerade", *words[1:], *resume], env=environment)
    print("| run | seeds | held-out loss before | after | command |\n|---|---|---|---|---|")
    for name in asked.only.split(","):
        curves = [curve(asked.out / f"{name}-{asked.steps}-{seed}") for seed in range(1, asked.seeds + 1)]
        before, after = ([one[step]["held_out"] for one in curves if step in one] for step in (0, asked.steps))
        if not after:
            continue
        spread = f" ± {statistics.stdev(after):.3f}" if len(after) > 1 else ""
        shown = shlex.join(command(name, 1, asked.data, asked.out, asked.steps)[3:])
        print(f"| {name} | {len(after)} | {before[0]:.2f} | {statistics.mean(after):.3f}{spread} | `{shown}` |")


if __name__ == "__main__":
    main()
