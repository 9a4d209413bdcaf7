"""The tables of writers in docs/results.md: titles from texts, by every kind of writer.

    python scripts/writing_results.py TRAIN DEV OUT [--only bert,masked,lstm,mixture,both,after] [--steps 250,1000]
        [--seeds 1] [--texts 200] [--recipe FILE] [--results docs/titles/en] [--show] [--plot titles.png] [KEY=VALUE …]

From the project's root. TRAIN and DEV are pairs (JSON lines, TSV …). Each run is one `masquerade train writer` command
with recipes/writer-title-en.toml, changed as SETTINGS says, by what its kind needs, and by KEY=VALUE. It then writes
titles for the first --texts texts of DEV. What is measured is kept in the folder --results, one file a run, decoder by
decoder; only what is missing there is trained and measured, and broken runs go on, so the script can be stopped and
started at will, with more steps and seeds. With --show nothing is trained. Prints tables as Markdown:

  scores against steps   of every kind of writer, beside the first sentence and the first words; with 95 % of 1,000
                         bootstrap samples of the first seed's texts, and tokens written a CPU second
  decoders               of each writer after the most steps: one token after another, blocks, all at once, γ …
  γ                      of the mixture, from 0 to 1: likelihood and ROUGE
  examples               the titles of the same texts at each point
"""

from __future__ import annotations

import argparse
import json
import random
import resource
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
from masquerade.training.recipe import read_recipe
from masquerade.writing.baselines import BASELINES
from masquerade.writing.examples import TargetLayouts
from masquerade.writing.mixture import with_gamma
from masquerade.writing.pairs import TextPair, read_pairs
from masquerade.writing.training import Writing
from masquerade.writing.writer import Writer, scored

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "writer-title-en.toml"
SETTINGS = ["batch=8", "length=96", "limit=16000", "save_every=100"]  # of all runs
FRESH = ["training=", "model.width=384", "model.layers=2", "rate=2e-3"]  # the rate was chosen on tuning abstracts
BEFORE = 1000  # steps of "bert" before "after" begins
EXAMPLES = 3
SAMPLES = 1000  # of the bootstrap
GAMMAS = (0.0, 0.25, 0.5, 0.75, 1.0)
SCORES = ("rouge_1", "rouge_2", "rouge_l", "bleu", "copied", "length")
HEADS = ("ROUGE-1", "ROUGE-2", "ROUGE-L (95 %)", "BLEU", "copied", "length", "tokens / CPU s")
KINDS: dict[str, tuple[str, list[str]]] = {  # name → what it is, and its changes of the recipe
    "bert": ("single BERT, shifted", ["training=shifted"]),
    "masked": ("single BERT, masked (UniLM)", ["training=masked"]),
    "lstm": ("LSTM seq2seq, fresh weights", ["family=lstm", *FRESH]),
    "mixture": ("γ-mixture behind BERT", ["training=", "decoder=mixture", "gamma_learned=true"]),
    "both": ("two masks, one Transformer", ["training=both"]),
    "after": ("two masks, after 1,000 shifted steps", ["training=both"]),
}
BEAM = {"beam 4": {"method": "beam", "beams": 4}}
TWO_MASKS: dict[str, dict[str, Any]] = {
    "greedy": {"method": "greedy"},
    "blocks of 4": {"method": "blocks", "size": 4},
    "mask-predict, 4 rounds": {"method": "mask-predict", "rounds": 4},
    "parallel": {"method": "parallel"},
    "mixture, γ = 0.5": {"method": "mixture", "gamma": 0.5},
    "rerank, 8 drafts": {"method": "rerank"},
}
GREEDY = {"greedy": {"method": "greedy"}}
DECODERS: dict[str, dict[str, dict[str, Any]]] = {  # more decoders by the kind of writer
    "bert": GREEDY,
    "masked": GREEDY,
    "lstm": GREEDY,
    "both": TWO_MASKS,
    "after": TWO_MASKS,
    "mixture": {
        **{f"greedy, γ = {gamma}": {"method": "greedy", "gamma": gamma} for gamma in GAMMAS},
        "parallel": {"method": "parallel"},
    },
}


@dataclass(frozen=True)
class TitleRun:
    """One training run, and the file of its measures."""

    kind: str
    steps: int
    seed: int
    out: Path
    results: Path

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.steps}-{self.seed}"

    @property
    def measures(self) -> dict[str, Any]:
        """What is measured so far."""
        path = self.results / f"{self.name}.json"
        return read_json(path) if path.is_file() else {"decoders": {}}

    def keep(self, **found: Any) -> None:
        """Keep more measures."""
        self.results.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.measures | found, ensure_ascii=False, indent=1)
        write_text(self.results / f"{self.name}.json", text)

    def command(self, train: str, pairs: int, recipe: Path, changes: Sequence[str]) -> list[str]:
        """The command that trains it, for a file of so many pairs."""
        own = [*SETTINGS, *changes, *KINDS[self.kind][1]]
        if self.kind == "after":
            own.append(f"start={self.out / f'bert-{BEFORE}-{self.seed}'}")
        asked = read_recipe(recipe, Writing, [each for each in own if each not in FRESH and each != "family=lstm"])
        epochs = self.steps / ceil(min(pairs, asked.limit or pairs) / asked.batch)
        if "family=lstm" in own:  # fresh weights, with the tokenizer of the others
            own = [*(each for each in own if not each.startswith("start=")), "start=", f"tokenizer={asked.start}"]
        wanted = [f"seed={self.seed}", f"epochs={epochs:.6f}", f"train={train}", "held_out=[]"]
        return ["masquerade", "train", "writer", str(recipe), *own, *wanted, f"out={self.out / self.name}"]

    def train(self, command: Sequence[str]) -> None:
        """Train it, unless it is done; go on if it was interrupted."""
        folder = self.out / self.name
        if (folder / f"step-{self.steps}" / "state.json").is_file():
            return
        print(f"    {shlex.join(command)}", file=sys.stderr, flush=True)
        again = ["--resume"] if any(folder.glob("step-*")) else []
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            subprocess.run([sys.executable, "-m", *command, *again], check=True, cwd=ROOT)
        finally:  # steps that are done again after an interruption count twice
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            shown = [word for word in command[4:] if not word.startswith(("train=", "out=", "held_out="))]
            self.keep(changes=shown, training_cpu_seconds=round(self.measures.get("training_cpu_seconds", 0) + taken))

    def write(self, name: str, settings: Mapping[str, Any], pairs: Sequence[TextPair]) -> None:
        """Measure one decoder, unless that is done."""
        if len(self.measures["decoders"].get(name, {}).get("each", [])) == len(pairs):
            return
        writer, begun = Writer.load(self.out / self.name), time.process_time()
        written = [each.text for each in writer.write_many([pair.source for pair in pairs], **settings)]
        taken = time.process_time() - begun
        tokens = sum(len(writer.tokenizer.encode(text)) + 1 for text in written)
        found = scored(pairs, written)
        total = {score: round(value, 3) for score, value in found.total.items()}
        each = [round(one["rouge_l"], 1) for one in found.each]
        kept = {**total, "speed": round(tokens / taken, 1), "each": each, "examples": written[:EXAMPLES]}
        self.keep(decoders=self.measures["decoders"] | {name: kept})

    @torch.no_grad()
    def likelihoods(self, pairs: Sequence[TextPair]) -> None:
        """Measure the mean loss of a target's token for each γ of a mixture."""
        if "losses" in self.measures:
            return
        writer = Writer.load(self.out / self.name)
        layouts, encode = TargetLayouts.of(writer.model, writer.settings), writer.tokenizer.encode
        examples = [layouts.example(encode(pair.source), encode(pair.target), rng_for(0)) for pair in pairs]
        loss, rows, found = TermLoss(writer.model, {"tokens": TokenTerm()}), packed(examples, 256), dict[str, float]()
        with with_gamma(writer.model, None):
            found["own"] = mean_loss(loss, rows, 16)["held_out"]
        for gamma in GAMMAS:
            with with_gamma(writer.model, gamma):
                found[str(gamma)] = mean_loss(loss, rows, 16)["held_out"]
        decoder = writer.model.decoder
        assert decoder is not None
        own = float(torch.sigmoid(decoder.stack.get_parameter("logit")))
        self.keep(losses=found, gamma=own)


def row(*cells: object) -> str:
    """A row of a table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def header(*cells: str) -> str:
    return f"{row(*cells)}\n|{'---|' * len(cells)}"


def interval(values: Sequence[float]) -> str:
    """95 % of the means of bootstrap samples."""
    rng = random.Random(0)
    means = sorted(mean(rng.choices(values, k=len(values))) for _ in range(SAMPLES))
    return f"{means[SAMPLES // 40]:.1f}–{means[-SAMPLES // 40 - 1]:.1f}"


def cells(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Scores and speed of the same decoder of several seeds."""
    shown = []
    for score in SCORES:
        values = [each[score] for each in found]
        text = f"{mean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")
        shown.append(f"{text} ({interval(found[0]['each'])})" if score == "rouge_l" else text)
    return [*shown, f"{mean(each['speed'] for each in found):,.0f}" if "speed" in found[0] else "–"]


def baselines(pairs: Sequence[TextPair]) -> Iterator[str]:
    """Rows of what needs no model."""
    for name, write in BASELINES.items():
        found = scored(pairs, [write(pair.source) for pair in pairs])
        one = found.total | {"each": [each["rouge_l"] for each in found.each]}
        yield row({"lead": "first sentence", "words": "first 12 words or characters"}[name], "–", *cells([one]), "–")


def show(runs: Mapping[tuple[str, int], Sequence[TitleRun]], pairs: Sequence[TextPair]) -> None:
    """Print all tables."""
    print(header("writer, beam 4", "steps", *HEADS, "CPU minutes of training"))
    print("\n".join(baselines(pairs)))
    for (kind, steps), several in runs.items():
        found = [run.measures["decoders"]["beam 4"] for run in several]
        taken = mean(run.measures["training_cpu_seconds"] for run in several)
        print(row(KINDS[kind][0], f"{steps:,}", *cells(found), f"{taken / 60:.1f}"))
    print("\n" + header("writer", "steps", "decoder", *HEADS))
    for (kind, steps), (first, *_) in runs.items():
        for name, one in first.measures["decoders"].items():
            if kind in DECODERS and len(first.measures["decoders"]) > 1:
                print(row(KINDS[kind][0], f"{steps:,}", name, *cells([one])))
    for (_, steps), (first, *_) in runs.items():
        if losses := first.measures.get("losses"):
            print(f"\nγ-mixture, {steps:,} steps, learned γ {first.measures['gamma']:.3f}\n\n" + header("γ", "loss"))
            print("\n".join(row(gamma, f"{value:.3f}") for gamma, value in losses.items()))
    print("\n" + header("writer", "steps", "decoder", "title"))
    for number, pair in enumerate(pairs[:EXAMPLES]):
        print(row("written by people", "", "", pair.target))
        for (kind, steps), (first, *_) in runs.items():
            for name, one in first.measures["decoders"].items():
                if name in ("beam 4", "parallel"):
                    print(row(KINDS[kind][0], f"{steps:,}", name, one["examples"][number]))


def plot(runs: Mapping[tuple[str, int], Sequence[TitleRun]], lead: float, path: Path) -> None:
    """Draw ROUGE-L of beam search against steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for kind in dict.fromkeys(kind for kind, _ in runs):
        points = {
            steps: mean(run.measures["decoders"]["beam 4"]["rouge_l"] for run in several)
            for (each, steps), several in runs.items()
            if each == kind
        }
        axes.plot(list(points), list(points.values()), marker="o", label=KINDS[kind][0])
    axes.axhline(lead, linestyle="--", color="grey", label="first sentence")
    axes.set(xscale="log", xlabel="steps", ylabel="ROUGE-L")
    ticks = sorted({steps for _, steps in runs})
    axes.set_xticks(ticks, [f"{each:,}" for each in ticks])
    axes.minorticks_off()
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("out", type=Path)
    parser.add_argument("changes", nargs="*", help="key=value for any key of the recipe")
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--steps", default="250,1000")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--texts", type=int, default=200, help="titles that are written and scored")
    parser.add_argument("--recipe", type=Path, default=RECIPE.relative_to(ROOT))
    parser.add_argument("--results", type=Path, help="the folder of what is measured; OUT/results by default")
    parser.add_argument("--show", action="store_true", help="train nothing, and show what there is")
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_intermixed_args()
    recipe = read_recipe(asked.recipe, Writing, ["train=x", *asked.changes])
    columns = {"source_name": recipe.source, "target_name": recipe.target}
    pairs = read_pairs(asked.dev, **columns).pairs[: asked.texts]
    every = [int(steps) for steps in asked.steps.split(",")]
    results = asked.results or asked.out / "results"
    runs = {
        (kind, steps): [TitleRun(kind, steps, seed, asked.out, results) for seed in range(1, asked.seeds + 1)]
        for kind in asked.only.split(",")
        for steps in every
    }
    if not asked.show:
        count = len(read_pairs(asked.train, **columns).pairs)
        for run in (run for several in runs.values() for run in several):
            if run.kind == "after" and not (asked.out / f"bert-{BEFORE}-{run.seed}").is_dir():
                parser.error(f"'after' begins with 'bert' after {BEFORE:,} steps; train that first")
            more = DECODERS.get(run.kind, {}) if run.seed == 1 and run.steps == max(every) else {}
            if all(name in run.measures["decoders"] for name in BEAM | more):
                continue
            run.train(run.command(asked.train, count, asked.recipe, asked.changes))
            for name, settings in (BEAM | more).items():
                run.write(name, settings, pairs)
            if run.kind == "mixture" and more:
                run.likelihoods(pairs)
    done = {point: [run for run in several if "beam 4" in run.measures["decoders"]] for point, several in runs.items()}
    done = {point: several for point, several in done.items() if several}
    show(done, pairs)
    if asked.plot is not None:
        lead = scored(pairs, [BASELINES["lead"](pair.source) for pair in pairs]).total["rouge_l"]
        plot(done, lead, asked.plot)


if __name__ == "__main__":
    main()
