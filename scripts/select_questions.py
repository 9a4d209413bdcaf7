"""The questions that the shipped readers were trained on: as many as an hour or two of one core allow, hard ones first.

    python scripts/select_questions.py DATA

DATA is what scripts/reading_data.py wrote, with the made questions of scripts/unanswerable.py as DATA/en-made.jsonl
(--count 7000) and DATA/zh-made.jsonl (--count 4000). Writes DATA/en-first.jsonl for the full mask, DATA/en-second.jsonl
for the shared passage (no question of the first among them), DATA/en-refusals.jsonl for
the last stage of the shipped English reader, and DATA/zh-first.jsonl. All questions of a chosen passage
are taken, because they share its encoding; long passages are left out, because they cost the most.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from masquerade.reading.records import QuestionRecord, read_questions, write_questions

Questions = list[QuestionRecord]
FULL = ("squad-train-subset", "squad1-extra", "unansq-full-context", "unansq-question-joined", "squad2-train-part")
OTHERS = {  # questions of other fields in the second English part
    "policyqa-devtest": 200,
    "subjqa": 150,
    "iirc-subtext": 500,
    "tweetqa": 100,
    "zsre-qa": 150,
    "molweni-test": 100,
    "qasper": 150,
    "qamr-devtest": 100,
}


def by_source(records: Iterable[QuestionRecord]) -> dict[str, Questions]:
    """Questions by the file that they come from."""
    found = defaultdict[str, Questions](list)
    for record in records:
        found[record.id.split("/")[0]].append(record)
    return found


def by_passage(records: Iterable[QuestionRecord], rng: random.Random) -> list[Questions]:
    """The questions of each passage, in random order."""
    found = defaultdict[str, Questions](list)
    for record in records:
        found[record.passages[0]].append(record)
    groups = list(found.values())
    rng.shuffle(groups)
    return groups


def take(records: Sequence[QuestionRecord], count: int, rng: random.Random, longest: int = 900) -> Questions:
    """The questions of random passages of up to ``longest`` characters, until there are ``count``."""
    found = Questions()
    for group in by_passage(records, rng):
        if len(found) >= count:
            break
        if len(group[0].passages[0]) <= longest:
            found += group
    return found


def without_answers(made: Sequence[QuestionRecord], chosen: Questions, count: int, rng: random.Random) -> Questions:
    """Made questions without an answer, about passages that were chosen."""
    passages = {record.passages[0] for record in chosen}
    found = [record for record in made if record.passages[0] in passages]
    rng.shuffle(found)
    return found[:count]


def english(data: Path) -> None:
    """The first part is of SQuAD's articles. The second begins with all passages that have questions without an
    answer, with all of their questions."""
    records, made, rng = (
        read_questions(str(data / "en-train.jsonl")),
        read_questions(str(data / "en-made.jsonl")),
        random.Random(7),
    )
    sources, first = by_source(records), Questions()
    for group in by_passage([each for name in FULL for each in sources[name]], rng):
        if len(first) < 5000:
            first += group
    first += take(sources["unansq-dev-lowercase"], 600, rng, 1400)
    write(first, data / "en-first.jsonl")
    used, rng = {record.id for record in first}, random.Random(11)
    sources = by_source(record for record in records if record.id not in used)
    groups = by_passage([each for name in FULL for each in sources[name]], rng)
    groups = [group for group in groups if len(group[0].passages[0]) <= 1000]
    hard = [group for group in groups if not all(any(record.spans) for record in group)]
    easy = sorted(
        (group for group in groups if all(any(record.spans) for record in group)), key=lambda group: -len(group)
    )
    second = [record for group in hard for record in group]
    most = len(second) + 3300
    for group in easy:
        if len(second) < most:
            second += group
    second += take(sources["unansq-dev-lowercase"], 1500, rng, 800)
    for name, count in {
        "squadshifts-wiki": 1300,
        "squadshifts-amazon": 400,
        "squadshifts-reddit": 400,
        **OTHERS,
    }.items():
        second += take(sources[name], count, rng)
    second += without_answers(made, second, 1100, rng)
    write(second, data / "en-second.jsonl")


def refusals(data: Path) -> None:
    """All questions of short passages that have human-written ones without an answer, and some of other passages."""
    rng, made = random.Random(3), ("word", "name", "near")
    records = [each for name in ("first", "second") for each in read_questions(str(data / f"en-{name}.jsonl"))]
    passages = defaultdict[str, Questions](list)
    for record in records:
        if len(record.passages[0]) <= 900:
            passages[record.passages[0]].append(record)
    groups = list(passages.values())
    written = [[each for each in group if not any(each.spans)] for group in groups]
    hard = [
        group
        for group, none in zip(groups, written, strict=True)
        if any(each.id.split("/")[0] not in made for each in none)
    ]
    others = [group for group in groups if group[0].id.startswith("squadshifts")]
    rng.shuffle(hard)
    rng.shuffle(others)
    found = Questions()
    for part, count in ((hard, 5600), (others, 700)):
        most = len(found) + count
        for group in part:
            if len(found) < most:
                found += group
    write(found, data / "en-refusals.jsonl")


def chinese(data: Path) -> None:
    """Questions of four sources in both scripts, and made ones without an answer."""
    records, made, rng = (
        read_questions(str(data / "zh-train.jsonl")),
        read_questions(str(data / "zh-made.jsonl")),
        random.Random(7),
    )
    sources = by_source(records)
    found = take(sources["cmrc2018-train"], 8800, rng, 520) + sources["drcd-test"]
    found += take(sources["cail2019-reading-devtest"], 900, rng, 460)
    found += take(sources["dureader-checklist-dev"], 700, rng, 520)
    found += without_answers(made, found, 900, rng)
    write(found, data / "zh-first.jsonl")


def write(records: Questions, path: Path) -> None:
    """Questions as JSON lines."""
    none = sum(not any(record.spans) for record in records)
    print(f"{path}: {write_questions(records, path):,} questions, {none:,} without an answer")


def main() -> None:
    """Select."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    english(Path(sys.argv[1]))
    refusals(Path(sys.argv[1]))
    chinese(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
