"""How fast is writing: with and without a cache, beside transformers, one token a step or many, with fewer tokens?

    python benchmarks/decoding.py [--only a,b,c,d] [--rounds 7] [--rows 16] [--json out.json] [--plot blocks.png]

  a  cached against uncached: a BERT that writes under the ``prefix`` mask, greedily and by beam search; without a cache
     (as in bert4keras) everything is run again for each token
  b  batched beam search beside transformers' generate: GPT-2, T5 and BART, the same weights, the same tokens out.
     "Tuned" has the matrix kernel that is fastest here, and uses memory again, as ours. Given a Python that has it
     (--ctranslate2 PYTHON), also beside CTranslate2, which writes as many tokens, not always the same ones
  c  all at once, in blocks, greedily and by beam search: the same BERT, source and weights, at several answer lengths
  d  a vocabulary cut to what a task needs: size and speed before and after

All networks have 6 layers of 384, 12 heads, feed-forward 1,536 and random weights: what they write means nothing, but
costs what writing costs. Those that are compared take turns, so that only one computes at a time and all meet the same
weather; a ratio is the median over the rounds. Tokens a second are written tokens, the prompt's time included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from decoding_engines import FAMILIES, KEPT, WHOLE, Case, save_references
from families import QUIET, SECONDS, TRIES, Worker, wait_for_quiet
from machine import machine
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

ENGINE = Path(__file__).parent / "decoding_engines.py"
LENGTHS = (4, 8, 16, 32)  # of answers
BLOCKS = (1, 2, 4, 8, 16, 32)
BEAMS = 4
OTHER = "ctranslate2"
CACHES = {"uncached": False, "cached": True}
ONCE = {"both_ways": False}  # in parallel, but with the source seeing itself alone: the prefix mask


@dataclass(frozen=True)
class Contest:
    """Who writes the same amount, by turns; the first is what the others are compared with."""

    part: str
    name: str
    cases: dict[str, tuple[str, Case]]  # by contender: its engine, and what it does
    same: bool = False  # the tokens have to be the same, but for CTranslate2's

    @property
    def tokens(self) -> int:
        """How many tokens are written."""
        _, case = next(iter(self.cases.values()))
        return case.new * case.rows


class Engine(Worker):
    """One engine in a process of its own."""

    def __init__(self, engine: str, folder: str, threads: int, clock: str, python: str = sys.executable) -> None:
        quiet = os.environ | {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it lives as long as the worker)
        self.process = subprocess.Popen(
            [python, str(ENGINE), engine, folder, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=quiet,
        )  # fmt: skip
        self.clock, self.attention = clock, self._answer()


def contests(parts: str, rows: int, families: Sequence[str], more: Sequence[str] = ()) -> Iterator[Contest]:
    """Everything that is compared, with so many prompts at a time, and with more engines for beam search."""
    if "a" in parts:
        for new in (8, 16, 32):
            runs = {name: Case("bert", "greedy", new, 128, rows=rows, cache=cached) for name, cached in CACHES.items()}
            yield Contest("a", f"{new} tokens behind 128", {name: ("ours", case) for name, case in runs.items()}, True)
        beams = {"beams": BEAMS}
        runs = {name: Case("bert", "beam", 16, 128, rows=rows, cache=on, settings=beams) for name, on in CACHES.items()}
        found = {name: ("ours", case) for name, case in runs.items()}
        yield Contest("a", f"16 tokens behind 128, beam {BEAMS}", found, True)
    if "b" in parts:
        engines = {"transformers": "theirs", "transformers, tuned": "tuned", "ours": "ours"}
        for family in families:
            for together in sorted({1, rows}):
                case = Case(family, "beam", 32, 64, 32, together, settings={"beams": BEAMS})
                chosen = engines | {name: name for name in more if family != "gpt2"}
                found = {name: (engine, case) for name, engine in chosen.items()}
                yield Contest("b", f"{family}, {together} prompt{'s' * (together > 1)}", found, True)
    if "c" in parts:
        for new in LENGTHS:
            runs = {"greedy": Case("bert", "greedy", new, rows=rows)}
            runs[f"beam {BEAMS}"] = Case("bert", "beam", new, rows=rows, settings={"beams": BEAMS})
            for size in BLOCKS:
                if size <= new:
                    runs[f"blocks of {size}"] = Case("bert", "blocks", new, rows=rows, settings={"size": size})
            runs["parallel"] = Case("bert", "parallel", new, rows=rows, settings=ONCE)
            yield Contest("c", f"{new} tokens behind 256", {name: ("ours", case) for name, case in runs.items()})
    if "d" in parts:
        for method, new in (("greedy", 32), ("beam", 32), ("parallel", 32)):
            own = ONCE if method == "parallel" else {}
            runs = {
                f"{count:,} tokens": Case(name, method, new, 128, rows=rows, settings=own)
                for name, count in (("whole", WHOLE), ("kept", KEPT))
            }
            yield Contest("d", f"{method}, {new} tokens behind 128", {n: ("ours", case) for n, case in runs.items()})


def check(contest: Contest, workers: dict[str, Engine], folder: str) -> None:
    """Stops the benchmark where tokens differ that have to be the same."""
    texts = []
    for number, (engine, case) in enumerate(contest.cases.values()):
        file = Path(folder) / f"{number}.json"
        workers[engine].ask(case=asdict(case), file=str(file))
        if engine != OTHER:
            texts.append(json.loads(file.read_text()))
    if contest.same and any(each != texts[0] for each in texts):
        sys.exit(f"Not comparable: {' and '.join(contest.cases)} do not write the same tokens ({contest.name}).")
    if not contest.same and {len(text) for each in texts for text in each} != {contest.tokens // len(texts[0])}:
        sys.exit(f"Not comparable: the texts are not equally long ({contest.name}).")


def measure(contest: Contest, workers: dict[str, Engine], rounds: int) -> dict[str, Any]:
    """Rounds in which all contenders write one after the other, by turns in the one or the other direction. A round in
    which other programs computed too does not count, unless there are not enough quiet ones."""
    orders = {name: (workers[engine], asdict(case)) for name, (engine, case) in contest.cases.items()}
    times = {name: max(1, round(SECONDS / worker.ask(case=case)[0])) for name, (worker, case) in orders.items()}
    tried: list[dict[str, float]] = []
    while sum(each["others"] <= QUIET for each in tried) < rounds and len(tried) < TRIES * rounds:
        if any(worker.clock == "wall" for worker, _ in orders.values()):
            wait_for_quiet()
        taken = {"others": 0.0}
        for name in list(orders)[:: 1 if len(tried) % 2 else -1]:
            worker, case = orders[name]
            seconds, others = worker.ask(case=case, times=times[name])
            taken |= {name: seconds / times[name], "others": max(taken["others"], others)}
        tried.append(taken)
    kept = sorted(tried, key=lambda each: each["others"])[:rounds]
    baseline = next(iter(orders))
    results = {}
    for name in orders:
        ratios = [each[baseline] / each[name] for each in kept]
        low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        speed = contest.tokens / median(each[name] for each in kept)
        results[name] = {"tokens/s": speed, "ratio": median(ratios), "low": low, "high": high}
    noise = {"others": max(each["others"] for each in kept), "dropped": len(tried) - len(kept)}
    return {"part": contest.part, "name": contest.name, "results": results, **noise}


def sizes() -> dict[str, float]:
    """Megabytes of the network before and after its vocabulary is cut, in float32."""
    from decoding_engines import FEEDFORWARD, LAYERS, LONGEST, WIDTH

    import masquerade

    found = {}
    for count in (WHOLE, KEPT):
        spec = masquerade.Spec(vocab=count, width=WIDTH, layers=LAYERS, feedforward=FEEDFORWARD, longest=LONGEST,
                               outputs=("lm",))  # fmt: skip
        found[f"{count:,} tokens"] = sum(weight.numel() for weight in masquerade.build(spec).parameters()) * 4 / 1e6
    return found


def table(results: list[dict[str, Any]], megabytes: dict[str, float]) -> Table:
    """Tokens a second, and how many times as many as the first of the contest: the median and the middle half of the
    rounds. A star: there were not enough quiet rounds."""
    shown = Table("", "what", "how", title="written tokens a second")
    for column in ("tokens/s", "ratio (quartiles)"):
        shown.add_column(column, justify="right")
    for contest in results:
        star = "*" if contest["others"] > QUIET else ""
        for place, (name, each) in enumerate(contest["results"].items()):
            label = [contest["part"], contest["name"]] if place == 0 else ["", ""]
            size = f", {megabytes[name]:.0f} MB" if contest["part"] == "d" and name in megabytes else ""
            ratio = f"{each['ratio']:.2f}×{star} ({each['low']:.2f}–{each['high']:.2f})" if place else "1"
            shown.add_row(*label, name + size, f"{each['tokens/s']:,.0f}", ratio)
        shown.add_section()
    return shown


def plot(results: list[dict[str, Any]], path: Path) -> None:
    """Tokens a second against the size of a block, a line for each answer length; greedy dotted, parallel dashed."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 4.5), layout="constrained")
    for contest in (each for each in results if each["part"] == "c"):
        found = contest["results"]
        points = [
            (int(name.split()[-1]), each["tokens/s"]) for name, each in found.items() if name.startswith("blocks")
        ]
        (line,) = axes.plot(*zip(*points, strict=True), marker="o", label=contest["name"].split(" behind")[0])
        for name, style in (("greedy", ":"), ("parallel", "--")):
            axes.axhline(found[name]["tokens/s"], color=line.get_color(), linestyle=style, linewidth=1)
    axes.set(xscale="log", xlabel="tokens of a block", ylabel="written tokens a second", ylim=(0, None))
    axes.set_xticks(BLOCKS, [str(size) for size in BLOCKS])
    axes.minorticks_off()
    axes.set_title("One token a step, blocks, all at once (dotted: greedy, dashed: parallel)", fontsize=10)
    figure.legend(loc="outside right upper", title="answers of")
    figure.savefig(path, dpi=150)


def run(chosen: argparse.Namespace, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """All contests of the chosen parts."""
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        if "b" in chosen.only:
            save_references(folder, chosen.families.split(","))
        engines = ["ours", "theirs", "tuned"] if "b" in chosen.only else ["ours"]
        workers = {engine: Engine(engine, folder, chosen.threads, chosen.clock) for engine in engines}
        if "b" in chosen.only and chosen.ctranslate2:
            workers[OTHER] = Engine(OTHER, folder, chosen.threads, chosen.clock, chosen.ctranslate2)
        for contest in every(chosen):
            progress(f"{contest.part}: {contest.name}")
            check(contest, workers, folder)
            results.append(measure(contest, workers, chosen.rounds))
            if chosen.json:
                chosen.json.write_text(json.dumps(results, indent=1))
        for worker in workers.values():
            worker.stop()
    return results


def every(chosen: argparse.Namespace) -> list[Contest]:
    """The contests that are asked for."""
    more = [OTHER] if chosen.ctranslate2 else []
    return list(contests(chosen.only, chosen.rows, chosen.families.split(","), more))


def main() -> None:
    """Read the command line, measure, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="a,b,c,d", help="parts, with commas between them")
    parser.add_argument("--rounds", type=int, default=7, help="how often all contenders take turns")
    parser.add_argument("--rows", type=int, default=8, help="prompts at a time")
    parser.add_argument("--threads", type=int, default=2, help="of each engine")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu, with 1 thread, where other programs run too"
    )
    parser.add_argument("--families", default=",".join(FAMILIES), help="of part b")
    parser.add_argument("--ctranslate2", metavar="PYTHON", help="a Python with CTranslate2, transformers and PyTorch")
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    parser.add_argument("--plot", type=Path, help="draw tokens a second against block size (part c) to this file")
    chosen = parser.parse_args()
    if unknown := set(chosen.only.split(",")) - set("abcd"):
        parser.error(f"there is no part '{min(unknown)}'; choose from a, b, c and d")
    console = Console(width=None if sys.stdout.isatty() else 120)
    with Progress(console=console) as progress:
        task = progress.add_task("starting", total=len(every(chosen)))
        results = run(chosen, lambda what: progress.update(task, advance=1, description=what))
    console.print(machine(), highlight=False, markup=False)
    console.print(table(results, sizes() if "d" in chosen.only else {}))
    if chosen.plot is not None and "c" in chosen.only:
        plot(results, chosen.plot)
        console.print(f"drawn: {chosen.plot}")


if __name__ == "__main__":
    main()
