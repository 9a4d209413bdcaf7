"""How fast is each family beside transformers, with the same weights, on the same machine?

    python benchmarks/families.py [--families bert,gpt2] [--rounds 7] [--json out.json]

Each engine is a process of its own with the same number of threads. Both load the same folder, must give the same
logits (or the benchmark stops), and then take turns, so that only one of them computes at a time and both meet the
same weather. A ratio is ours over theirs in tokens a second, the median over the rounds. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from engines import ENGINES, FAMILIES, MIXED, SEED, SETTINGS, VOCAB, Family, tokens
from machine import machine
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

TOLERANCE = 1e-4  # how far apart the two engines' logits may be
SECONDS = 0.6  # a turn repeats its pass until it has taken about this long
TRIES = 3  # at most so many times the rounds asked for are tried to get quiet ones
QUIET = 0.1  # … which are those where other programs had at most this share of the machine
STATISTICS = Path("/proc/stat")
CORES = os.cpu_count() or 1
ENGINE = Path(__file__).parent / "engines.py"


class Worker:
    """One engine in a process of its own."""

    def __init__(self, engine: str, name: str, folder: str, threads: int, clock: str) -> None:
        command = [sys.executable, str(ENGINE), engine, name, folder, str(threads)]
        quiet = os.environ | {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it lives as long as the worker)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=quiet
        )
        self.clock, self.attention = clock, self._answer()

    def ask(self, **order: Any) -> tuple[float, float]:
        """Have something done; how many seconds it took, and what share of the machine others had meanwhile, if that
        makes a difference."""
        assert self.process.stdin
        before = busy()
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        seconds, own = self._answer()
        if self.clock == "cpu":
            return own, 0.0
        return seconds, max(0.0, busy() - before - own) / seconds / CORES

    def stop(self) -> None:
        """No more orders: the worker ends by itself."""
        self.process.communicate()

    def _answer(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            sys.exit(f"A worker ended with code {self.process.wait()}:\n{self.errors.read()}")
        return json.loads(line)


def busy() -> float:
    """How many seconds all cores together have worked since the machine began, where it says so."""
    if not STATISTICS.exists():
        return 0.0
    user, nice, system, _, _, *rest = map(int, STATISTICS.read_text().splitlines()[0].split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def wait_for_quiet() -> None:
    """Begin when nobody else computes; but do not wait for ever."""
    for _ in range(20):
        before = busy()
        time.sleep(0.25)
        if (busy() - before) / 0.25 / CORES <= QUIET:
            return


def save_reference(family: Family, folder: str) -> None:
    """A reference model of random weights, saved for both engines to load."""
    import transformers

    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    torch.manual_seed(SEED)
    config = getattr(transformers, family.config)(vocab_size=VOCAB, **family.size)
    getattr(transformers, family.model)(config).save_pretrained(folder)


def same_logits(workers: dict[str, Worker], setting: str, folder: str) -> float:
    """The largest difference of the two engines' logits; stops the benchmark where they disagree."""
    for engine, worker in workers.items():
        worker.ask(do="check", setting=setting, file=f"{folder}/{engine}.pt")
    one, other = (torch.load(f"{folder}/{engine}.pt") for engine in workers)
    if one.shape != other.shape or float(other.std()) < 100 * TOLERANCE:
        sys.exit(f"Not comparable: logits of {tuple(one.shape)} and {tuple(other.shape)}, spread {other.std():.2g}.")
    apart = float((one - other).abs().max())
    if not apart <= TOLERANCE:
        sys.exit(f"The engines disagree by {apart:.2g} ({setting}): they do not compute the same, so nothing is timed.")
    return apart


def measure(workers: dict[str, Worker], do: str, setting: str, count: int, rounds: int) -> dict[str, Any]:
    """Rounds in which both engines do the same thing one after the other, by turns the one or the other first.
    A round in which other programs computed too does not count, unless there are not enough quiet ones."""
    warm, _ = max(worker.ask(do=do, setting=setting) for worker in workers.values())
    times = max(1, round(SECONDS / warm))
    tried: list[dict[str, Any]] = []
    while sum(each["others"] <= QUIET for each in tried) < rounds and len(tried) < TRIES * rounds:
        if workers["ours"].clock == "wall":
            wait_for_quiet()
        taken: dict[str, Any] = {"others": 0.0}
        for engine in list(workers)[:: 1 if len(tried) % 2 else -1]:
            seconds, others = workers[engine].ask(do=do, setting=setting, times=times)
            taken |= {engine: seconds / times, "others": max(taken["others"], others)}
        tried.append(taken)
    kept = sorted(tried, key=lambda each: each["others"])[:rounds]
    ratios = [each["theirs"] / each["ours"] for each in kept]
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    speeds = {engine: count / median(each[engine] for each in kept) for engine in workers}
    noise = {"others": max(each["others"] for each in kept), "dropped": len(tried) - len(kept)}
    return {"do": do, "setting": setting, "ratio": median(ratios), "low": low, "high": high, **speeds, **noise}


def compare(name: str, chosen: argparse.Namespace, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Everything that is measured of one family."""
    family, results = FAMILIES[name], []
    with tempfile.TemporaryDirectory() as folder:
        save_reference(family, folder)
        workers = {engine: Worker(engine, name, folder, chosen.threads, chosen.clock) for engine in ENGINES}
        for setting in (*SETTINGS, *([MIXED] if family.mixed else [])):
            apart = same_logits(workers, setting, folder)
            for do in ("forward", "backward"):
                progress(f"{name} {setting} {do}")
                rounds = (chosen.rounds + 1) // 2 if setting == MIXED else chosen.rounds  # a mixed pass is long
                result = measure(workers, do, setting, tokens(family, setting), rounds)
                results.append({"family": name, "attention": workers["theirs"].attention, "apart": apart, **result})
        for worker in workers.values():
            worker.stop()
    return results


def table(results: list[dict[str, Any]]) -> Table:
    """Tokens a second of both, and how many times faster ours is: the median and the middle half of the rounds. A
    star: there were not enough quiet rounds."""
    shown = Table("family", "setting", "theirs uses", title="tokens a second: ours, theirs, and ours/theirs")
    for what in ("forward", "forward+backward"):
        for column in (f"{what}\nours", "theirs", "ours/theirs"):
            shown.add_column(column, justify="right")
    for there, back in zip(results[::2], results[1::2], strict=True):
        cells = []
        for each in (there, back):
            cells += [f"{each['ours']:,.0f}", f"{each['theirs']:,.0f}"]
            disturbed = "*" if each["others"] > QUIET else ""
            cells += [f"{each['ratio']:.2f}×{disturbed} ({each['low']:.2f}–{each['high']:.2f})"]
        shown.add_row(there["family"], there["setting"], there["attention"], *cells)
    return shown


def main() -> None:
    """Read the command line, measure, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", default=",".join(FAMILIES), help="names with commas between them")
    parser.add_argument("--rounds", type=int, default=7, help="how often both engines take turns")
    parser.add_argument("--threads", type=int, default=2, help="of each engine")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu, with 1 thread, where other programs run too"
    )
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    chosen = parser.parse_args()
    names = chosen.families.split(",")
    if unknown := set(names) - set(FAMILIES):
        parser.error(f"there is no family '{min(unknown)}'; choose from {', '.join(FAMILIES)}")
    results: list[dict[str, Any]] = []
    console = Console(width=None if sys.stdout.isatty() else 132)
    with Progress(console=console) as progress:
        steps = sum(2 * (len(SETTINGS) + FAMILIES[name].mixed) for name in names)
        task = progress.add_task("starting", total=steps)
        for name in names:
            results += compare(name, chosen, lambda what: progress.update(task, advance=1, description=what))
            if chosen.json:
                chosen.json.write_text(json.dumps(results, indent=1))
    console.print(machine(), highlight=False, markup=False)
    console.print(table(results))


if __name__ == "__main__":
    main()
