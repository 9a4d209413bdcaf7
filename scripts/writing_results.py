"""The runs behind the tables of writers in docs/results.md: titles from abstracts, by every kind of writer.

    python scripts/writing_results.py TRAIN DEV OUT [--only bert,masked,lstm,mixture,both] [--steps 250,1000,4000]
        [--seeds 1] [--texts 200] [--plot titles.png] [KEY=VALUE …]

From the project's root. TRAIN and DEV are pairs (JSON lines, TSV …). Each run is one `masquerade train writer` command
with recipes/writer-title-en.toml (KEY=VALUE changes it for all runs), and then writes titles for the first texts of
DEV. What is done is not done again and broken runs go on, so it can be stopped and started at will. Prints tables as
Markdown:

  scores against steps   for every kind of writer, beside the first sentence and the first words; with tokens a second
  decoders               of the writer with two masks: one token after another, blocks, all at once, the mixture …
  γ                      of the mixture, from 0 to 1: likelihood and ROUGE
  examples               the titles of the same three texts at each point
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from masquerade.data.packing import packed
from masquerade.data.rng import rng_for
from masquerade.files import read_json, write_text
from masquerade.objectives.loss import TermLoss, TokenTerm
from masquerade.training.loop import mean_loss
from masquerade.writing.baselines import BASELINES
from masquerade.writing.examples import TargetLayouts
from masquerade.writing.mixture import with_gamma
from masquerade.writing.pairs import TextPair, read_pairs
from masquerade.writing.writer import Writer, scored

RECIPE = Path(__file__).parents[1] / "recipes" / "writer-title-en.toml"
BATCH = 32  # pairs of a step
EXAMPLES = 3
GAMMAS = (0.0, 0.25, 0.5, 0.75, 1.0)
SCORES = ("rouge_1", "rouge_2", "rouge_l", "bleu", "copied", "length")
KINDS: dict[str, tuple[str, list[str]]] = {  # name → what it is, and its changes of the recipe
    "bert": ("single BERT, shifted", ["training=shifted"]),
    "masked": ("single BERT, masked (UniLM)", ["training=masked"]),
    "lstm": ("LSTM seq2seq", ["training=", "family=lstm", "model.width=384", "model.layers=2", "rate=1e-3"]),
    "mixture": ("γ-mixture behind BERT", ["training=", "decoder=mixture", "gamma_learned=true"]),
    "both": ("two masks, one Transformer", ["training=both"]),
}
DECODERS: dict[str, dict[str, Any]] = {  # of the writer with two masks
    "beam 4": {"method": "beam", "beams": 4},
    "greedy": {"method": "greedy"},
    "blocks of 4": {"method": "blocks", "size": 4},
    "mask-predict, 4 rounds": {"method": "mask-predict", "rounds": 4},
    "parallel": {"method": "parallel"},
    "mixture, γ = 0.5": {"method": "mixture", "gamma": 0.5},
    "rerank, 8 drafts": {"method": "rerank"},
}


@dataclass(frozen=True)
class TitleRun:
    """One training run."""

    kind: str
    steps: int
    seed: int
    out: Path

    @property
    def folder(self) -> Path:
        return self.out / f"{self.kind}-{self.steps}-{self.seed}"

    def command(self, train: str, pairs: int, changes: Sequence[str]) -> list[str]:
        """The command that trains it, for a file of so many pairs."""
        epochs = self.steps / ceil(pairs / BATCH)
        own = [*changes, *KINDS[self.kind][1], f"seed={self.seed}", f"epochs={epochs:.6f}", f"batch={BATCH}"]
        if any(change.startswith("family=") for change in own):  # fresh weights, with the tokenizer of the others
            start = next((change.partition("=")[2] for change in changes if change.startswith("start=")), None)
            own = [change for change in own if not change.startswith("start=")]
            own += ["start=", f"tokenizer={start or '.cache/checkpoints/minilm-en'}"]
        wanted = [f"train={train}", "held_out=[]", f"out={self.folder}"]
        return ["masquerade", "train", "writer", str(RECIPE.relative_to(RECIPE.parents[1])), *own, *wanted]

    def train(self, train: str, pairs: int, changes: Sequence[str]) -> None:
        """Train it, unless it is done; go on if it was interrupted."""
        if (self.folder / "done").is_file():
            return
        words = self.command(train, pairs, changes)
        print(f"    {shlex.join(words)}", file=sys.stderr, flush=True)
        again = ["--resume"] if any(self.folder.glob("step-*")) else []
        subprocess.run([sys.executable, "-m", *words, *again], check=True, cwd=RECIPE.parents[1])
        write_text(self.folder / "done", "")


def evaluated(folder: Path, name: str, pairs: Sequence[TextPair], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The scores of a run's titles by one decoder, with the speed and some examples; kept in a file."""
    kept = folder / f"scores-{name.replace(' ', '-').replace(',', '')}-{len(pairs)}.json"
    if not kept.is_file():
        writer, begun = Writer.load(folder), time.perf_counter()
        written = writer.write_many([pair.source for pair in pairs], **settings)
        taken = time.perf_counter() - begun
        texts = [each.text for each in written]
        tokens = sum(len(writer.tokenizer.encode(text)) + 1 for text in texts)
        found = {**scored(pairs, texts).total, "speed": tokens / taken, "examples": texts[:EXAMPLES]}
        write_text(kept, json.dumps(found, ensure_ascii=False))
    return read_json(kept)


@torch.no_grad()
def likelihoods(folder: Path, pairs: Sequence[TextPair]) -> dict[float, float]:
    """The mean loss of a target's token by a mixture, for each γ."""
    kept = folder / f"likelihoods-{len(pairs)}.json"
    if not kept.is_file():
        writer = Writer.load(folder)
        layouts, encode = TargetLayouts.of(writer.model, writer.settings), writer.tokenizer.encode
        examples = [layouts.example(encode(pair.source), encode(pair.target), rng_for(0)) for pair in pairs]
        loss, rows, found = TermLoss(writer.model, {"tokens": TokenTerm()}), packed(examples, 256), dict[str, float]()
        for gamma in GAMMAS:
            with with_gamma(writer.model, gamma):
                found[str(gamma)] = mean_loss(loss, rows, 16)["held_out"]
        write_text(kept, json.dumps(found))
    return {float(gamma): float(value) for gamma, value in read_json(kept).items()}


def row(*cells: object) -> str:
    """A row of a table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def header(*cells: str) -> str:
    return f"{row(*cells)}\n|{'---|' * len(cells)}"


def spread(values: Sequence[float]) -> str:
    """A mean, and the deviation of several seeds."""
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def baselines(pairs: Sequence[TextPair]) -> Iterator[str]:
    """Rows of what needs no model."""
    for name, write in BASELINES.items():
        total = scored(pairs, [write(pair.source) for pair in pairs]).total
        yield row(
            {"lead": "first sentence", "words": "first 12 words"}[name], "–", *(f"{total[s]:.2f}" for s in SCORES), "–"
        )


def plot(points: Mapping[str, Mapping[int, float]], lead: float, path: Path) -> None:
    """ROUGE-L against steps."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for kind, values in points.items():
        axes.plot(list(values), list(values.values()), marker="o", label=KINDS[kind][0])
    axes.axhline(lead, linestyle="--", color="grey", label="first sentence")
    axes.set(xscale="log", xlabel="steps", ylabel="ROUGE-L")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("out", type=Path)
    parser.add_argument("changes", nargs="*", help="key=value for any key of the recipe")
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--steps", default="250,1000,4000")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--texts", type=int, default=200, help="titles that are written and scored")
    parser.add_argument("--plot", type=Path)
    chosen = parser.parse_intermixed_args()
    count, pairs = len(read_pairs(chosen.train).pairs), read_pairs(chosen.dev).pairs[: chosen.texts]
    points: dict[str, dict[int, float]] = {}
    shown: list[str] = []
    print(header("writer", "steps", *SCORES, "tokens/s"))
    for line in baselines(pairs):
        print(line)
    for kind in chosen.only.split(","):
        for steps in map(int, chosen.steps.split(",")):
            runs = [TitleRun(kind, steps, seed, chosen.out) for seed in range(1, chosen.seeds + 1)]
            for run in runs:
                run.train(chosen.train, count, chosen.changes)
            found = [evaluated(run.folder, "default", pairs, {}) for run in runs]
            cells = [spread([each[name] for each in found]) for name in SCORES]
            print(
                row(KINDS[kind][0], f"{steps:,}", *cells, f"{mean([each['speed'] for each in found]):,.0f}"), flush=True
            )
            points.setdefault(kind, {})[steps] = mean([each["rouge_l"] for each in found])
            shown += [row(KINDS[kind][0], f"{steps:,}", title) for title in found[0]["examples"]]
    last = max(map(int, chosen.steps.split(",")))
    if "both" in points:
        print("\n" + header("decoder", *SCORES, "tokens/s"))
        for name, settings in DECODERS.items():
            one = evaluated(TitleRun("both", last, 1, chosen.out).folder, name, pairs, settings)
            print(row(name, *(f"{one[score]:.2f}" for score in SCORES), f"{one['speed']:,.0f}"), flush=True)
    if "mixture" in points:
        folder = TitleRun("mixture", last, 1, chosen.out).folder
        print("\n" + header("γ", "loss of a token", "ROUGE-L"))
        for gamma, value in likelihoods(folder, pairs).items():
            one = evaluated(folder, f"gamma {gamma}", pairs, {"gamma": gamma})
            print(row(gamma, f"{value:.3f}", f"{one['rouge_l']:.2f}"), flush=True)
    print("\n" + header("writer", "steps", "title"))
    print("\n".join([*(row("written by people", "", pair.target) for pair in pairs[:EXAMPLES]), *shown]))
    if chosen.plot is not None:
        lead = scored(pairs, [BASELINES["lead"](pair.source) for pair in pairs]).total["rouge_l"]
        plot(points, lead, chosen.plot)


if __name__ == "__main__":
    main()
