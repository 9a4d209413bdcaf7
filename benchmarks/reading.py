"""How fast is the reader: in one pass, on remembered passages, word by word, beside transformers' extractive head?

    python benchmarks/reading.py --model READER --data SQUAD.json [--questions 64] [--single 8] [--rounds 5]

  cold          Masquerade's reader; each passage is new to it, and is read once for all its questions
  remembered    the same, passages having been read before (``Reader.remember``, which is not timed)
  greedy        the same weights writing the answer word by word, with a cache
  beam          … by beam search, 4 beams
  uncached      … and running everything again for each word, as the sources do
  transformers  BertForQuestionAnswering with the same encoder and a head by chance; sdpa attention, rows of like length
                together, as many tokens at once as the reader has, the best of all spans without a loop

All start from texts and end with texts: tokenizing, the network, the search, and cutting the answer out of the passage
are timed; loading is not. The first questions of the file are asked as it has them, several of a passage; *together* in
one call, *one by one* in a call each. Written answers have to be spans of the passage, as all others are. Each of the
two libraries is a process of its own; all ways take turns, so that only one computes at a time and all meet the same
weather. Speeds and ratios are medians over the rounds, with quartiles.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from families import QUIET, SECONDS, TRIES, Worker, wait_for_quiet
from machine import machine
from reading_engines import questions, save_encoder
from rich.console import Console
from rich.progress import Progress

ENGINE = Path(__file__).parent / "reading_engines.py"
TITLES = {
    "cold": "reader, new passages",
    "remembered": "reader, remembered passages",
    "greedy": "word by word, greedy, cached",
    "beam": "word by word, 4 beams, cached",
    "uncached": "word by word, 4 beams, uncached (the sources)",
    "transformers": "transformers, extractive head",
}
RIVALS = {"transformers": "× transformers", "uncached": "× the sources"}  # what the others are compared with
SAME = (("cold", "remembered"), ("beam", "uncached"))  # who has to give the same answers
AGREED = 0.95  # … but for this share of them, which rounding may change


class Engine(Worker):
    """One library in a process of its own."""

    def __init__(self, engine: str, chosen: argparse.Namespace, folder: str) -> None:
        threads = str(chosen.threads)
        quiet = os.environ | {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        quiet |= {"RAYON_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}  # tokenizers have threads of their own
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it lives as long as the worker)
        words = [engine, chosen.model, folder, chosen.data, str(chosen.questions), threads]
        self.process = subprocess.Popen(
            [sys.executable, str(ENGINE), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=quiet,
        )  # fmt: skip
        self.clock, self.attention = chosen.clock, self._answer()


Orders = dict[str, tuple[Worker, dict[str, Any]]]  # by way: who does it, and what it is told


def check(orders: Orders, folder: str) -> dict[str, float]:
    """How many answers are the same where they have to be; stops the benchmark where they are not. All ways have then
    been gone once."""
    said = {}
    for way, (worker, order) in orders.items():
        file = Path(folder) / f"{way}.json"
        worker.ask(**order, file=str(file))
        said[way] = json.loads(file.read_text(encoding="utf-8"))
    shares = {}
    for one, other in SAME:
        if one in said and other in said:
            equal = sum(a == b for a, b in zip(said[one], said[other], strict=True))
            shares[f"{one} and {other}"] = share = equal / len(said[one])
            if share < AGREED:
                sys.exit(f"Not comparable: '{one}' and '{other}' give the same answer to {share:.0%} of the questions.")
    return shares


def measure(orders: Orders, rounds: int) -> dict[str, Any]:
    """Rounds in which all ways are gone one after the other, by turns in the one or the other direction. A round in
    which other programs computed too does not count, unless there are not enough quiet ones."""
    times = {way: max(1, round(SECONDS / worker.ask(**order)[0])) for way, (worker, order) in orders.items()}
    tried: list[dict[str, float]] = []
    while sum(each["others"] <= QUIET for each in tried) < rounds and len(tried) < TRIES * rounds:
        if any(worker.clock == "wall" for worker, _ in orders.values()):
            wait_for_quiet()
        taken = {"others": 0.0}
        for way in list(orders)[:: 1 if len(tried) % 2 else -1]:
            worker, order = orders[way]
            seconds, others = worker.ask(**order, times=times[way])
            taken |= {way: seconds / times[way], "others": max(taken["others"], others)}
        tried.append(taken)
    kept = sorted(tried, key=lambda each: each["others"])[:rounds]
    ways = {}
    for way, (_, order) in orders.items():
        ways[way] = {"speed": spread([order["count"] / each[way] for each in kept])}
        ways[way] |= {rival: spread([each[rival] / each[way] for each in kept]) for rival in RIVALS if rival in orders}
    noise = {"others": max(each["others"] for each in kept), "dropped": len(tried) - len(kept)}
    return {"ways": ways, **noise}


def spread(values: list[float]) -> tuple[float, float, float]:
    """The median, and the quartiles around it."""
    low, _, high = quantiles(values, n=4) if len(values) > 1 else values * 3
    return median(values), low, high


def run(chosen: argparse.Namespace, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Both settings, all ways."""
    results: list[dict[str, Any]] = []
    ways = chosen.only.split(",")
    with tempfile.TemporaryDirectory() as folder:
        workers: dict[str, Worker] = {"ours": Engine("ours", chosen, folder)}
        if "transformers" in ways:
            save_encoder(chosen.model, folder)
            workers["theirs"] = Engine("theirs", chosen, folder)
        for name, count, together in (("together", chosen.questions, True), ("one by one", chosen.single, False)):
            if not count:
                continue
            progress(name)
            orders: Orders = {
                way: (workers["theirs" if way == "transformers" else "ours"],
                      {"way": way, "count": count, "together": together})
                for way in ways
            }  # fmt: skip
            shares = check(orders, folder)
            results.append({"setting": name, "questions": count, "same": shares, **measure(orders, chosen.rounds)})
            if chosen.json:
                chosen.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
        for worker in workers.values():
            worker.stop()
    return results


def table(results: list[dict[str, Any]]) -> str:
    """Questions a second, and how many times as many as the rivals', in Markdown. A star: there were not enough quiet
    rounds."""
    rivals = {rival: title for rival, title in RIVALS.items() if rival in results[0]["ways"]}
    lines = []
    for each in results:
        star = "*" if each["others"] > QUIET else ""
        counted = f"{each['questions']} question{'s' * (each['questions'] > 1)} {each['setting']}"
        head = [counted, f"questions/s{star}", *rivals.values()]
        lines += ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for way, found in each["ways"].items():
            cells = [TITLES[way], shown(*found["speed"], digits=1)]
            cells += ["" if rival == way else shown(*found[rival], digits=2) for rival in rivals]
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", *(f"The same answers, {pair}: {share:.1%}." for pair, share in each["same"].items())]
    return "\n".join(lines[1:])


def shown(middle: float, low: float, high: float, digits: int) -> str:
    return f"{middle:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def main() -> None:
    """Read the command line, measure, show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a reader's folder, or a run's")
    parser.add_argument("--data", required=True, help="questions in SQuAD's format, or any that the reader takes")
    parser.add_argument("--questions", type=int, default=64, help="how many are asked together")
    parser.add_argument("--single", type=int, default=8, help="how many are asked one by one; 0: leave that out")
    parser.add_argument("--only", default=",".join(TITLES), help="ways, with commas between them")
    parser.add_argument("--rounds", type=int, default=5, help="how often all ways take turns")
    parser.add_argument("--threads", type=int, default=2, help="of each process")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu, with 1 thread, where other programs run too"
    )
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    chosen = parser.parse_args()
    if unknown := set(chosen.only.split(",")) - set(TITLES):
        parser.error(f"there is no way '{min(unknown)}'; choose from {', '.join(TITLES)}")
    pairs = questions(chosen.data, chosen.questions)
    chosen.questions, chosen.single = len(pairs), min(chosen.single, len(pairs))
    passages = {passage for _, passage in pairs}
    console = Console(stderr=True)
    with Progress(console=console) as progress:
        task = progress.add_task("starting", total=2)
        results = run(chosen, lambda what: progress.update(task, advance=1, description=what))
    print(f"{len(pairs)} questions of {len(passages)} passages, {sum(map(len, passages)) / len(passages):,.0f} "
          f"characters each; {chosen.threads} threads, {chosen.rounds} rounds.\n")  # fmt: skip
    print(machine())
    print(table(results))


if __name__ == "__main__":
    main()
