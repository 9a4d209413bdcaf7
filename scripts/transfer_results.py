"""What pretraining is worth: encoders pretrained with equal compute, fine-tuned on SST-2 and on reading.

    python scripts/transfer_results.py DATA SST2 READING OUT [--steps 6000] [--only fresh,mlm,electra,xlnet,unilm,elmo]
        [--tasks sst2,reading] [--seeds 3] [--records 6000] [--questions 4000]

From the project's root. DATA holds enwiki.jsonl, SST2 train.tsv and dev.tsv, READING the en-train.jsonl and
en-tune.jsonl of scripts/reading_data.py. All encoders have 4 layers of 256 and one vocabulary. `mlm` is trained for
--steps steps; the others for as many as take the same CPU time, measured over a few steps of each (OUT/costs.json).
`fresh` has the same network with random weights; `elmo` adds the features of two language models to it. Finished runs
are not done again, interrupted ones go on. Prints the mean and the standard deviation of the fine-tunings.
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

ROTARY = 'model.positions=["rotary"]'
STARTS: dict[str, list[str]] = {  # what each pretraining changes of recipes/mlm.toml
    "fresh": ["objective=mlm", "rate=0", "steps=1", ROTARY],
    "mlm": ["objective=mlm", ROTARY],
    "electra": ["objective=electra", "options.size=0.5", "options.shared=false", ROTARY],
    "xlnet": ["objective=xlnet"],
    "unilm": ["objective=unilm", "length=127", ROTARY],
    "elmo": ["objective=elmo", "model.layers=2", "model.norm_first=false"],
}
COMMON = ["length=128", "row=128", "rows=32", "micro=32", "rate=1e-3", "warmup=200", "save_every=500"]
COMMON += ["evaluate_every=500", "model.norm_first=true", "model.dropout=0.0", "model.attention_dropout=0.0"]
TIMED = 8  # steps whose CPU time is compared


def run(words: list[str], folder: Path) -> None:
    """Run a command of masquerade to its end, from where it was interrupted."""
    resume = ["--resume"] if any(folder.glob("step-*")) else []
    print("masquerade", *words, *resume, file=sys.stderr, flush=True)
    environment = os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    subprocess.run([sys.executable, "-m", "masquerade", *words, *resume], check=True, env=environment)


def pretraining(name: str, out: Path, steps: int) -> list[str]:
    """The arguments of `masquerade pretrain` for one start."""
    files = [f"train={out}/train.jsonl", f"held_out={out}/valid.jsonl", f"tokenizer={out}/vocab"]
    return ["pretrain", "recipes/mlm.toml", *files, *COMMON, f"steps={steps}", *STARTS[name], f"out={out}/{name}"]


def prepare(data: Path, out: Path) -> None:
    """The text and the vocabulary."""
    if (out / "vocab").is_dir():
        return
    out.mkdir(parents=True, exist_ok=True)
    articles = (data / "enwiki.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (out / "train.jsonl").write_text("".join(articles[:6000]), encoding="utf-8")
    (out / "valid.jsonl").write_text("".join(articles[6000:]), encoding="utf-8")
    run(["vocab", f"{out}/train.jsonl", "--size", "8000", "--out", f"{out}/vocab"], out / "none")


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
            words = [*pretraining(name, out, 1000)[2:], f"out={folder}", "held_out=[]"]
            job = Run(Pretrain(read_recipe(Path("recipes/mlm.toml"), Pretraining, words)))
            batches = job.job.batches(DataCursor())
            job._step(next(batches)[0])  # the first one warms up
            begun = time.process_time()
            for _ in range(TIMED):
                job._step(next(batches)[0])
            known[name] = (time.process_time() - begun) / TIMED
        kept.write_text(json.dumps(known))
    return known[name]


def tune(task: str, name: str, seed: int, asked: argparse.Namespace) -> float:
    """The score of one fine-tuning in percent: accuracy on SST-2, F1 of answers."""
    out: Path = asked.out
    folder, start = out / f"{task}-{name}-{seed}", "fresh" if name == "elmo" else name
    common = [f"start={out}/{start}", f"seed={seed}", f"out={folder}"]
    if task == "sst2":
        files = [f"train={asked.sst2}/train.tsv", f"held_out={asked.sst2}/dev.tsv", f"limit={asked.records}"]
        features = [f"features={out}/elmo"] if name == "elmo" else []
        sizes = ["epochs=3", "length=64", "row=128", "rate=3e-4", *features]
        words, metric = ["train", "classifier", "recipes/classifier.toml", *files, *sizes, *common], "accuracy"
    else:
        files = [f"train={asked.reading}/en-train.jsonl", f"held_out={asked.reading}/en-tune.jsonl"]
        sizes = [f"limit={asked.questions}", "epochs=2", "fork=0", "written=0", "unanswerable=0", "rate=5e-4"]
        sizes += ["batch=16", "window=160", "row=300", "parts.words=0", "held_out_questions=500"]
        words, metric = ["train", "reader", "recipes/reader-en.toml", *files, *sizes, *common], "f1"
    if not (folder / "done.json").is_file():
        run(words, folder)
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        last = [entry for entry in log if metric in entry][-1]
        (folder / "done.json").write_text(json.dumps(last[metric]))
    value = float(json.loads((folder / "done.json").read_text()))
    return value if value > 1 else 100 * value


def main() -> None:
    """Do what is still to do, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "sst2", "reading", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--only", default=",".join(STARTS))
    parser.add_argument("--tasks", default="sst2,reading")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--questions", type=int, default=4000)
    asked = parser.parse_args()
    prepare(asked.data, asked.out)
    names = asked.only.split(",")
    for name in dict.fromkeys(["fresh", *names]):
        steps = 1 if name == "fresh" else round(asked.steps * cost("mlm", asked.out) / cost(name, asked.out))
        if not (asked.out / name / f"step-{steps}" / "state.json").is_file():
            run(pretraining(name, asked.out, steps), asked.out / name)
    print("| task | begun with | score | seeds |\n|---|---|---|---|")
    for task in asked.tasks.split(","):
        for name in names:
            if task == "reading" and name == "elmo":
                continue
            scores = [tune(task, name, seed, asked) for seed in range(1, asked.seeds + 1)]
            spread = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
            print(f"| {task} | {name} | {statistics.mean(scores):.1f}{spread} | {len(scores)} |", flush=True)


if __name__ == "__main__":
    main()
