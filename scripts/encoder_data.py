"""The questions that the English encoder is trained on, next to those about the same article.

    python scripts/encoder_data.py QUESTIONS MULTIHOP OUT [SHARE [LETTERS]]

QUESTIONS is what scripts/reading_data.py has written (en-train.jsonl, whose articles are in no test), MULTIHOP a folder
with hotpot-train-100.json, 2wiki-train-500.json and the reported hotpot-200.json and hotpot-pool.jsonl; articles of
these two are left out. Writes OUT: a question a line, of all articles or of a SHARE of them; with LETTERS only about
passages of at most so many letters that have three questions, which cost the least time for each question. Half of the
passages keep the title of their article.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from reading_data import articles, chance, plain

from masquerade.data.records import read_records
from masquerade.reading.records import QuestionRecord, find_answer, read_questions, write_questions

SETS = {  # of en-train.jsonl: how many questions a passage has to have, and how many of them are used
    "squad-train-subset": (3, 4), "squad1-extra": (3, 4), "squadshifts-wiki": (3, 4), "squadshifts-amazon": (2, 3),
    "squadshifts-reddit": (2, 3), "unansq-full-context": (3, 4), "unansq-dev-lowercase": (3, 4),
}  # fmt: skip
MULTIHOP = ("hotpot-train-100.json", "2wiki-train-500.json")
REPORTED = ("hotpot-200.json", "hotpot-pool.jsonl")


def main() -> None:
    """Select the questions, and write them by article."""
    if len(sys.argv) not in (4, 5, 6):
        sys.exit(__doc__)
    questions, multihop, out = map(Path, sys.argv[1:4])
    share = float(sys.argv[4]) if len(sys.argv) > 4 else 1.0
    records = [*single(questions / "en-train.jsonl"), *several(multihop)]
    found = dict[tuple[str, str], list[QuestionRecord]]()
    for record, article in zip(records, articles(records), strict=True):
        titled = chance(plain(record.passages[0])) < 0.5
        kept = record if titled else replace(record, title="")
        found.setdefault((record.id.split("/")[0], article), []).append(kept)
    names = sorted(name for name in found if chance("/".join(name)) < share)
    ordered = [record for name in names for record in sorted(found[name], key=lambda each: each.passages)]
    if len(sys.argv) > 5:
        asked = Counter(each.passages for each in ordered)
        fits = {passages for passages, count in asked.items() if count > 2 and len(passages[0]) <= int(sys.argv[5])}
        ordered = [each for each in ordered if each.passages in fits]
    about = len({each.passages for each in ordered})
    print(f"{out}: {write_questions(ordered, out):,} questions about {about:,} passages")


def single(path: Path) -> Iterator[QuestionRecord]:
    """Questions with an answer, a few of each passage that has several: its vector is computed once for all of them."""
    found = dict[str, list[QuestionRecord]]()
    for record in read_questions(str(path)):
        if any(record.spans) and record.id.split("/")[0] in SETS:
            found.setdefault(record.passages[0], []).append(record)
    for records in found.values():
        least, most = SETS[records[0].id.split("/")[0]]
        yield from records[:most] if len(records) >= least else ()


def several(folder: Path) -> Iterator[QuestionRecord]:
    """Multi-hop questions with those of their paragraphs that are needed and hold the answer."""
    reported = {title for name in REPORTED for record in read_records(str(folder / name)) for title in titles(record)}
    for name in MULTIHOP:
        for record in read_records(str(folder / name)):
            needed = {title for title, _ in record["supporting_facts"]}
            for title, sentences in record["context"]:
                text = " ".join(" ".join(sentences).split())
                gold = find_answer(text, record["answer"])
                if title in needed and title not in reported and gold is not None:
                    id, asked = f"{name}/{record['_id']}/{title}", record["question"]
                    yield QuestionRecord(id, asked, (text,), ((gold,),), (gold.text,), title)


def titles(record: dict[str, Any]) -> list[str]:
    """The articles of a record of the reported set."""
    return [record["title"]] if "title" in record else [title for title, *_ in record["context"]]


if __name__ == "__main__":
    main()
