"""The runs behind docs/results.md: every objective with one small network and one budget of tokens.

    python scripts/results.py DATA OUT [--only mlm,electra] [--seeds 3] [--steps 100] [--threads 1]
    python scripts/results.py DATA OUT --only mlm,electra --cost 20

From the project's root. DATA holds wikitext2-{train,valid}.txt and, for the two Chinese runs, zhwiki.jsonl. Runs that
are finished are not done again, broken ones go on, so it can be stopped and started at will. Prints the table as
Markdown; each row's run is one `masquerade pretrain` command. With --cost nothing is trained to an end: the objectives
take so many turns of a few steps, each in a process of its own, and the price of a step is printed against the first's.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from masquerade.objectives.registry import OBJECTIVES

NAMES = 'options.names=["United States", "New York", "World War", "Los Angeles", "New Zealand", "Royal Navy"]'
SMALL = "train=runs/small.txt"  # the first 60,000 bytes of wikitext2-train.txt: read some seven times
CHINESE = ["train=runs/zh-train.jsonl", "held_out=runs/zh-valid.jsonl", "tokenizer=runs/zh-vocab"]
CHANGES = {  # what a run changes besides its objective
    **{name: ["model.layers=2"] for name, entry in OBJECTIVES.items() if entry.decoder},  # … of encoder and decoder
    "bart": ["model.layers=2", "model.longest=192"],  # an empty span that is filled in makes a text longer
    "unilm": ["length=127"],  # one more [SEP], between source and target
    "entity": [NAMES],
    "lstm": ["objective=next", "model.recurrent=lstm", "model.positions=[]", "model.layers=2"],
    "gru": ["objective=next", "model.recurrent=gru", "model.positions=[]", "model.layers=2"],
    "dynamic": ["objective=mlm", SMALL],
    "static": ["objective=mlm", SMALL, "copies=1"],
    "chinese-tokens": ["objective=mlm", *CHINESE],
    "chinese-words": CHINESE,
}
TITLES = {  # the rows of the table, in its order
    "mlm": "masked tokens (BERT)",
    "whole-word": "masked whole words",
    "n-gram": "masked n-grams (ALBERT)",
    "entity": "masked names (ERNIE)",
    "nsp": "masked tokens and next sentences (BERT)",
    "sop": "n-grams and sentence order (ALBERT)",
    "span": "spans and their edges (SpanBERT)",
    "electra": "replaced words (ELECTRA); the words are the generator’s",
    "salient": "one date or number (REALM)",
    "xlnet": "permutation (XLNet)",
    "mpnet": "permutation with all positions (MPNet)",
    "unilm": "four masks (UniLM)",
    "glm": "short blanks (GLM)",
    "glm-long": "one long blank (GLM)",
    "diffusion": "masked diffusion",
    "blocks": "block diffusion, blocks of 4",
    "next": "next token (GPT)",
    "backward": "previous token",
    "lstm": "next token, an LSTM of 2 layers",
    "gru": "next token, a GRU of 2 layers",
    "mass": "write the missing half (MASS)",
    "t5": "write the lost spans (T5)",
    "bart": "write the clean text (BART)",
    "pegasus": "write the gap sentences (PEGASUS)",
    "palm": "write on (PALM, stage 2)",
    "dynamic": "masked tokens of a small text, new ones each epoch",
    "static": "masked tokens of a small text, always the same",
    "chinese-tokens": "masked tokens, Chinese",
    "chinese-words": "masked whole words, Chinese",
}
PARTS = {"pairs": "pairs", "boundaries": "edges", "replaced": "replaced"}  # of a loss, besides words


def changes(name: str) -> list[str]:
    """What a run changes of recipes/table.toml, but for its text, its seed and its length."""
    own = CHANGES.get(name, [])
    return own if any(change.startswith("objective=") for change in own) else [f"objective={name}", *own]


def command(name: str, seed: int, data: Path, out: Path, steps: int) -> list[str]:
    """The command of one run."""
    return [
        "masquerade", "pretrain", "recipes/table.toml", f"seed={seed}", f"steps={steps}",
        f"train={data}/wikitext2-train.txt", f"held_out={data}/wikitext2-valid.txt", f"tokenizer={out}/vocab",
        f"out={out}/{name}-{steps}-{seed}", *(change.replace("=runs/", f"={out}/") for change in changes(name)),
    ]  # fmt: skip


def curve(folder: Path) -> dict[int, dict[str, float]]:
    """What the log of a run says of the held-out text, by step."""
    log = folder / "log.jsonl"
    entries = [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
    return {entry["step"]: entry for entry in entries if "held_out" in entry}


def prepare(data: Path, out: Path, names: Sequence[str], environment: dict[str, str]) -> None:
    """The vocabularies and the parts of texts that the runs read."""
    out.mkdir(parents=True, exist_ok=True)
    text = (data / "wikitext2-train.txt").read_bytes()[:60_000].decode(errors="ignore")
    (out / "small.txt").write_text(text, encoding="utf-8")
    made = [(data / "wikitext2-train.txt", "8000", out / "vocab")]
    if any(name.startswith("chinese-") for name in names):
        articles = (data / "zhwiki.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        for part, name in ((articles[:2000], "zh-train.jsonl"), (articles[2000:], "zh-valid.jsonl")):
            if not (out / name).is_file():  # a new file would be tokenised again
                (out / name).write_text("".join(part), encoding="utf-8")
        made.append((out / "zh-train.jsonl", "12000", out / "zh-vocab"))
    for source, size, folder in made:
        if not folder.is_dir():
            words = ["vocab", str(source), "--size", size, "--sentinels", "20", "--out", str(folder)]
            subprocess.run([sys.executable, "-m", "masquerade", *words], check=True, env=environment)


def row(name: str, curves: Sequence[dict[int, dict[str, float]]], steps: int) -> str:
    """A line of the table, of finished runs: words, other parts, and how they came about."""

    def at(step: int, part: str) -> list[float]:
        return [each[step][part] if part in each[step] else each[step]["held_out"] for each in curves]

    before, after = at(0, "tokens"), at(steps, "tokens")
    spread = f" ± {statistics.stdev(after):.3f}" if len(after) > 1 else ""
    others = ", ".join(
        f"{title} {statistics.mean(at(0, part)):.3f} → {statistics.mean(at(steps, part)):.3f}"
        for part, title in PARTS.items()
        if part in curves[0][steps]
    )
    cells = [TITLES[name], str(len(curves)), f"{statistics.mean(before):.2f}"]
    cells += [f"{statistics.mean(after):.3f}{spread}", others, f"`{shlex.join(changes(name))}`"]
    return "| " + " | ".join(cells) + " |"


def take_turns(turns: Connection, words: Sequence[str], steps: int) -> None:
    """The seconds of some steps, whenever asked for; the first ones, which nobody counts, before that."""
    from masquerade.data.packing import DataCursor
    from masquerade.training.loop import Run
    from masquerade.training.pretraining import Pretrain
    from masquerade.training.recipe import Pretraining, read_recipe

    run = Run(Pretrain(read_recipe(Path(words[0]), Pretraining, words[1:])))
    batches = run.job.batches(DataCursor())
    while True:
        start = time.perf_counter()
        for _ in range(steps):
            run._step(next(batches)[0])
        turns.send(time.perf_counter() - start)
        if not turns.recv():
            return


def cost(names: Sequence[str], data: Path, out: Path, rounds: int, steps: int = 5) -> None:
    """Print what a step of each objective takes, and how that compares with the first one's in the same round."""
    context, engines, workers = multiprocessing.get_context("spawn"), dict[str, Connection](), []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            words = [*command(name, 1, data, out, 1000)[2:], f"out={folder}/{name}", "held_out=[]"]
            engines[name], far = context.Pipe()
            workers.append(context.Process(target=take_turns, args=(far, words, steps), daemon=True))
            workers[-1].start()
            engines[name].recv()
        taken: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(rounds):
            for name in names if turn % 2 else reversed(names):
                engines[name].send(True)
                taken[name].append(engines[name].recv() / steps)
        for name in names:
            engines[name].send(False)
            ratios = [one / other for one, other in zip(taken[name], taken[names[0]], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            seconds = statistics.median(taken[name])
            print(f"{name}: {seconds * 1000:.0f} ms a step, {middle:.2f} times {names[0]} ({low:.2f}–{high:.2f})")
        for worker in workers:
            worker.join()


def main() -> None:
    """Do what is still to do, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default=",".join(TITLES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cost", type=int, default=0, help="so many rounds of timing instead, at least 2")
    asked = parser.parse_args()
    names = asked.only.split(",")
    environment = os.environ | {"OMP_NUM_THREADS": str(asked.threads)}
    prepare(asked.data, asked.out, names, environment)
    if asked.cost:
        os.environ["OMP_NUM_THREADS"] = str(asked.threads)
        cost(names, asked.data, asked.out, asked.cost)
        return
    for seed in range(1, asked.seeds + 1):
        for name in names:
            words = command(name, seed, asked.data, asked.out, asked.steps)
            folder = asked.out / f"{name}-{asked.steps}-{seed}"
            if asked.steps in curve(folder):
                continue
            print(shlex.join(words), file=sys.stderr, flush=True)
            resume = ["--resume"] if folder.is_dir() else []
            first = "chinese-tokens" if name.startswith("chinese-") else "mlm"
            tokens = asked.out / f"{first}-{asked.steps}-1" / "tokens"
            if tokens.is_dir() and not resume:
                shutil.copytree(tokens, folder / "tokens")  # the text is the same for all: tokenise it once
            subprocess.run([sys.executable, "-m", "masquerade", *words[1:], *resume], env=environment)
    print("| objective | seeds | before | after | other parts | CHANGES |\n|---|---|---|---|---|---|")
    for name in names:
        curves = [curve(asked.out / f"{name}-{asked.steps}-{seed}") for seed in range(1, asked.seeds + 1)]
        if any(asked.steps in each for each in curves):
            print(row(name, [each for each in curves if asked.steps in each], asked.steps))


if __name__ == "__main__":
    main()
