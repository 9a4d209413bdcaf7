"""The questions that the shipped readers are trained and held to account on: whole articles are kept apart.

    python scripts/reading_data.py READING OUT

READING is a folder with en/squadshifts-{wiki,amazon,reddit}.json, en/squad-train-subset.json and
zh/cmrc2018-{train,trial,dev}.json. Writes a question a line: OUT/en-train.jsonl to train on; OUT/en-wiki.jsonl,
en-amazon.jsonl and en-reddit.jsonl, which share no article with it; and the Chinese parts as they are published.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from masquerade.reading.records import Asked, read_questions, split_articles, write_questions

SHARES = {"wiki": 0.16, "amazon": 0.1, "reddit": 0.1}  # of the questions that are not trained on


def write(records: Sequence[Asked], path: Path) -> None:
    """Questions as JSON lines."""
    print(f"{path}: {write_questions(records, path):,} questions")


def main() -> None:
    """Split what is there."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    train: list[Asked] = []
    kept = set[str]()
    for name, share in SHARES.items():
        rest, dev = split_articles(read_questions(str(source / f"en/squadshifts-{name}.json")), share)
        write(dev, out / f"en-{name}.jsonl")
        train += rest
        kept |= {record.title for record in dev}
    squad = read_questions(str(source / "en/squad-train-subset.json"))
    train += [record for record in squad if record.title not in kept]
    write([record for record in train if any(record.spans)], out / "en-train.jsonl")
    for name in ("train", "trial", "dev"):
        write(read_questions(str(source / f"zh/cmrc2018-{name}.json")), out / f"zh-{name}.jsonl")


if __name__ == "__main__":
    main()
