"""Every pretraining objective with one small network and one budget of text, beside the floors that it has to beat.

    python scripts/pretraining_table.py DATA OUT [--only mlm,next] [--seeds 3] [--steps 1500] [--set KEY=VALUE …]
    python scripts/pretraining_table.py DATA OUT --show [--plot docs/objectives.png]

From the project's root. DATA holds enwiki.jsonl and, for the two Chinese rows, zhwiki.jsonl. Each row of each seed is
one `masquerade pretrain` command. What is finished is not done again, and what was interrupted goes on, so the script
can be stopped and started at will. OUT/table.md is written again after every row. With --show nothing is trained; with
--results docs/objectives the measures that the project keeps are shown, and only rows without them are trained.

Columns, all of the same held-out rows:
- unigram floor: the loss if every label is predicted by fixed frequencies. They are the mixture of the frequencies of
  all tokens of the training text and of this objective's labels that is best on the held-out rows.
- with copying: the same, but the token shown where one is to be predicted is given a fixed probability. BERT's noise
  shows 10 % of the labels unchanged; a network that copies them and learns nothing else is at this floor.
- 5-gram: interpolated modified Kneser-Ney, counted in as many tokens as the run read; for objectives that predict from
  left to right or from right to left.
- after: the loss behind the last step; removed: how much of the floor with copying it is below it.
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
from collections.abc import Sequence
from pathlib import Path

from objective_floors import measure

DECODERS = ["model.layers=1"]  # of the encoder, and of the decoder
NEAR = ['model.positions=["rotary", "alibi"]']  # distances, and heads that look near from the first step on
ROTARY = ['model.positions=["rotary"]']
DENSE = ["model.lm_dense=true"]  # a language head that needs its dense layer, since the embeddings are of another width
MEMORY = ["length=64", "row=64", "rows=32", "micro=32", "memory=128"]
CHINESE = ["train=zh-train.jsonl", "held_out=zh-valid.jsonl", "tokenizer=zh-vocab"]
SMALL = "train=small.jsonl"  # the first 40 articles, read again and again
ROWS: dict[str, tuple[str, list[str]]] = {  # name → title, and what it changes of recipes/table.toml
    "mlm": ("masked tokens (BERT)", NEAR),
    "learned": ("masked tokens, learned positions (BERT)", ["objective=mlm"]),
    "nezha": ("masked tokens, relative positions (NEZHA)", ["objective=mlm", 'model.positions=["nezha", "alibi"]']),
    "albert": (
        "n-grams and sentence order, shared layers, narrow embeddings (ALBERT)",
        ["objective=sop", "model.groups=1", "model.embedding=64", *DENSE, *NEAR],
    ),
    "whole-word": ("masked whole words", NEAR),
    "n-gram": ("masked n-grams", NEAR),
    "entity": ("masked names (ERNIE)", ["options.names=train.jsonl", *NEAR]),
    "nsp": ("masked tokens and next sentences (BERT)", NEAR),
    "sop": ("n-grams and sentence order", NEAR),
    "span": ("spans and their boundaries (SpanBERT)", NEAR),
    "electra": (
        "replaced tokens (ELECTRA); the loss is the generator's",
        ["options.size=0.5", "options.shared=false", *DENSE, *NEAR],
    ),
    "salient": ("one date or number (REALM)", NEAR),
    "xlnet": ("permutation (XLNet)", []),
    "xlnet-memory": ("permutation, a memory of 128 (XLNet)", ["objective=xlnet", *MEMORY]),
    "mpnet": ("permutation with all positions (MPNet)", NEAR),
    "unilm": ("four masks (UniLM)", ["length=127", *NEAR]),
    "glm": ("short blanks (GLM)", ['model.positions=["rotary", "inner", "alibi"]']),
    "glm-long": ("one long blank (GLM)", ['model.positions=["rotary", "inner", "alibi"]']),
    "diffusion": ("masked diffusion", NEAR),
    "blocks": ("block diffusion, blocks of 4", NEAR),
    "next": ("next token (GPT)", ROTARY),
    "backward": ("previous token", ROTARY),
    "transformer-xl": ("next token, a memory of 128 (Transformer-XL)", [*MEMORY, "model.final_norm=true"]),
    "lstm": ("next token, an LSTM", ["objective=next", "model.recurrent=lstm", "model.positions=[]"]),
    "mass": ("write the missing half (MASS)", DECODERS),
    "t5": ("write the lost spans (T5)", DECODERS),
    "bart": ("write the clean text (BART)", DECODERS),
    "pegasus": ("write the gap sentences (PEGASUS)", DECODERS),
    "palm-1": (
        "masked tokens, the encoder alone (PALM, stage 1)",
        ["objective=palm", "options.stage=1", *DECODERS, *NEAR],
    ),
    "palm": ("write on, begun from stage 1 (PALM, stage 2)", ["start=palm-1", *DECODERS]),
    "dynamic": ("masked tokens of 40 articles, new masks each epoch (RoBERTa)", ["objective=mlm", SMALL, *NEAR]),
    "static": ("the same, one mask for each piece", ["objective=mlm", SMALL, "copies=1", *NEAR]),
    "zh-tokens": ("masked tokens, Chinese", ["objective=mlm", *CHINESE, *NEAR]),
    "zh-words": ("masked whole words, Chinese", ["objective=chinese-words", *CHINESE, *NEAR]),
}
KNOWN = ("floor", "copying", "after", "five", "tokens", "seed", "curve")  # measures with a place of their own
OURS = ("train=", "held_out=", "tokenizer=", "start=", "options.names=")  # keys whose files lie in OUT


def changes(name: str) -> list[str]:
    """What a row changes of recipes/table.toml."""
    own = ROWS[name][1]
    return own if any(change.startswith("objective=") for change in own) else [f"objective={name}", *own]


SET: list[str] = []  # changes of all runs, from --set


def command(name: str, seed: int, out: Path, steps: int) -> list[str]:
    """The command of one run."""
    base = ["train=train.jsonl", "held_out=valid.jsonl", "tokenizer=vocab", *changes(name)]
    base = [f"start=palm-1-{steps}-{seed}" if change == "start=palm-1" else change for change in base]
    placed = [change.replace("=", f"={out}/", 1) if change.startswith(OURS) else change for change in base]
    run = [f"seed={seed}", f"steps={steps}", f"out={out}/{name}-{steps}-{seed}"]
    return ["pretrain", "recipes/table.toml", *placed, *SET, *run]


def prepare(data: Path, out: Path, names: Sequence[str], environment: dict[str, str]) -> None:
    """The texts and vocabularies that the runs read."""
    out.mkdir(parents=True, exist_ok=True)
    jobs = [("enwiki.jsonl", "", 6000, "8000", "vocab")]
    if any(name.startswith("zh-") for name in names):
        jobs.append(("zhwiki.jsonl", "zh-", 2000, "8000", "zh-vocab"))
    for source, prefix, cut, size, vocabulary in jobs:
        if (out / vocabulary).is_dir():
            continue
        articles = (data / source).read_text(encoding="utf-8").splitlines(keepends=True)
        for part, name in ((articles[:cut], "train"), (articles[cut:], "valid"), (articles[:40], "small")):
            (out / f"{prefix}{name}.jsonl").write_text("".join(part), encoding="utf-8")
        words = ["vocab", str(out / f"{prefix}train.jsonl"), "--size", size, "--sentinels", "20"]
        words += ["--out", str(out / vocabulary)]
        subprocess.run([sys.executable, "-m", "masquerade", *words], check=True, env=environment)


def train(name: str, seed: int, out: Path, steps: int, environment: dict[str, str]) -> bool:
    """Finish a run; whether that worked."""
    folder = out / f"{name}-{steps}-{seed}"
    if (folder / f"step-{steps}" / "state.json").is_file():
        return True
    words = command(name, seed, out, steps)
    print(shlex.join(["masquerade", *words]), file=sys.stderr, flush=True)
    shared = shared_tokens(words, out)
    if shared.is_dir() and not folder.is_dir():
        shutil.copytree(shared, folder / "tokens")  # the same text for many rows: tokenise it once
    resume = ["--resume"] if any(folder.glob("step-*")) else []
    done = subprocess.run([sys.executable, "-m", "masquerade", *words, *resume], env=environment)
    return done.returncode == 0


def shared_tokens(words: Sequence[str], out: Path) -> Path:
    """The folder for the tokenised text of all runs that are trained on the same files."""
    trained = [word for word in words if word.startswith("train=")][-1]
    return out / "tokens" / Path(trained).stem


def keep_tokens(name: str, seed: int, out: Path, steps: int) -> None:
    """Keep the tokenised text of a finished run for the others with the same text."""
    source = out / f"{name}-{steps}-{seed}" / "tokens"
    shared = shared_tokens(command(name, seed, out, steps), out)
    if source.is_dir() and not shared.is_dir():
        shutil.copytree(source, shared)
    shutil.rmtree(source, ignore_errors=True)


def results(name: str, seeds: Sequence[int], kept: Path, steps: int) -> list[dict[str, object]]:
    """What was measured of a row, seed by seed: after so many steps, or if there is no such run, after the most steps
    that were measured."""
    own = [path.stem.rsplit("-", 2) for path in kept.glob(f"{name}-*.json")]
    measured = [int(count) for title, count, seed in own if title == name and int(seed) in seeds]
    shown = steps if steps in measured else max(measured, default=steps)
    found = [kept / f"{name}-{shown}-{seed}.json" for seed in seeds]
    return [json.loads(path.read_text(encoding="utf-8")) for path in found if path.is_file()]


def mean(values: Sequence[object], digits: int = 3) -> str:
    """The mean of numbers, and their standard deviation if there are several; – if one is missing."""
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    if len(numbers) < len(values) or not numbers:
        return "–"
    spread = f" ± {statistics.stdev(numbers):.{digits}f}" if len(numbers) > 1 else ""
    return f"{statistics.mean(numbers):.{digits}f}{spread}"


def table(names: Sequence[str], seeds: Sequence[int], kept: Path, steps: int) -> str:
    """The table as Markdown."""
    head = ("objective", "unigram floor", "with copying", "5-gram", "after", "removed", "other parts", "tokens")
    head = (*head, "seeds", "CHANGES")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in names:
        found = results(name, seeds, kept, steps)
        if not found:
            continue
        floors = [float(str(each["copying"])) for each in found]
        afters = [float(str(each["after"])) for each in found]
        share = [100 * (1 - after / floor) for floor, after in zip(floors, afters, strict=True)]
        parts = [part for part in found[0] if part not in KNOWN]
        others = ", ".join(f"{part} {mean([each.get(part) for each in found])}" for part in parts)
        cells = [ROWS[name][0], mean([found[0]["floor"]]), mean(floors[:1])]
        cells += [mean([each.get("five") for each in found[:1]]), mean(afters), f"{mean(share, 1)} %", others]
        cells += [f"{found[0]['tokens']:,}", str(len(found))]
        lines.append("| " + " | ".join([*cells, f"`{shlex.join(changes(name))}`"]) + " |")
    return "\n".join(lines) + "\n"


def plot(names: Sequence[str], seeds: Sequence[int], kept: Path, steps: int, path: Path) -> None:
    """Draw the held-out loss of every row against the tokens read, with its unigram floor."""
    from matplotlib.figure import Figure

    shown = [(name, results(name, seeds, kept, steps)) for name in names]
    shown = [(name, found) for name, found in shown if found]
    columns = 5
    height = -(-len(shown) // columns)
    figure = Figure(figsize=(3 * columns, 2.2 * height), layout="constrained")
    for number, (name, found) in enumerate(shown, start=1):
        axes = figure.add_subplot(height, columns, number)
        for each in found:
            points = each["curve"]
            assert isinstance(points, list)
            axes.plot([x / 1e6 for x, _ in points], [y for _, y in points], color="tab:blue", linewidth=1)
        floor = float(str(found[0]["copying"]))
        axes.axhline(floor, color="black", linestyle="--", linewidth=0.8)
        if isinstance(found[0].get("five"), float):
            axes.axhline(float(str(found[0]["five"])), color="tab:red", linestyle=":", linewidth=0.8)
        axes.set_title(name, fontsize=9)
        axes.set_ylim(top=floor * 1.08)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    figure.supxlabel("million tokens of text", fontsize=9)
    figure.supylabel("held-out loss, nats (dashed: floor, with copying; dotted: 5-gram)", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Do what is still to do, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="changes of all runs, for trials")
    parser.add_argument("--show", action="store_true", help="train nothing")
    parser.add_argument("--results", type=Path, help="the folder of what is measured; OUT/results by default")
    parser.add_argument("--plot", type=Path, help="draw all curves to this .png file")
    asked = parser.parse_args()
    names, seeds = asked.only.split(","), range(1, asked.seeds + 1)
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    SET.extend(asked.set)
    kept = asked.results or asked.out / "results"
    environment = os.environ | {"OMP_NUM_THREADS": str(asked.threads)}
    if not asked.show:
        prepare(asked.data, asked.out, names, environment)
        for seed in seeds:
            for name in names:
                result = kept / f"{name}-{asked.steps}-{seed}.json"
                if result.is_file() or not train(name, seed, asked.out, asked.steps, environment):
                    continue
                try:
                    measure(command(name, seed, asked.out, asked.steps)[1:], asked.threads, asked.out, result)
                except Exception as error:  # the other rows go on; this one is measured again at the next start
                    print(f"{name} cannot be measured: {error!r}", file=sys.stderr, flush=True)
                    continue
                keep_tokens(name, seed, asked.out, asked.steps)
                (asked.out / "table.md").write_text(table(names, seeds, kept, asked.steps), encoding="utf-8")
    print(table(names, seeds, kept, asked.steps))
    if asked.plot:
        plot(names, seeds, kept, asked.steps, asked.plot)


if __name__ == "__main__":
    main()
