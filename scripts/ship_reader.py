"""Make a trained reader ready to ship: choose on unseen questions who of its heads speaks, and when it is silent; write
it in half precision with its recipe and a hash. Its card, README.md, is written by hand.

    python scripts/ship_reader.py RUN DEV models/reader-en --recipe recipes/reader-en.toml [--questions 500]

DEV are questions that were not trained on (scripts/reading_data.py). The weights of the three heads are chosen by F1
from a small grid, unless --parts says them; the threshold below which there is no answer is the one that tells best
whether a passage answers a question, half of the questions being asked of the passage of another one. What is
remembered is kept in half precision if that changes no answer. Tokens that no text can have are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
from dataclasses import replace
from pathlib import Path

import torch

from masquerade.checkpoints.folders import load, save
from masquerade.checkpoints.vocabulary import keep_tokens
from masquerade.files import write_text
from masquerade.reading.reader import Reader
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.reading.scores import METRICS
from masquerade.text.tokenizer import Tokenizer

GRID = [
    (0.0, 0.0, 1.0),
    (0.0, 1.0, 0.0),
    (0.0, 1.0, 1.0),
    (0.1, 1.0, 1.0),
    (0.3, 1.0, 1.0),
    (0.0, 0.5, 1.0),
    (1.0, 1.0, 1.0),
]


def usable(tokenizer: Tokenizer) -> list[int]:
    """The tokens that a text can have. A Chinese character is a word of its own, so it never continues one."""
    tokens = enumerate(tokenizer.tokens(range(len(tokenizer))))
    return [number for number, token in tokens if not re.fullmatch(r"\[unused\d+\]|##[\u4e00-\u9fff]", token)]


def scored(reader: Reader, records: list[QuestionRecord], metric: str) -> dict[str, float]:
    """How well a reader does that always answers."""
    answers = reader.ask_many([(record.question, record.passages) for record in records])
    found = {record.id: answer.text for record, answer in zip(records, answers, strict=True)}
    return METRICS[metric](found, records).total


def threshold(reader: Reader, records: list[QuestionRecord]) -> tuple[float, float]:
    """The probability below which an answer is none, and how often that is right."""
    pairs = [(record.question, record.passages[0]) for record in records]
    others = [
        (one.question, records[(index + len(records) // 2) % len(records)].passages[0])
        for index, one in enumerate(records)
    ]
    scores = [[answer.score for answer in reader.ask_many(asked)] for asked in (pairs, others)]
    best = max(
        (sum(score >= cut for score in scores[0]) + sum(score < cut for score in scores[1]), -cut)
        for cut in [0.0, *scores[0], *scores[1]]
    )
    return -best[1], best[0] / (2 * len(records))


def forgetful(reader: Reader, records: list[QuestionRecord]) -> int:
    """How many answers are others once the passages are remembered."""
    pairs = [(record.question, record.passages) for record in records]
    cold, warm = reader.ask_many(pairs), Reader(reader.model, memory=2**36)
    warm.remember([passage for _, passages in pairs for passage in passages])
    return sum(one.text != other.text for one, other in zip(cold, warm.ask_many(pairs), strict=True))


def main() -> None:
    """Choose, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--metric", default="squad", choices=list(METRICS))
    parser.add_argument("--parts", type=float, nargs=3, metavar="W", help="of words, copies, pointers")
    asked = parser.parse_args()
    records = read_questions(str(asked.dev))
    records = records[:: max(1, len(records) // asked.questions)][: asked.questions]
    model = load(asked.run)
    model, _ = keep_tokens(model, usable(model.tokenizer))
    save(model, asked.out, torch.float16)
    reader = Reader(load(asked.out))  # what is shipped is what is measured
    best, chosen = -1.0, reader.settings
    for words, copies, pointers in [asked.parts] if asked.parts else GRID:
        parts = {"words": words, "copies": copies, "pointers": pointers}
        reader.settings = replace(reader.settings, parts=parts, threshold=0.0)
        scores = scored(reader, records, asked.metric)
        print(parts, {name: round(value, 2) for name, value in scores.items()}, flush=True)
        if scores["f1"] > best:
            best, chosen = scores["f1"], reader.settings
    reader.settings = chosen
    cut, right = threshold(reader, records)
    print(f"no answer below {cut:.3f}: right about that in {right:.1%} of {2 * len(records)} questions")
    for stored in ("float16", "float32"):
        replace(chosen, threshold=round(cut, 4), stored=stored).put(model)
        save(model, asked.out, torch.float16)
        changed = forgetful(Reader(load(asked.out)), records)
        print(f"passages remembered as {stored} answer {changed} of {len(records)} questions otherwise")
        if not changed:
            break
    shutil.copy(asked.recipe, asked.out / "recipe.toml")
    digest = hashlib.sha256((asked.out / "model.safetensors").read_bytes()).hexdigest()
    write_text(asked.out / "SHA256SUMS", f"{digest}  model.safetensors\n")
    print(f"{asked.out}: {(asked.out / 'model.safetensors').stat().st_size / 1e6:.1f} MB, sha256 {digest}")


if __name__ == "__main__":
    main()
