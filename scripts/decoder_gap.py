"""When is one pass good enough? Parallel beside autoregressive decoding, of answers and of titles.

    python scripts/decoder_gap.py READER QUESTIONS TITLES [--language zh] [--questions 200] [--seed 0]
        [--results docs/titles/answers-zh.json]

READER is a reader's folder and QUESTIONS a file of test questions; the same weights answer by each decoder, with a span
of the passage, and never refuse. Questions without an answer are left out. What is measured is kept in the file
--results, and read from it if it is there. TITLES is a file of measures that scripts/writing_results.py keeps of a
writer with two masks (docs/titles/en/both-1000-1.json). Scores are F1 of answers and ROUGE-L of titles, with 95 % of
1,000 bootstrap samples; the gap is the score beside that of the best autoregressive decoder of the same table, text by
text. The floor is the sentence that shares most words with the question. Speed is answers or tokens a CPU second.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from score_reader import RULES, SAMPLES, drawn, floor, interval, scored

from masquerade.files import read_json, write_text
from masquerade.reading.reader import Reader
from masquerade.reading.records import QuestionRecord, read_questions

WAYS: dict[str, dict[str, Any]] = {
    "parallel": {"decoder": "parallel"},
    "blocks of 4": {"decoder": "blocks"},
    "rerank, 8 drafts": {"decoder": "rerank"},
    "autoregressive, beam 4": {"decoder": "autoregressive"},
}
ONE_BY_ONE = ("autoregressive", "beam", "greedy")  # how the names of such decoders begin
Measured = Mapping[str, tuple[Sequence[float], float]]  # decoder → the score of each text, and the speed


def answers(folder: str, records: Sequence[QuestionRecord], metric: str) -> dict[str, tuple[list[float], float]]:
    """F1 and answers a CPU second of each decoder."""
    found = {}
    for name, settings in WAYS.items():
        reader = Reader.load(folder)  # which remembers no passage
        begun = time.process_time()
        told = reader.ask_many([(each.question, each.passages) for each in records], threshold=0.0, **settings)
        speed = len(records) / (time.process_time() - begun)
        found[name] = scored([each.text for each in told], records, metric)[1], speed
    return found


def titles(path: Path) -> Measured:
    """ROUGE-L and tokens a CPU second of each decoder."""
    return {name: (each["each"], each["speed"]) for name, each in read_json(path)["decoders"].items()}


def difference(values: Sequence[float], others: Sequence[float], rng: random.Random) -> str:
    """The mean difference, with 95 % of the means of bootstrap samples."""
    each = [one - other for one, other in zip(values, others, strict=True)]
    means = sorted(mean(rng.choices(each, k=len(each))) for _ in range(SAMPLES))
    return f"{mean(each):+.1f} ({means[SAMPLES // 40]:+.1f} to {means[-SAMPLES // 40 - 1]:+.1f})"


def show(task: str, measured: Measured, rng: random.Random) -> None:
    """Print the rows of one task."""
    sequential = [name for name in measured if name.startswith(ONE_BY_ONE)]
    best = max(sequential, key=lambda name: mean(measured[name][0]))
    base = mean(measured[best][0])
    for name, (values, speed) in measured.items():
        gap = "–" if name == best else f"{difference(values, measured[best][0], rng)}"
        share = f"{100 * mean(values) / max(base, 1e-9):.0f} %"
        print(f"| {task} | {name} | {interval(values, rng)} | {gap} | {share} | {speed:,.1f} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader")
    parser.add_argument("records")
    parser.add_argument("titles", type=Path)
    parser.add_argument("--language", default="zh", choices=list(RULES))
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help="the file of the answers' measures")
    asked = parser.parse_args()
    metric, rng = RULES[asked.language], random.Random(asked.seed)
    having = [each for each in read_questions(asked.records) if any(each.spans)]
    records = drawn(having, asked.questions, asked.seed)
    kept: Path | None = asked.results
    if kept is None or not kept.is_file():
        found = {"floor": (scored([floor(each) for each in records], records, metric)[1], 0.0)}
        found |= answers(asked.reader, records, metric)
        if kept is not None:
            write_text(kept, json.dumps(found, ensure_ascii=False))
    else:
        found = read_json(kept)
    print("| task | decoder | score (95 %) | beside the best one by one (95 %) | share of it | a CPU second |")
    print("|---|---|---|---|---|---|")
    show(f"{len(records):,} answers, F1", found, rng)
    show("titles, ROUGE-L", titles(asked.titles), rng)


if __name__ == "__main__":
    main()
