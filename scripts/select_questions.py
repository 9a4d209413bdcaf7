"""The questions that the shipped readers were trained on: as many as an hour or two of one core allow, hard ones first.

    python scripts/select_questions.py DATA

DATA is what scripts/reading_data.py wrote, with the made questions of scripts/unanswerable.py as DATA/en-made.jsonl
(--count 12000) and DATA/zh-made.jsonl (--count 4000; 8000 for the second part), and those of
scripts/structured_questions.py as DATA/en-structured.jsonl (--count 3000) and DATA/zh-structured.jsonl (--language zh
--count 2000). Writes DATA/en-selected.jsonl for the full mask, DATA/en-second.jsonl to go on with there, with everyday
documents, and DATA/en-third.jsonl to go on once more; DATA/en-shared.jsonl for the shared passage; DATA/zh-first.jsonl,
DATA/zh-second.jsonl to go on with there, DATA/zh-third.jsonl with everyday documents, and DATA/zh-fourth.jsonl to go on
once more. Long passages are left out, because they cost the most.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from masquerade.reading.records import QuestionRecord, read_questions, write_questions

Questions = list[QuestionRecord]
REFUSED = ("unansq-full-context", "unansq-question-joined", "unansq-dev-lowercase", "squad2-train-part")
LONGEST = 1300  # characters of a passage of the last part
OTHERS = {  # how many questions of other fields are taken at most
    "squadshifts-amazon": 7000,
    "squadshifts-reddit": 7000,
    "iirc-subtext": 4000,
    "policyqa-devtest": 3000,
    "subjqa": 3000,
    "qamr-devtest": 4000,
    "tweetqa": 2500,
    "zsre-qa": 2000,
    "molweni-test": 2000,
    "qasper": 1000,
}
SECOND = {  # how many questions of each source the second part takes at most, beside those written for it
    "unansq-full-context": 1700,
    "unansq-question-joined": 1200,
    "unansq-dev-lowercase": 2000,
    "squad2-train-part": 200,
    "squad-train-subset": 2800,
    "squad1-extra": 500,
    "squadshifts-wiki": 1200,
    "squadshifts-amazon": 1500,
    "squadshifts-reddit": 600,
    "iirc-subtext": 400,
    "policyqa-devtest": 400,
    "subjqa": 300,
    "qasper": 200,
    "structured-en": 500,
    "word": 400,
    "name": 300,
    "near": 200,
}
THIRD = {  # the same for the third Chinese part
    "cmrc2018-train": 6000,
    "drcd-test": 2000,
    "cail2019-reading-devtest": 2500,
    "dureader-checklist-dev": 700,
    "structured-zh": 800,
    "near": 600,
    "word": 500,
    "name": 400,
}
WRITTEN = ("everyday", "wikipedia")  # sources whose questions were written for this reader
CHOSEN = {  # the longest passages that are taken whole, by the beginning of the source's name
    "squad-train-subset": 1200,
    "squad1-extra": 1200,
    "squadshifts-wiki": LONGEST,
    "unansq": LONGEST,
    "squad2": LONGEST,
}
WORD = re.compile(r"[^\W_]+")
INSIDE = re.compile(r"(?<=[^\s.?!:\"”] )[^\W_]+")  # words that do not begin a sentence


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


def with_capitals(question: str, passage: str) -> str:
    """A question in small letters with the capitals that its words have inside the passage's sentences, and at its
    beginning."""
    forms = defaultdict[str, Counter[str]](Counter)
    for word in INSIDE.findall(passage):
        forms[word.lower()][word] += 1
    usual = {word: found.most_common(1)[0][0] for word, found in forms.items()}
    spelled = WORD.sub(lambda place: usual.get(place[0], "I" if place[0] == "i" else place[0]), question)
    return spelled[:1].upper() + spelled[1:]


def in_any_case(record: QuestionRecord, rng: random.Random) -> QuestionRecord:
    """A question whose case says nothing about whether it has an answer: most that are written in small letters get
    capitals, and some of the others lose them, a few together with their passage."""
    passage, draw = record.passages[0], rng.random()
    if record.question == record.question.lower():
        cased = passage != passage.lower() and draw < 0.75
        return replace(record, question=with_capitals(record.question, passage)) if cased else record
    if draw < 0.06 and len(passage.lower()) == len(passage):
        spans = tuple(tuple(replace(gold, text=gold.text.lower()) for gold in golds) for golds in record.spans)
        return replace(record, question=record.question.lower(), passages=(passage.lower(),), spans=spans)
    return replace(record, question=record.question.lower()) if draw < 0.2 else record


def english_selected(records: Sequence[QuestionRecord], made: Questions, structured: Questions) -> Questions:
    """The questions of one pass: all of Wikipedia that are not too long, the human-written ones without an answer one
    and a half times, and many of other fields."""
    rng, sources, found = random.Random(17), by_source(records), Questions()
    for name, questions in sources.items():
        longest = next((length for start, length in CHOSEN.items() if name.startswith(start)), 0)
        found += [record for record in questions if len(record.passages[0]) <= longest]
    refused = [record for record in found if record.id.split("/")[0] in REFUSED]
    found += [replace(record, id=f"again/{record.id}") for record in rng.sample(refused, len(refused) // 2)]
    for name, count in OTHERS.items():
        found += take(sources[name], count, rng, 1000)
    found += without_answers(made, found, 4000, rng) + structured
    rng.shuffle(found)
    return [in_any_case(record, rng) for record in found]


def with_written(
    records: Questions, selected: Questions, counts: Mapping[str, int], rng: random.Random, again: float = 0.5
) -> Questions:
    """The questions that were written for these readers, a share of them ``again``, and some of the selected ones of
    each source."""
    sources = by_source(selected)
    found = [record for record in records if record.id.startswith(WRITTEN)]
    found += [replace(record, id=f"again/{record.id}") for record in rng.sample(found, int(len(found) * again))]
    for name, count in counts.items():
        found += rng.sample(sources[name], min(count, len(sources[name])))
    rng.shuffle(found)
    return found


def english_second(records: Questions, selected: Questions) -> Questions:
    """The questions to go on with: those written for this reader, most human-written ones without an answer with their
    twins, and some of the other selected ones."""
    rng = random.Random(18)
    found = with_written(records, selected, SECOND, rng)
    return [in_any_case(record, rng) if record.id.startswith((*WRITTEN, "again")) else record for record in found]


def once_more(records: Questions, selected: Questions, counts: Mapping[str, int], rng: random.Random) -> Questions:
    """The questions to go on with once more, when more had been written: those once, and half as many of the others."""
    return with_written(records, selected, {name: count // 2 for name, count in counts.items()}, rng, again=0)


def english_third(records: Questions, selected: Questions) -> Questions:
    """The last questions of the English reader."""
    rng = random.Random(20)
    found = once_more(records, selected, SECOND, rng)
    return [in_any_case(record, rng) if record.id.startswith(WRITTEN) else record for record in found]


def english_shared(records: Sequence[QuestionRecord], made: Questions, structured: Questions) -> Questions:
    """Whole passages, those with most questions first, because their questions share an encoding."""
    rng, sources, found = random.Random(7), by_source(records), Questions()
    for name in REFUSED:
        found += [record for record in sources[name] if len(record.passages[0]) <= 900]
    groups = by_passage([each for name in ("squad-train-subset", "squad1-extra") for each in sources[name]], rng)
    groups = sorted((group for group in groups if len(group[0].passages[0]) <= 900), key=lambda group: -len(group))
    most = len(found) + 4000
    for group in groups:
        if len(found) < most:
            found += group
    found += take(sources["squadshifts-wiki"], 1200, rng)
    for name, count in OTHERS.items():
        found += take(sources[name], count // 8, rng, 800)
    return found + without_answers(made, found, 900, rng) + structured


def english(data: Path) -> None:
    """The questions of the reader that comes with Masquerade, and of one that shares passages."""
    parts = [read_questions(str(data / f"en-{name}.jsonl")) for name in ("train", "made", "structured")]
    selected = english_selected(*parts)
    write(selected, data / "en-selected.jsonl")
    write(english_second(parts[0], selected), data / "en-second.jsonl")
    write(english_third(parts[0], selected), data / "en-third.jsonl")
    write(english_shared(*parts), data / "en-shared.jsonl")


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
    every = [record for record in records if len(record.passages[0]) <= LONGEST]
    every += [each for each in made if len(each.passages[0]) <= LONGEST]
    every += read_questions(str(data / "zh-structured.jsonl"))
    write([each for each in every if not each.id.startswith(WRITTEN)], data / "zh-second.jsonl")
    write(with_written(records, every, THIRD, random.Random(19)), data / "zh-third.jsonl")
    write(once_more(records, every, THIRD, random.Random(21)), data / "zh-fourth.jsonl")


def write(records: Questions, path: Path) -> None:
    """Questions as JSON lines."""
    none = sum(not any(record.spans) for record in records)
    print(f"{path}: {write_questions(records, path):,} questions, {none:,} without an answer")


def main() -> None:
    """Select."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    english(Path(sys.argv[1]))
    chinese(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
