"""The questions that the shipped readers are trained, tuned and tested on: whole articles are kept apart.

    python scripts/reading_data.py READING OUT

READING is a folder with the sets named in ENGLISH and CHINESE below; one that is absent is left out with a notice. The
documents of the folders everyday-… and wikipedia-… lie beside this script (scripts/everyday.py).
Writes a question a line: OUT/en-train.jsonl to train on, OUT/en-tune.jsonl to choose settings on, and test parts that
nothing is chosen on: OUT/en-test-wiki.jsonl, en-test-amazon.jsonl and en-test-reddit.jsonl (questions with an answer),
en-test-squad2.jsonl (half of them human-written questions about the passage without an answer in it) and
en-test-dialogue.jsonl (a field that is not trained on). zh-… are the same for Chinese.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from everyday import everyday_questions

from masquerade.data.records import read_records
from masquerade.files import write_text
from masquerade.reading.records import Gold, QuestionRecord, read_questions, write_questions


@dataclass(frozen=True)
class Part:
    """A file of questions: how many of its articles are for tuning and for tests, and how many questions train."""

    file: str
    tune: float = 0.0  # a share of the articles (of the passages, where a file names no articles)
    test: float = 0.0
    name: str = ""  # of the test part
    most: int = 10**9  # questions for training
    pairs: bool = False  # questions come in twins, with and without an answer


HERE = Path(__file__).parent
ENGLISH = [
    Part("en/squadshifts-wiki.json", 0.06, 0.12, "wiki"),
    Part("en/squadshifts-amazon.json", 0.03, 0.08, "amazon"),
    Part("en/squadshifts-reddit.json", 0.03, 0.08, "reddit"),
    Part("en/more/unansq-full-context.jsonl.gz", 0.15, 0.25, "squad2", pairs=True),
    Part("en/squad-train-subset.json"),
    Part("en/more/squad1-extra.jsonl"),
    Part("en/more/unansq-question-joined.jsonl", pairs=True),
    Part("en/more/unansq-dev-lowercase.jsonl", pairs=True),
    Part("en/more/squad2-train-part.jsonl"),
    Part("en/more/friendsqa-devtest.jsonl", 0.0, 1.0, "dialogue"),
    Part("en/more/qamr-devtest.jsonl.gz", most=8000),
    Part("en/more/policyqa-devtest.jsonl.gz", most=4000),
    Part("en/more/subjqa.jsonl.gz", most=5000),
    Part("en/more/iirc-subtext.jsonl.gz"),
    Part("en/more/tweetqa.jsonl.gz"),
    Part("en/more/zsre-qa.jsonl.gz", most=3000),
    Part("en/more/molweni-test.jsonl"),
    Part("en/more/qasper.jsonl.gz"),
    Part(str(HERE / "everyday-en"), 0.12, 0.12, "everyday"),
    Part(str(HERE / "wikipedia-en"), 0.12, 0.15, "wikipedia"),
]
CHINESE = [
    Part("zh/cmrc2018-train.json"),
    Part("zh/cmrc2018-trial.json", 1.0, 0.0),
    Part("zh/cmrc2018-dev.json", 0.0, 1.0, "cmrc"),
    Part("zh/more/drcd-test.jsonl.gz", 0.1, 0.3, "drcd"),
    Part("zh/more/cail2019-reading-devtest.jsonl.gz", 0.05, 0.1, "court"),
    Part("zh/more/dureader-checklist-dev.jsonl", 0.1, 0.3, "web"),
    Part(str(HERE / "everyday-zh"), 0.12, 0.15, "everyday"),
    Part(str(HERE / "wikipedia-zh"), 0.12, 0.15, "wikipedia"),
]


def chance(text: str) -> float:
    """A number from 0 to 1 that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


def articles(records: Sequence[QuestionRecord]) -> list[str]:
    """The article of each question: its title, or its passage where titles do not tell articles apart."""
    titles = Counter(record.title for record in records)
    telling = {title for title, count in titles.items() if title and count * 20 <= len(records)}
    return [record.title if record.title in telling else record.passages[0] for record in records]


def plain(text: str) -> str:
    """Letters and digits alone: the same for copies of a passage that differ in spaces and case."""
    return re.sub(r"\W+", "", text.lower())


def split(
    part: Part, records: Sequence[QuestionRecord]
) -> tuple[list[QuestionRecord], list[QuestionRecord], list[QuestionRecord]]:
    """The questions of a file for training, tuning and tests; an article's are all in one of them."""
    sides: tuple[list[QuestionRecord], list[QuestionRecord], list[QuestionRecord]] = ([], [], [])
    for record, article in zip(records, articles(records), strict=True):
        place = chance(article)
        sides[2 if place < part.test else 1 if place < part.test + part.tune else 0].append(record)
    return sides


def read(path: Path, folder: Path) -> list[QuestionRecord]:
    """The questions of a file; where it has a passage a line, its number tells apart questions of the same id.
    A folder is one of documents with questions behind them."""
    if path.is_dir():
        return everyday_questions(path)
    if ".jsonl" not in path.name:
        return read_questions(str(path))
    lines = []
    for number, record in enumerate(read_records(str(path))):
        asked = [{**each, "id": f"{number}-{each.get('id', place)}"} for place, each in enumerate(record["qas"])]
        lines.append(json.dumps({**record, "qas": asked}, ensure_ascii=False) + "\n")
    copy = folder / path.name.removesuffix(".gz")
    write_text(copy, "".join(lines))
    return read_questions(str(copy))


def usable(records: Iterable[QuestionRecord]) -> list[QuestionRecord]:
    """Questions whose answer is a span of the passage, and those without an answer."""
    return [record for record in records if any(record.spans) or not record.accepted]


def prepare(source: Path, out: Path, language: str, parts: Sequence[Part]) -> None:
    """Write the parts of one language."""
    train, tune, held = list[QuestionRecord](), list[QuestionRecord](), set[str]()
    seen = set[tuple[str, str]]()
    titles = list[str]()
    for part in parts:
        path = source / part.file
        if not path.exists():
            print(f"{path} is not there; left out")
            continue
        name = path.name.split(".")[0]
        records = [replace(each, id=f"{name}/{each.id}") for each in usable(read(path, out / "sources"))]
        rest, some, test = split(part, records)
        if part.test:
            write(test, out / f"{language}-test-{part.name}.jsonl")
        tune += some
        for record in (*some, *test):
            held.update(plain(passage) for passage in record.passages)
            if part.pairs and record.title:
                titles.append(record.title.replace("_", " "))
        kept = []
        for record in sorted(rest, key=lambda each: chance(each.id)):
            key = plain(record.question), plain(record.passages[0])
            if key in seen or any(plain(passage) in held for passage in record.passages):
                continue
            if record.title.replace("_", " ") in titles or any(title in record.passages[0] for title in titles):
                continue
            seen.add(key)
            kept.append(record)
        train += kept[: part.most]
        print(f"{name}: {len(kept[: part.most]):,} to train on, {len(some):,} to tune, {len(test):,} to test")
    if language == "zh":
        train = [converted(record) for record in train]
    write(tune, out / f"{language}-tune.jsonl")
    write(train, out / f"{language}-train.jsonl")


SCRIPTS = [("", ""), ("t2s", "t2s"), ("s2t", "s2t"), ("t2s", "s2t"), ("s2t", "t2s")]  # of question and passage
SHARES = [0.6, 0.75, 0.9, 0.95, 1.0]  # up to which number each of them is taken


def converted(record: QuestionRecord) -> QuestionRecord:
    """A Chinese question as it is, in the other script, or with question and passage in different scripts. Where
    conversion changes the length of the passage, so that places would move, it stays as it is."""
    number = chance(f"script {record.passages[0]}")
    question, passage = next(pair for pair, share in zip(SCRIPTS, SHARES, strict=True) if number < share)
    if not question:
        return record
    text = converter(passage).convert(record.passages[0])
    if len(text) != len(record.passages[0]):
        return record
    golds = tuple(Gold(text[gold.start : gold.start + len(gold.text)], gold.start) for gold in record.spans[0])
    accepted = tuple(dict.fromkeys(gold.text for gold in golds))
    asked = converter(question).convert(record.question)
    return replace(record, question=asked, passages=(text,), spans=(golds,), accepted=accepted)


@functools.cache
def converter(name: str) -> Any:
    """OpenCC's converter of that name."""
    try:
        from opencc import OpenCC
    except ImportError:
        sys.exit("Converting Chinese scripts needs OpenCC; run 'pip install opencc-python-reimplemented'.")
    return OpenCC(name)


def write(records: Sequence[QuestionRecord], path: Path) -> None:
    """Questions as JSON lines."""
    none = sum(not any(record.spans) for record in records)
    print(f"{path}: {write_questions(records, path):,} questions, {none:,} without an answer")


def main() -> None:
    """Split what is there."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    prepare(source, out, "en", ENGLISH)
    prepare(source, out, "zh", CHINESE)


if __name__ == "__main__":
    main()
