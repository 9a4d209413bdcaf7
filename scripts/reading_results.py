"""The runs behind the tables of readers in docs/results.md: one small budget of questions for all of them.

    python scripts/reading_results.py DATA OUT [--only a,v,b,c,d,zh] [--seeds 3] [--limit 1200] [--jobs 2] [KEY=VALUE …]

From the project's root. DATA is what scripts/reading_data.py wrote. Each run is one `masquerade train reader` command
with the first so many training questions, read once (KEY=VALUE changes the recipe for all runs), and then answers some
questions of the held-out file, always the same. What is done is not done again and broken runs go on, so it can be
stopped and started at will. Prints tables as Markdown, with their commands.

  a   answers all at once against answers word by word, and the same weights doing both; zh is a with CMRC 2018.
      Both copy from the passage, with pointers learnt beside
  v   the same with words of the vocabulary, and nothing learnt beside
  b   a passage shared by its questions through 0, 1, … layers: how good, how fast (and a plot)
  c   the heads, each trained alone, and together; and of a reader that has them all, some of them asked
  d   the exact search against the greedy walk along n-grams, on the same scores; with --reader RUN of that run alone
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median, quantiles, stdev
from typing import Any

import torch
from walk import walk

from masquerade.checkpoints.folders import load
from masquerade.decoding.spans import choose_spans, ends_at, span_scores, words_at
from masquerade.errors import MasqueradeError
from masquerade.files import read_json, write_text
from masquerade.reading.answers import Candidate
from masquerade.reading.decoders import DECODERS
from masquerade.reading.memory import encode_passages, encode_questions
from masquerade.reading.questions import WindowQuestion
from masquerade.reading.reader import Reader
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.reading.scores import METRICS
from masquerade.reading.span_scores import PARTS
from masquerade.reading.training import Reading, TrainReader
from masquerade.training.loop import Run
from masquerade.training.recipe import read_recipe

FILES = {"en": ("en-train.jsonl", "en-tune.jsonl"), "zh": ("zh-train.jsonl", "zh-tune.jsonl")}
METRIC = {"en": "squad", "zh": "cmrc"}
ALONE = {part: [f"parts.{each}={int(each == part)}" for each in PARTS] for part in PARTS}
FORKS = (0, 2, 3, 4, 6)
SHARED = tomllib.loads((Path(__file__).parents[1] / "recipes/reader-en.toml").read_text(encoding="utf-8"))["fork"]
ASKED = 32  # questions that are answered for a speed

RUNS = {  # what a run changes, besides its budget and its seed
    "together": [],
    **ALONE,
    "words-written": [*ALONE["words"], "written=1"],
    "slots": ["parts.words=0"],
    "written": ["parts.words=0", "written=1"],
    "half": ["parts.words=0", "written=0.5"],
    **{f"fork-{layers}": [f"fork={layers}"] for layers in FORKS if layers != SHARED},
}
SUBSETS = ["+".join(some) for count in (1, 2) for some in combinations(PARTS, count)]
ROWS: dict[str, list[tuple[str, str, str]]] = {  # of each table: a title, the run, and how it answers
    "a": [
        ("all at once (slots)", "slots", "copies"),
        ("word by word (seq2seq)", "written", "autoregressive"),
        ("half of each: all at once", "half", "copies"),
        ("half of each: word by word", "half", "autoregressive"),
        ("half of each: eight drafts, reranked", "half", "rerank"),
        ("half of each: mixture", "half", "mixture"),
        ("all at once, slots and pointers", "slots", "copies+pointers"),
    ],
    "v": [
        ("all at once (masks)", "words", "words"),
        ("word by word (seq2seq)", "words-written", "autoregressive"),
    ],
    "b": [(str(layers), "together" if layers == SHARED else f"fork-{layers}", "copies+pointers") for layers in FORKS],
    "c": [
        *((f"{part}, trained alone", part, "parallel") for part in PARTS),
        ("all, trained together", "together", "parallel"),
        *((f"… of which {some.replace('+', ' and ')}", "together", some) for some in SUBSETS),
    ],
    "d": [
        ("words: exact search", "words", "words"),
        ("words: walk", "words", "walk"),
        ("words: walk that has to answer", "words", "walk 1"),
        ("together, words: exact search", "together", "words"),
        ("together, words: walk", "together", "walk"),
        ("together, words: walk that has to answer", "together", "walk 1"),
    ],
}


@dataclass(frozen=True)
class Task:
    """A run to do, and the ways in which its reader is to answer."""

    name: str
    language: str
    seed: int
    ways: tuple[str, ...]
    data: Path
    out: Path
    limit: int
    questions: int
    threads: int
    changes: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return self.out / f"{self.language}-{self.name}-{self.limit}-{self.seed}"

    @property
    def command(self) -> list[str]:
        train, _ = FILES[self.language]
        return [
            "masquerade", "train", "reader", f"recipes/reader-{self.language}.toml", f"train={self.data / train}",
            "held_out=[]", f"limit={self.limit}", "epochs=1", "written=0", f"seed={self.seed}", f"out={self.folder}",
            *self.changes, *RUNS[self.name],
        ]  # fmt: skip

    def scores(self) -> dict[str, dict[str, float]]:
        """What is known already, by way and number of questions; the file is there once the run is trained."""
        file = self.folder / "scores.json"
        return read_json(file) if file.is_file() else {}

    def score(self, way: str) -> dict[str, float] | None:
        return self.scores().get(f"{way}, {self.questions} questions")


def finish(task: Task) -> None:
    """Train a reader, if that is not done, and let it answer in the ways that are not known yet. In a process of its
    own."""
    torch.set_num_threads(task.threads)
    file, note, command = task.folder / "scores.json", task.folder / "command.txt", shlex.join(task.command)
    if note.is_file() and note.read_text(encoding="utf-8") != command:
        raise MasqueradeError(f"{task.folder} holds another run; choose another OUT. Its command is in {note}.")
    if not file.is_file():
        print(command, file=sys.stderr, flush=True)
        resume = ["--resume"] if task.folder.is_dir() else []
        write_text(note, command)
        environment = os.environ | {"OMP_NUM_THREADS": str(task.threads)}
        said = subprocess.run(
            [sys.executable, "-m", "masquerade", *task.command[1:], *resume], env=environment, capture_output=True,
            text=True,
        )  # fmt: skip
        if said.returncode:
            print(f"{task.folder} has failed:\n{said.stderr}", file=sys.stderr, flush=True)
            return
        for state in task.folder.glob("step-*/optimizer.pt"):
            state.unlink()  # most of the checkpoint, and the run is over
        write_text(file, "{}")
    records = held_out(task)
    for way in task.ways:
        if task.score(way) is None:
            found = evaluate(task.folder, way, records, METRIC[task.language])
            known = task.scores() | {f"{way}, {task.questions} questions": found}
            write_text(file, json.dumps(known, indent=1) + "\n")


def held_out(task: Task) -> list[QuestionRecord]:
    """Some of the held-out questions: as many as are wanted, from the whole of the file."""
    return spread_out(read_questions(str(task.data / FILES[task.language][1])), task.questions)


def spread_out(records: Sequence[QuestionRecord], count: int) -> list[QuestionRecord]:
    """So many records, from the whole of them."""
    return list(records[:: max(1, len(records) // count)][:count])


class Walker(Reader):
    """A reader whose answers come from the greedy walk, by the words at the slots; it counts how that went."""

    least = 0  # tokens of an answer
    asked = missed = silent = 0  # windows asked; those with a better span than the one found; those without an answer

    @torch.inference_mode()
    def _written(
        self, batch: Sequence[list[WindowQuestion]], n_best: int, decoder: str, free: bool
    ) -> Iterator[tuple[WindowQuestion, list[Candidate], float]]:
        kept = encode_passages(self.model, self.layout, [asks[0].window for asks in batch])
        rows = encode_questions(self.model, self.layout, kept, [[ask.ids for ask in asks] for asks in batch])
        logs = self.model.head("lm", rows.slots).float().log_softmax(-1)
        for row, ask in enumerate(ask for asks in batch for ask in asks):
            ids, score = walk(logs[row], ask.window.ids, self.layout.sep, self.least)
            passage, sep = torch.as_tensor(ask.window.ids), self.layout.sep
            best = choose_spans(span_scores(words_at(logs[row], passage, sep), ends_at(logs[row], sep)), passage)[0]
            self.asked += 1
            self.silent += not ids
            self.missed += bool(ids) and best.score > score + 1e-4
            yield ask, [ask.text_of(tuple(ids), math.exp(score), self.tokenizer)] if ids else [], 0.0


def evaluate(folder: Path, way: str, records: Sequence[QuestionRecord], metric: str) -> dict[str, float]:
    """How good a reader's answers are: by one of its decoders, by some of its heads, or by the walk."""
    walks, parts = way.startswith("walk"), way.split("+")
    reader = (Walker if walks else Reader)(load(folder))
    if isinstance(reader, Walker):
        reader.least = int(way.removeprefix("walk") or 0)
    elif set(parts) <= set(PARTS):
        chosen = {part: reader.settings.parts[part] * (part in parts) for part in PARTS}
        reader.settings = replace(reader.settings, parts=chosen)
    decoder = "autoregressive" if walks else way if way in DECODERS else "parallel"
    start = time.perf_counter()
    answers = reader.ask_many([(record.question, record.passages) for record in records], decoder=decoder)
    taken = {"seconds": time.perf_counter() - start}
    if isinstance(reader, Walker):
        taken |= {"missed": 100 * reader.missed / reader.asked, "silent": 100 * reader.silent / reader.asked}
    found = {record.id: answer.text for record, answer in zip(records, answers, strict=True)}
    return METRICS[metric](found, records).total | taken


# ------------------------------------------------------------------------------------------------------------- speeds


def speeds(tasks: Mapping[int, Task], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Questions a second by the number of shared layers: in training steps, and in answers from new and from
    remembered passages. All take turns in one process, so that all meet the same weather: the median, and the median
    and the quartiles of the ratio to no shared layers."""
    records = read_questions(str(tasks[0].data / FILES["en"][1]))[:ASKED]  # as they come, several of a passage
    asked = [(record.question, record.passages) for record in records]
    acts = dict[tuple[str, int], Callable[[], int]]()
    with tempfile.TemporaryDirectory() as folder:
        for layers, task in tasks.items():
            changes = [*task.command[4:], f"out={folder}/{layers}"]
            run = Run(TrainReader(read_recipe(Path(task.command[3]), Reading, changes)))
            new, known = Reader(load(task.folder)), Reader(load(task.folder))
            known.remember([passage for record in records for passage in record.passages])
            acts["training", layers] = partial(_step, run, run.job.batches(run.place))
            acts["new passages", layers] = partial(_ask, new, asked)
            acts["remembered", layers] = partial(_ask, known, asked)
        times = dict[tuple[str, int], list[float]]({key: [] for key in acts})
        for turn in range(1 + rounds):
            for key in list(acts)[:: 1 if turn % 2 else -1]:  # by turns in the one or the other direction
                start = time.perf_counter()
                count = acts[key]()
                if turn:  # the first one warms up
                    times[key].append((time.perf_counter() - start) / count)
    found = dict[str, dict[str, list[float]]]()
    for (what, layers), each in times.items():
        ratios = [base / mine for base, mine in zip(times[what, 0], each, strict=True)]
        low, middle, high = quantiles(ratios, n=4) if rounds > 1 else ratios * 3
        found.setdefault(what, {})[str(layers)] = [1 / median(each), middle, low, high]
    return found


def _step(run: Run, stream: Iterator[tuple[Any, Any]]) -> int:
    rows, _ = next(stream)
    run._step(rows)
    return run.bare.counts(rows)["pointers"]


def _ask(reader: Reader, asked: Sequence[tuple[str, Sequence[str]]]) -> int:
    return len(reader.ask_many(asked))


def plot(scores: Mapping[str, list[list[float]]], speed: Mapping[str, Mapping[str, list[float]]], path: Path) -> None:
    """Quality and speed against the number of shared layers; ``scores`` by measure and layers, a number a seed."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, each in scores.items():
        held = {layers: found for layers, found in zip(FORKS, each, strict=True) if found}
        spread = [stdev(found) if len(found) > 1 else 0.0 for found in held.values()]
        left.errorbar(list(held), [mean(found) for found in held.values()], spread, marker="o", capsize=3, label=name)
    for what, points in speed.items():
        right.plot([int(number) for number in points], [point[1] for point in points.values()], marker="o", label=what)
    left.set(xlabel="layers that share the passage", ylabel="percent", ylim=(0, None))
    right.set(xlabel="layers that share the passage", ylabel="questions a second, times as many", ylim=(0, None))
    for axes in (left, right):
        axes.legend()
    figure.savefig(path, dpi=150)


# ------------------------------------------------------------------------------------------------------------- tables


def known(tasks: Sequence[Task], way: str, measure: str) -> list[float]:
    """What is known of a measure, a number a seed; nothing where that is not measured."""
    found = (task.score(way) for task in tasks)
    return [each[measure] for each in found if each is not None and measure in each]


def shown(values: Sequence[float]) -> str:
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{mean(values):.1f}{spread}" if values else ""


def lines(table: str, language: str, by_run: Mapping[str, list[Task]], speed: Mapping[str, Any]) -> Iterator[str]:
    """A table in Markdown, with the command of its runs."""
    first = next(iter(by_run.values()))[0]
    changed = len(RUNS[first.name])
    common = [word for word in first.command[: len(first.command) - changed] if not word.startswith(("seed=", "out="))]
    yield f"\n### {table}{', CMRC 2018' if language == 'zh' else ''}\n"
    yield f"```sh\n{shlex.join(common)} seed=1 out=X CHANGES\n```\n"
    extra = {"d": ["missed", "silent"]}.get(table, [])
    head = ["", "seeds", "EM", "F1", *(f"{name} (%)" for name in extra), *speed, "answered by", "CHANGES"]
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for title, name, way in ROWS[table]:
        tasks = by_run[name]
        cells = [title, str(len(known(tasks, way, "f1")))]
        cells += [shown(known(tasks, way, measure)) for measure in ("exact", "f1", *extra)]
        for points in speed.values():
            rate, ratio, low, high = points[title]
            cells.append(f"{rate:.1f}/s, {ratio:.2f}× ({low:.2f}–{high:.2f})")
        yield f"| {' | '.join([*cells, way, f'`{shlex.join(RUNS[name])}`' if RUNS[name] else ''])} |"


def forks(asked: argparse.Namespace, by_run: Mapping[str, list[Task]]) -> dict[str, dict[str, list[float]]]:
    """The speeds of table b, measured if they are not known yet; and its plot."""
    file = asked.out / f"speeds-{asked.limit}.json"
    if not file.is_file():
        torch.set_num_threads(asked.threads)
        found = speeds({int(title): by_run[name][0] for title, name, _ in ROWS["b"]}, asked.rounds)
        write_text(file, json.dumps(found, indent=1) + "\n")
    speed: dict[str, dict[str, list[float]]] = read_json(file)
    scores = {
        title: [known(by_run[name], way, measure) for _, name, way in ROWS["b"]]
        for title, measure in (("EM", "exact"), ("F1", "f1"))
    }
    plot(scores, speed, asked.plot or asked.out / "fork.png")
    return speed


def main() -> None:
    """Do what is still to do, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE", help="changes of the recipe for all runs")
    parser.add_argument("--only", default="a,v,b,c,d", help="tables, with commas between them: a, v, b, c, d, zh")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--once", default="", help="runs that are done with the first seed alone, as half,words")
    parser.add_argument("--limit", type=int, default=1200, help="training questions of a run")
    parser.add_argument("--questions", type=int, default=240, help="held-out questions that are answered")
    parser.add_argument("--threads", type=int, default=1, help="of a run")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--rounds", type=int, default=5, help="of turns in which speeds are measured")
    parser.add_argument("--plot", type=Path, help="draw table b to this file; else to fork.png in OUT")
    parser.add_argument("--reader", type=Path, help="only compare the searches of table d, with the words of this run")
    asked = parser.parse_intermixed_args()
    tables = asked.only.split(",")
    if unknown := set(tables) - {*ROWS, "zh"}:
        parser.error(f"there is no table '{min(unknown)}'; choose from {', '.join(ROWS)} and zh")
    if asked.reader:
        torch.set_num_threads(asked.threads)
        records = spread_out(read_questions(str(asked.data / FILES["en"][1])), asked.questions)
        for way in ("words", "walk", "walk 1"):
            print(way, evaluate(asked.reader, way, records, METRIC["en"]), flush=True)
        return
    wanted = dict[tuple[str, str], list[str]]()
    for table in tables:
        for _, name, way in ROWS["a" if table == "zh" else table]:
            wanted.setdefault(("zh" if table == "zh" else "en", name), []).append(way)
    budget = (asked.data, asked.out, asked.limit, asked.questions, asked.threads, tuple(asked.changes))
    tasks = [
        Task(name, language, seed, tuple(dict.fromkeys(ways)), *budget)
        for seed in range(1, asked.seeds + 1)
        for (language, name), ways in wanted.items()
        if seed == 1 or name not in asked.once.split(",")
    ]
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        for number, _ in enumerate(pool.map(finish, tasks), start=1):
            print(f"{number} of {len(tasks)} runs", file=sys.stderr, flush=True)
    for table in tables:
        language = "zh" if table == "zh" else "en"
        rows = "a" if table == "zh" else table
        by_run = {name: [task for task in tasks if (task.name, task.language) == (name, language)]
                  for _, name, _ in ROWS[rows]}  # fmt: skip
        speed = forks(asked, by_run) if table == "b" else {}
        print("\n".join(lines(rows, language, by_run, speed)))


if __name__ == "__main__":
    main()
