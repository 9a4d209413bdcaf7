"""A question on a long text: CPU seconds and F1, new and remembered, with block selection and without.

    python benchmarks/long_text.py MODEL QUESTIONS [--characters 325000] [--asked 8] [--all] [--filler FILE]

QUESTIONS is a test file of scripts/reading_data.py. The passages of the asked questions are joined with other passages
of the file, and with articles of FILE (JSON lines with a "text") where these do not suffice, up to --characters. Each
question is asked of the whole text: new (nothing is kept between questions), and after the text is remembered once.
With --all the text is read whole for each question, which is what the other two are compared with. *alone* is F1 with
each question's own passage.
"""

from __future__ import annotations

import argparse
import random
import resource
import time

import torch
from machine import machine

from masquerade.data.records import read_records
from masquerade.reading.answers import Answer
from masquerade.reading.reader import WINDOWS, Reader
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.reading.scores import METRICS


def main() -> None:
    """Ask, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("questions")
    parser.add_argument("--characters", type=int, default=325_000)
    parser.add_argument("--asked", type=int, default=8)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--filler", default="")
    parser.add_argument("--metric", default="squad", choices=list(METRICS))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rng = random.Random(given.seed)
    records = [each for each in read_questions(given.questions) if any(each.spans)]
    asked = rng.sample(records, given.asked)
    text = joined(records, asked, given.characters, given.filler, rng)
    reader = Reader(Reader.load(given.model).model, memory=2**31)
    print(
        machine(), f"\n\n{len(text):,} characters, {reader.windows([text]):,} windows, {len(asked)} questions\n", sep=""
    )
    print("| way | CPU s, all questions | CPU s a question | F1 |\n|---|---|---|---|")
    row("alone", *timed(reader, asked, None), asked, given.metric)
    row("new", *timed(reader, asked, text), asked, given.metric)
    begun = time.process_time()
    reader.remember(text)
    print(f"| remembering | {time.process_time() - begun:.1f} | | |", flush=True)
    row("remembered", *timed(reader, asked, text), asked, given.metric)
    if given.all:
        row("all of it", *timed(Reader(reader.model, memory=2**31), asked, text, windows=0), asked, given.metric)
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f} MiB")


def joined(
    records: list[QuestionRecord], asked: list[QuestionRecord], length: int, filler: str, rng: random.Random
) -> str:
    """The passages of the asked questions among others, in random order."""
    chosen = dict.fromkeys(record.passages[0] for record in asked)
    others = list(dict.fromkeys(record.passages[0] for record in records))
    rng.shuffle(others)
    more = (record["text"] for record in read_records(filler)) if filler else iter(())
    size = sum(map(len, chosen))
    for passage in (*others, *more):
        if size >= length:
            break
        if passage not in chosen:
            passage = passage[: length - size]
            chosen[passage] = None
            size += len(passage)
    texts = list(chosen)
    rng.shuffle(texts)
    return "\n\n".join(texts)


def timed(
    reader: Reader, asked: list[QuestionRecord], text: str | None, windows: int = WINDOWS
) -> tuple[list[Answer], float]:
    """The answers, one question at a time, and the CPU seconds of all of them."""
    begun = time.process_time()
    answers = [reader.ask(each.question, text or each.passages, windows=windows, threshold=0.0) for each in asked]
    return answers, time.process_time() - begun


def row(name: str, answers: list[Answer], seconds: float, asked: list[QuestionRecord], metric: str) -> None:
    """A row of the table."""
    f1 = METRICS[metric]({one.id: answer.text for one, answer in zip(asked, answers, strict=True)}, asked).total["f1"]
    print(f"| {name} | {seconds:.1f} | {seconds / len(asked):.2f} | {f1:.1f} |", flush=True)


if __name__ == "__main__":
    main()
