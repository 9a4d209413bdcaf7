"""Make a trained reader ready to ship, and write it as int8 with its recipe and a hash.

    python scripts/ship_reader.py RUN TUNE models/reader-en --recipe recipes/reader-en.toml [--questions 300]

TUNE is the tuning part of scripts/reading_data.py: no figure of the reader's card comes from it. The weights of the
heads are chosen from a small grid, unless --parts gives them, and so is the probability below which there is no answer:
those with the best mean of F1 over the questions with an answer and the share of the questions without one that get
none. Encoded passages are kept in half precision if that changes no answer. Tokens that no text can have are left out.
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
from masquerade.reading.answers import Answer
from masquerade.reading.reader import STORED, Reader
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.reading.scores import METRICS
from masquerade.text.tokenizer import Tokenizer

GRID = [(0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (0.0, 1.0, 1.0), (0.0, 0.5, 1.0)]


def usable(tokenizer: Tokenizer) -> list[int]:
    """The tokens that a text can have. A Chinese character is a word of its own, so it never continues one."""
    tokens = enumerate(tokenizer.tokens(range(len(tokenizer))))
    return [number for number, token in tokens if not re.fullmatch(r"\[unused\d+\]|##[\u4e00-\u9fff]", token)]


def f1_of(answer: Answer, record: QuestionRecord, metric: str) -> float:
    """The F1 of one answer."""
    return METRICS[metric]({record.id: answer.text}, [record]).total["f1"]


def threshold(
    reader: Reader, having: list[QuestionRecord], lacking: list[QuestionRecord], metric: str
) -> tuple[float, float, float]:
    """The least probability of an answer; F1 over the questions that have one, and the share of the others that get
    none."""
    kept = reader.ask_many([(record.question, record.passages) for record in having])
    none = reader.ask_many([(record.question, record.passages) for record in lacking])
    values = [f1_of(answer, record, metric) for answer, record in zip(kept, having, strict=True)]
    best = (-1.0, 0.0, 0.0, 0.0)
    for cut in [0.0, *(answer.score for answer in (*kept, *none))]:
        f1 = sum(value for value, answer in zip(values, kept, strict=True) if answer.score >= cut) / len(having)
        right = 100 * sum(answer.score < cut for answer in none) / max(len(lacking), 1)
        best = max(best, (f1 + right, -cut, f1, right))
    return -best[1], best[2], best[3]


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
    parser.add_argument("tune", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=300, help="of each kind")
    parser.add_argument("--metric", default="squad", choices=list(METRICS))
    parser.add_argument("--parts", type=float, nargs=3, metavar="W", help="of words, copies, pointers")
    asked = parser.parse_args()
    records = read_questions(str(asked.tune))
    having, lacking = ([each for each in records if any(each.spans) is side] for side in (True, False))
    having, lacking = (part[:: max(1, len(part) // asked.questions)][: asked.questions] for part in (having, lacking))
    model = load(asked.run)
    model, _ = keep_tokens(model, usable(model.tokenizer))
    save(model, asked.out, torch.int8)
    reader = Reader(load(asked.out))  # what is shipped is what is measured
    best, chosen = -1.0, reader.settings
    for words, copies, pointers in [asked.parts] if asked.parts else GRID:
        parts = {"words": words, "copies": copies, "pointers": pointers}
        reader.settings = replace(reader.settings, parts=parts, threshold=0.0)
        cut, f1, right = threshold(reader, having, lacking, asked.metric)
        print(f"{parts}: no answer below {cut:.3f}, then F1 {f1:.1f} of {len(having)} with an answer,", end=" ")
        print(f"and none for {right:.1f} % of {len(lacking)} without", flush=True)
        if f1 + right > best:
            best, chosen = f1 + right, replace(reader.settings, threshold=round(cut, 4))
    for stored in STORED:
        replace(chosen, stored=stored).put(model)
        save(model, asked.out, torch.int8)
        changed = forgetful(Reader(load(asked.out)), having[:100])
        print(f"passages kept as {stored} change {changed} of {len(having[:100])} answers")
        if not changed:
            break
    shutil.copy(asked.recipe, asked.out / "recipe.toml")
    digest = hashlib.sha256((asked.out / "model.safetensors").read_bytes()).hexdigest()
    write_text(asked.out / "SHA256SUMS", f"{digest}  model.safetensors\n")
    print(f"{asked.out}: {(asked.out / 'model.safetensors').stat().st_size / 1e6:.1f} MB, sha256 {digest}")


if __name__ == "__main__":
    main()
