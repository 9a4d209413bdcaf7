"""The figures of a reader's card: test questions that nothing was chosen on, with intervals and a floor.

    python scripts/score_reader.py models/reader-en DATA [--language en] [--questions 300] [--seed 0]

DATA is what scripts/reading_data.py wrote; every file DATA/en-test-*.jsonl is a row. Of each, --questions questions
with an answer and as many without one are drawn by --seed. Exact match and F1 are those of the questions with an
answer, at the reader's own threshold; "refused" is the share of the questions without an answer that get none; "mixed"
is F1 over as many of both kinds. Intervals are 95 % of 1,000 bootstrap samples. The floor is the sentence that shares
most words with the question, which always answers. Last, a reliability table over all rows and its expected
calibration error.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Sequence
from pathlib import Path

from masquerade.reading.answers import Answer
from masquerade.reading.calibration import calibration_error, reliability
from masquerade.reading.reader import Reader
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.reading.scores import METRICS

RULES = {"en": "squad", "zh": "cmrc"}
SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]?")
WORD = re.compile(r"[\u4e00-\u9fff]|\w+")
SAMPLES = 1000


def interval(values: Sequence[float], rng: random.Random) -> str:
    """The mean, and 95 % of the means of bootstrap samples."""
    if not values:
        return "–"
    means = sorted(sum(rng.choices(values, k=len(values))) / len(values) for _ in range(SAMPLES))
    return f"{sum(values) / len(values):.1f} ({means[25]:.1f}–{means[974]:.1f})"


def floor(record: QuestionRecord) -> str:
    """The sentence of the passages that shares most words with the question."""
    asked = set(WORD.findall(record.question.lower()))
    sentences = [each.strip() for passage in record.passages for each in SENTENCE.findall(passage) if each.strip()]
    return max(sentences, key=lambda each: len(asked & set(WORD.findall(each.lower()))), default="")


def scored(texts: Sequence[str], records: Sequence[QuestionRecord], metric: str) -> tuple[list[float], list[float]]:
    """Exact match and F1 of each answer, in percent."""
    found = [METRICS[metric]({each.id: text}, [each]).total for text, each in zip(texts, records, strict=True)]
    return [each["exact"] for each in found], [each["f1"] for each in found]


def drawn(records: Sequence[QuestionRecord], most: int, seed: int) -> list[QuestionRecord]:
    """Some of the questions."""
    return random.Random(seed).sample(list(records), min(len(records), most))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("--language", default="en", choices=list(RULES))
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    reader, metric, rng = Reader.load(asked.model), RULES[asked.language], random.Random(asked.seed)
    print("| test part | with an answer | exact | F1 | floor F1 | without | refused | mixed F1 |")
    print("|---|---|---|---|---|---|---|---|")
    every = list[tuple[Answer, bool]]()
    for path in sorted(asked.data.glob(f"{asked.language}-test-*.jsonl")):
        records = read_questions(str(path))
        having, lacking = ([each for each in records if any(each.spans) is side] for side in (True, False))
        having, lacking = drawn(having, asked.questions, asked.seed), drawn(lacking, asked.questions, asked.seed)
        answers = reader.ask_many([(each.question, each.passages) for each in (*having, *lacking)])
        found, none = answers[: len(having)], answers[len(having) :]
        exact, f1 = scored([each.text for each in found], having, metric)
        _, least = scored([floor(each) for each in having], having, metric)
        refused, both = [100.0 * (not each) for each in none], min(len(having), len(lacking))
        mixed = interval([*f1[:both], *refused[:both]], rng)
        row = [path.stem.split("-", 2)[2], f"{len(having):,}", interval(exact, rng), interval(f1, rng)]
        row += [f"{sum(least) / max(len(least), 1):.1f}", f"{len(lacking):,}", interval(refused, rng), mixed]
        print(f"| {' | '.join(row)} |", flush=True)
        every += [(each, right > 0) for each, right in zip(found, exact, strict=True) if each]
        every += [(each, False) for each in none if each]
    rows = reliability([answer.score for answer, _ in every], [right for _, right in every])
    print("\n| probability | answers | mean | right |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row.low:.1f}–{row.high:.1f} | {row.answers} | {row.score:.2f} | {row.right:.2f} |")
    print(f"\nExpected calibration error: {calibration_error(rows):.3f} over {len(every):,} answers.")


if __name__ == "__main__":
    main()
