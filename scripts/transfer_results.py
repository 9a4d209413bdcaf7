"""What pretraining is worth: networks of the objectives' table, fine-tuned on SST-2 and reading, beside fresh weights.

    python scripts/transfer_results.py DATA OUT SST2 [--reading READING] [--steps 1500] [--only fresh,mlm,electra …]
        [--seeds 3] [--records 6000] [--questions 4000]

From the project's root. DATA and OUT are those of pretraining_table.py, whose finished runs are used; SST2 holds
train.tsv and dev.tsv, READING the en-train.jsonl and en-tune.jsonl of reading_data.py. `mlm` is pretrained for --steps
steps; the others for as many as take the same CPU time, measured over a few steps of each (OUT/costs.json). `fresh` has
the same network with random weights; `elmo` adds the features of two language models to it. Finished runs are not done
again, interrupted ones go on. Prints the mean and the standard deviation of the fine-tunings.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pretraining_table as table

STARTS = ("fresh", "mlm", "electra", "xlnet", "unilm", "elmo")
table.ROWS["fresh"] = ("no pretraining", ["objective=mlm", "rate=0", *table.NEAR])
table.ROWS["elmo"] = ("language models of both directions (ELMo)", ["model.norm_first=false"])
TIMED = 8  # steps whose CPU time is compared


def cost(name: str, out: Path) -> float:
    """The CPU seconds of a step, measured once."""
    kept = out / "costs.json"
    known: dict[str, float] = json.loads(kept.read_text()) if kept.is_file() else {}
    if name not in known:
        from masquerade.data.packing import DataCursor
        from masquerade.training.loop import Run
        from masquerade.training.pretraining import Pretrain
        from masquerade.training.recipe import Pretraining, read_recipe

        with tempfile.TemporaryDirectory() as folder:
            _, recipe, *words = [*table.command(name, 1, out, 1000), f"out={folder}", "held_out=[]"]
            job = Run(Pretrain(read_recipe(Path(recipe), Pretraining, words)))
            batches = job.job.batches(DataCursor())
            job._step(next(batches)[0])  # the first one warms up
            begun = time.process_time()
            for _ in range(TIMED):
                job._step(next(batches)[0])
            known[name] = (time.process_time() - begun) / TIMED
        kept.write_text(json.dumps(known))
    return known[name]


def pretrained(name: str, asked: argparse.Namespace, environment: dict[str, str]) -> Path:
    """The folder of a finished pretraining with the CPU time of --steps steps of `mlm`."""
    out: Path = asked.out
    known = {"fresh": 1, "mlm": asked.steps}
    steps = known[name] if name in known else round(asked.steps * cost("mlm", out) / cost(name, out))
    if not table.train(name, 1, out, steps, environment):
        sys.exit(f"The pretraining of '{name}' failed.")
    return out / f"{name}-{steps}-1"


def tuning(task: str, asked: argparse.Namespace) -> list[str]:
    """The arguments of `masquerade train` for one task, without its start."""
    if task == "sst2":
        files = [f"train={asked.sst2}/train.tsv", f"held_out={asked.sst2}/dev.tsv", f"limit={asked.records}"]
        sizes = ["epochs=3", "length=64", "row=128", "rate=3e-4"]
        return ["train", "classifier", "recipes/classifier.toml", *files, *sizes]
    files = [f"train={asked.reading}/en-train.jsonl", f"held_out={asked.reading}/en-tune.jsonl"]
    sizes = [f"limit={asked.questions}", "epochs=2", "fork=0", "written=0", "unanswerable=0", "rate=5e-4"]
    sizes += ["batch=16", "window=160", "row=300", "parts.words=0", "held_out_questions=500"]
    return ["train", "reader", "recipes/reader-en.toml", *files, *sizes]


def tune(task: str, name: str, start: Path, seed: int, asked: argparse.Namespace, environment: dict[str, str]) -> float:
    """The score of one fine-tuning in percent: accuracy on SST-2, F1 of answers."""
    folder: Path = asked.out / "transfer" / f"{task}-{start.name}-{seed}"
    words = [*tuning(task, asked), f"start={start}", f"seed={seed}", f"out={folder}"]
    if name == "elmo":  # the features of its language models, beside fresh weights
        words += [f"start={pretrained('fresh', asked, environment)}", f"features={start}"]
    if not (folder / "done.json").is_file():
        resume = ["--resume"] if any(folder.glob("step-*")) else []
        print("masquerade", *words, *resume, file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "masquerade", *words, *resume], check=True, env=environment)
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        metric = "accuracy" if task == "sst2" else "f1"
        (folder / "done.json").write_text(json.dumps([entry for entry in log if metric in entry][-1][metric]))
    value = float(json.loads((folder / "done.json").read_text()))
    return value if value > 1 else 100 * value


def main() -> None:
    """Do what is still to do, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "out", "sst2"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--reading", type=Path, help="fine-tune on questions too")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--only", default=",".join(STARTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--questions", type=int, default=4000)
    asked = parser.parse_args()
    environment = os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    names = asked.only.split(",")
    table.prepare(asked.data, asked.out, names, environment)
    print("| task | begun with | score | seeds |\n|---|---|---|---|")
    for task in ("sst2", "reading") if asked.reading else ("sst2",):
        for name in names:
            if task == "reading" and name == "elmo":
                continue
            start = pretrained(name, asked, environment)
            scores = [tune(task, name, start, seed, asked, environment) for seed in range(1, asked.seeds + 1)]
            spread = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
            print(f"| {task} | {name} | {statistics.mean(scores):.1f}{spread} | {len(scores)} |", flush=True)


if __name__ == "__main__":
    main()
