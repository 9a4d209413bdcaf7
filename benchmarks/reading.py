"""How fast is the reader, beside transformers, ONNX Runtime and OpenVINO with the same encoder in float32?

    python benchmarks/reading.py --model READER --data SQUAD.json [--questions 40] [--single 8] [--rounds 5]

  cold          Masquerade's reader; each passage is new to it
  remembered    the same, passages having been read before (``Reader.remember``, which is not timed)
  beam          the same weights writing the answer token by token, 4 beams, with a cache
  transformers  its model for question answering, with the reader's encoder and pointer head
  onnxruntime   that model, exported by torch.onnx
  openvino      the same file, in float32 (INFERENCE_PRECISION_HINT), not in the bfloat16 that it would choose

All start from texts and end with texts: tokenizing, the network, the search, and cutting the answer out of the passage
are timed; loading is not. The first questions of the file are asked; *together* in one call, *one by one* in a call
each. The reader's input has the slots of an answer in it and the others' has not; their answer is the best span of the
pointers, the reader's that of all its heads. The other engines get rows of like length together, and as many tokens at
once as was fastest for each of them in a trial with all questions (BATCHES).

Each engine is a process of its own. All ways take turns, so that only one computes at a time; speeds and ratios are
medians over the rounds, with quartiles. With --folder the exported model is kept, and with --json the rounds: the same
command then goes on from there, and its table is of all rounds. onnxruntime, openvino, onnx and onnxscript are not
among this package's dependencies: --engines-python names a Python that has them, torch and transformers.
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
from reading_engines import ONNX, prepare
from rich.console import Console
from rich.progress import Progress

ENGINE = Path(__file__).parent / "reading_engines.py"
TITLES = {
    "cold": "reader, new passages",
    "remembered": "reader, remembered passages",
    "beam": "token by token, 4 beams",
    "transformers": "transformers",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
}
OTHERS = ("transformers", "onnxruntime", "openvino")  # each an engine of its own; the other ways are of "ours"
BATCHES = (1, 512, 1024, 2048, 4096)  # tokens of a batch that are tried for the other engines; 1: a row at a time
SAME = (("cold", "remembered"), ("transformers", "onnxruntime"), ("transformers", "openvino"))  # equal answers
AGREED = 0.97  # … but for this share of them, which rounding may change


class Engine(Worker):
    """An engine in a process of its own."""

    def __init__(self, engine: str, chosen: argparse.Namespace, folder: str) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it lives as long as the worker)
        self.process = subprocess.Popen(
            command(engine, chosen, folder),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment(chosen),
        )  # fmt: skip
        self.clock, self.attention = chosen.clock, self._answer()


Orders = dict[str, tuple[Worker, dict[str, Any]]]  # by way: who does it, and what it is told


def command(engine: str, chosen: argparse.Namespace, folder: str) -> list[str]:
    """What starts an engine."""
    python = sys.executable if engine == "ours" else chosen.engines_python
    return [python, str(ENGINE), engine, chosen.model, folder, str(chosen.threads)]


def environment(chosen: argparse.Namespace) -> dict[str, str]:
    """The environment of an engine. Tokenizers have threads of their own."""
    quiet = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    return os.environ | quiet | {"RAYON_NUM_THREADS": str(chosen.threads), "OMP_NUM_THREADS": str(chosen.threads)}


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
            shares[f"{TITLES[one]} and {TITLES[other]}"] = share = equal / len(said[one])
            if share < AGREED:
                sys.exit(f"Not comparable: '{one}' and '{other}' give the same answer to {share:.0%} of the questions.")
    return shares


def best_batch(worker: Worker, order: dict[str, Any]) -> int:
    """The number of tokens of a batch with which an engine is fastest."""
    worker.ask(**order)
    taken = {tokens: worker.ask(**order | {"tokens": tokens})[0] for tokens in BATCHES}
    return min(taken, key=lambda tokens: taken[tokens])


def measure(orders: Orders, rounds: int, done: int) -> list[dict[str, float]]:
    """The seconds of each way in rounds in which all go one after the other, by turns in the one or the other
    direction; ``done`` rounds were before. A round in which other programs computed too does not count, unless there
    are not enough quiet ones."""
    times = {way: max(1, round(SECONDS / worker.ask(**order)[0])) for way, (worker, order) in orders.items()}
    tried: list[dict[str, float]] = []
    while sum(each["others"] <= QUIET for each in tried) < rounds and len(tried) < TRIES * rounds:
        if any(worker.clock == "wall" for worker, _ in orders.values()):
            wait_for_quiet()
        taken = {"others": 0.0}
        for way in list(orders)[:: 1 if (done + len(tried)) % 2 else -1]:
            worker, order = orders[way]
            seconds, others = worker.ask(**order, times=times[way])
            taken |= {way: seconds / times[way], "others": max(taken["others"], others)}
        tried.append(taken)
    return sorted(tried, key=lambda each: each["others"])[:rounds]


def spread(values: list[float]) -> tuple[float, float, float]:
    """The median, and the quartiles around it."""
    low, _, high = quantiles(values, n=4) if len(values) > 1 else values * 3
    return median(values), low, high


def run(chosen: argparse.Namespace, folder: str, progress: Callable[[str], None]) -> dict[str, Any]:
    """Both settings, all ways."""
    results: dict[str, Any] = {}
    if chosen.json and chosen.json.exists():
        results = json.loads(chosen.json.read_text(encoding="utf-8"))
    ways = chosen.only.split(",")
    if {"onnxruntime", "openvino"} & set(ways) and not (Path(folder) / ONNX).exists():
        progress("export")
        subprocess.run(command("export", chosen, folder), check=True, capture_output=True, env=environment(chosen))
    engines = {way if way in OTHERS else "ours" for way in ways}
    workers: dict[str, Worker] = {engine: Engine(engine, chosen, folder) for engine in engines}
    for name, count in (("together", chosen.questions), ("one by one", chosen.single)):
        if not count:
            continue
        result = results.setdefault(f"{count} questions {name}", {"count": count, "batch": {}, "rounds": []})
        orders: Orders = {}
        for way in ways:
            progress(f"{name}: {way}")
            worker = workers[way if way in OTHERS else "ours"]
            order = {"way": way, "count": count, "together": name == "together", "tokens": 1}
            if way in OTHERS and name == "together":
                order["tokens"] = result["batch"].get(way) or best_batch(worker, order)
                result["batch"][way] = order["tokens"]
            orders[way] = worker, order
        result["same"] = result.get("same") or check(orders, folder)
        progress(name)
        result["rounds"] += measure(orders, chosen.rounds, len(result["rounds"]))
        if chosen.json:
            chosen.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    for worker in workers.values():
        worker.stop()
    return results


def table(results: dict[str, Any]) -> str:
    """Questions a second, and how many times as many as the other engines', in Markdown. A star: there were not enough
    quiet rounds."""
    lines = []
    for name, each in results.items():
        rounds = each["rounds"]
        ways = [way for way in TITLES if way in rounds[0]]
        others = [way for way in ways if way in OTHERS]
        star = "*" if max(one["others"] for one in rounds) > QUIET else ""
        head = [name, f"questions/s{star}", *(f"× {TITLES[other]}" for other in others)]
        lines += ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for way in ways:
            cells = [TITLES[way], shown(spread([each["count"] / one[way] for one in rounds]), digits=1)]
            cells += ["" if other == way else shown(spread([one[other] / one[way] for one in rounds]), digits=2)
                      for other in others]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", f"{len(rounds)} rounds."]
        if each["batch"]:
            batches = ", ".join(f"{TITLES[way]} {tokens}" for way, tokens in each["batch"].items())
            lines.append(f"Tokens of a batch: {batches}.")
        lines += [f"The same answers, {pair}: {share:.1%}." for pair, share in each["same"].items()]
    return "\n".join(lines[1:])


def shown(found: tuple[float, float, float], digits: int) -> str:
    """A median with its quartiles."""
    middle, low, high = found
    return f"{middle:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def main() -> None:
    """Read the command line, measure, show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a reader's folder, or a run's")
    parser.add_argument("--data", required=True, help="questions in SQuAD's format, or any that the reader takes")
    parser.add_argument("--questions", type=int, default=40, help="how many are asked together")
    parser.add_argument("--single", type=int, default=8, help="how many are asked one by one; 0: leave that out")
    parser.add_argument("--only", default="", help="ways, with commas between them; by default all that can run")
    parser.add_argument("--rounds", type=int, default=5, help="how often all ways take turns")
    parser.add_argument("--threads", type=int, default=2, help="of each process")
    parser.add_argument("--engines-python", default="", help="the Python that runs the other engines, if another")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu, with 1 thread, where other programs run too"
    )
    parser.add_argument("--json", type=Path, help="write the rounds to this file, and go on from those in it")
    parser.add_argument("--folder", default="", help="keep the exported model here, and use one that is here")
    chosen = parser.parse_args()
    exported = () if chosen.engines_python else ("onnxruntime", "openvino")
    chosen.only = chosen.only or ",".join(way for way in TITLES if way not in exported)
    chosen.engines_python = chosen.engines_python or sys.executable
    if unknown := set(chosen.only.split(",")) - set(TITLES):
        parser.error(f"there is no way '{min(unknown)}'; choose from {', '.join(TITLES)}")
    with tempfile.TemporaryDirectory() as scratch, Progress(console=Console(stderr=True)) as progress:
        task, folder = progress.add_task("starting", total=None), chosen.folder or scratch
        pairs = prepare(chosen.model, chosen.data, chosen.questions, folder)
        chosen.questions, chosen.single = len(pairs), min(chosen.single, len(pairs))
        results = run(chosen, folder, lambda what: progress.update(task, description=what))
    passages = {passage for _, passage in pairs}
    print(f"{len(pairs)} questions of {len(passages)} passages, {sum(map(len, passages)) / len(passages):,.0f} "
          f"characters each; {chosen.threads} threads, {chosen.clock} clock.\n")  # fmt: skip
    print(machine())
    print(table(results))


if __name__ == "__main__":
    main()
