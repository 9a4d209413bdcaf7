"""One experiment of docs/entities.md: does a reader answer better with a memory of entities between its layers?

    python scripts/entity_reader.py DATA OUT --memory KB --entities RUN --plain RUN [--seeds 3] [--train 1500]

DATA has reading/en/more/zsre-qa.jsonl.gz: questions about a relation of an entity, each with one sentence. KB and the
two runs are those of scripts/entity_results.py (with --keep): one encoder trained on the same linked texts, with
Entities as Experts and without a memory. Both are trained on as readers with the same questions, steps and seeds. The
reader with the memory finds mentions by its own head; at the end it is also asked with an empty memory. Questions are
split by sentence. What was done is not done again. Prints Markdown, with 95 % bootstrap intervals over questions; F1 of
a question is the mean over the seeds.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from masquerade import Model, load, save
from masquerade.data.rng import rng_for
from masquerade.files import write_text
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.networks import attach, parts
from masquerade.reading.reader import Reader
from masquerade.reading.records import QuestionRecord, read_questions, write_questions
from masquerade.reading.scores import METRICS
from masquerade.reading.training import Reading, TrainReader
from masquerade.training.loop import Run

PLAIN, MEMORY, EMPTY = "without a memory", "with the memory", "with it, emptied for the test"
SAMPLES = 10_000  # of the bootstrap


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--memory", required=True, help="the knowledge base")
    parser.add_argument("--entities", required=True, help="the run with Entities as Experts")
    parser.add_argument("--plain", required=True, help="the run without a memory")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train", type=int, default=1500, help="training questions")
    parser.add_argument("--test", type=int, default=600, help="test questions")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    train, test = split(options)
    memory = FactMemory(options.memory)
    known = np.array([bool(memory.candidates(record.accepted[0])) for record in test])
    scores: dict[str, list[list[float]]] = {PLAIN: [], MEMORY: [], EMPTY: []}
    for seed in range(1, options.seeds + 1):
        for way, start in ((PLAIN, options.plain), (MEMORY, options.entities)):
            run, path = options.out / f"{Path(start).name[:8]}-{seed}", options.out / f"{way.split()[0]}-{seed}.json"
            if not path.is_file():
                bare(start, run)
                write_text(path, json.dumps(answered(memory, way, seed, run, train, test)))
            for name, values in json.loads(path.read_text()).items():
                scores[name].append(values)
    print_table({way: np.mean(values, 0) for way, values in scores.items()}, known, options)


def split(options: argparse.Namespace) -> tuple[Path, list[QuestionRecord]]:
    """The file of training questions, and the test questions; no sentence is in both."""
    records = read_questions(str(options.data / "reading" / "en" / "more" / "zsre-qa.jsonl.gz"))
    sentences = list(dict.fromkeys(record.passages[0] for record in records))
    order = rng_for(1, len(sentences)).permutation(len(sentences))
    tested = {sentences[int(number)] for number in order[: len(sentences) // 4]}
    parts_of = [[each for each in records if (each.passages[0] in tested) == side] for side in (False, True)]
    chosen = [
        [part[int(number)] for number in rng_for(2, len(part)).permutation(len(part))[:count]]
        for part, count in zip(parts_of, (options.train, options.test), strict=True)
    ]
    write_questions(chosen[0], options.out / "train.jsonl")
    return options.out / "train.jsonl", chosen[1]


def bare(start: str, run: Path) -> None:
    """The encoder of a run without its classifier of entities, for a reader to start from."""
    model = load(start)
    between = {layer: part for layer, part in model.spec.between.items() if part[0] != "facts"}
    made = Model(replace(model.spec, between=between), model.tokenizer)
    made.load_state_dict({name: model.state_dict()[name] for name in made.state_dict()})
    save(made, Path(f"{run}-start"))


class TrainWithMemory(TrainReader):
    """A reader whose network has the entities of a knowledge base, if it has a memory."""

    def __init__(self, recipe: Reading, memory: FactMemory) -> None:
        super().__init__(recipe)
        self.memory = memory

    def read(self, model: Model, folder: Path) -> None:
        attach(model, self.memory)
        super().read(model, folder)


def answered(
    memory: FactMemory, way: str, seed: int, run: Path, train: Path, test: list[QuestionRecord]
) -> dict[str, list[float]]:
    """Train a reader; the F1 of each test question, by the name of how it was asked."""
    recipe = Reading(
        train=(str(train),), out=str(run), start=f"{run}-start", seed=seed, epochs=2, rate=2e-4, slots=12, segment=1,
        most=1, row=128, micro=16, parts={"copies": 1.0, "pointers": 1.0}, save_every=30, log_every=20,
    )  # fmt: skip
    Run(TrainWithMemory(recipe, memory), resume=True).train()
    model = load(run)
    attach(model, memory)
    found = {way: f1_of(model, test)}
    if way == MEMORY:
        for part in parts(model):
            part.entities.set(torch.zeros(0, memory.vectors().shape[1]))
        found[EMPTY] = f1_of(model, test)
    return found


def f1_of(model: Model, test: list[QuestionRecord]) -> list[float]:
    """The F1 of each question, in percent."""
    answers = Reader(model).ask_many([(record.question, record.passages) for record in test], threshold=0.0)
    return [
        float(METRICS["squad"]({record.id: answer.text}, [record]).total["f1"])
        for record, answer in zip(test, answers, strict=True)
    ]


def print_table(scores: dict[str, Any], known: Any, options: argparse.Namespace) -> None:
    """Print F1 for all questions, and for those whose answer is a name of the knowledge base."""
    columns = {**scores, "the memory's gain": scores[MEMORY] - scores[PLAIN]}
    print(
        f"| F1, {options.seeds} seeds | all {len(known)} questions | the {known.sum()} whose answer is a known name |"
    )
    print("|---|---|---|")
    for name, values in columns.items():
        print(f"| {name} | {interval(values)} | {interval(values[known])} |")


def interval(values: Any) -> str:
    """The mean with its bootstrap interval."""
    index = np.random.default_rng(1).integers(len(values), size=(SAMPLES, len(values)))
    low, high = np.percentile(values[index].mean(1), [2.5, 97.5])
    return f"{values.mean():.1f} ({low:.1f} to {high:.1f})"


if __name__ == "__main__":
    main()
