"""Make questions without an answer out of questions that have one: of the same passage, and close to a real question.

    python scripts/unanswerable.py QUESTIONS OUT --count 4000 [--pairs PAIRS]

QUESTIONS is a file of ``scripts/reading_data.py``. Three ways, by turns:

- one word of the question is replaced: by a word that people replaced it with when they wrote such questions (PAIRS,
  JSON lines with ``answerable`` and ``unanswerable``, from which single replaced words are counted), or a number or
  year by another;
- a name in the question is replaced by a name from another passage of the article that is absent from this passage;
- the question is the most similar one (by shared rare words) of another passage of the same article, if its answers do
  not stand in this passage.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from masquerade.data.records import read_records
from masquerade.reading.records import QuestionRecord, read_questions, write_questions

WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)?|[^\w\s]")
NAME = re.compile(r"(?<![.?!]\s)(?<!^)\b[A-Z][a-z]+(?:\s[A-Z][a-z]+)*\b")
QUOTED = re.compile(r"《[^》]{1,20}》|[\u4e00-\u9fff]{2,6}(?=(?:省|市|县|州|国|大学|公司|学院|乐团|教堂|车站|王朝))")
COMMON = {"the", "a", "an", "of", "in", "on", "at", "to", "for", "from", "by", "with", "and", "or", "as", "it"}
SAMPLE = 100  # names of an article that are looked at for one question
NEAR = 60  # questions of an article that are compared with each other
NEGATED = 0.1  # the share of replaced words that negate: a reader must not learn that "not" means no answer


def replaced_words(source: str) -> dict[str, list[str]]:
    """For each word, the words that people put in its place to make a question unanswerable, as often as they did."""
    found = defaultdict[str, list[str]](list)
    for pair in read_records(source):
        one, other = (WORD.findall(pair[key].lower()) for key in ("answerable", "unanswerable"))
        matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
        changes = [each for each in matcher.get_opcodes() if each[0] != "equal"]
        if len(changes) == 1 and changes[0][0] == "replace":
            _, a, b, c, d = changes[0]
            if b - a == 1 and d - c <= 2 and one[a].isalpha() and one[a] not in COMMON:
                found[one[a]].append(" ".join(other[c:d]))
    return {word: others for word, others in found.items() if len(others) > 1}


def other_word(record: QuestionRecord, rng: random.Random, words: dict[str, list[str]]) -> str | None:
    """The question with one word or number replaced."""
    places = list(WORD.finditer(record.question))
    numbers = [place for place in places if place[0].isdigit()]
    known = [place for place in places if place[0].lower() in words]
    if numbers and rng.random() < 0.5:
        place = rng.choice(numbers)
        value = int(place[0])
        near = [value + step for step in (-30, -20, -10, -5, -3, -2, -1, 1, 2, 3, 5, 10, 20) if value + step > 0]
        near = [each for each in near if str(each) not in record.passages[0]]
        new = str(rng.choice(near)) if near else None
    elif known:
        place = rng.choice(known)
        options = words[place[0].lower()]
        plain = [each for each in options if "'" not in each and each not in ("not", "never")]
        new = rng.choice(options if rng.random() < NEGATED or not plain else plain)
    else:
        return None
    if new is None:
        return None
    return record.question[: place.start()] + new + record.question[place.end() :]


def other_name(record: QuestionRecord, rng: random.Random, names: Sequence[str]) -> str | None:
    """The question with one name replaced by one that the passage does not have."""
    pattern = QUOTED if re.search(r"[\u4e00-\u9fff]", record.question) else NAME
    places = list(pattern.finditer(record.question))
    some = rng.sample(names, min(len(names), SAMPLE))
    absent = [name for name in some if name not in record.passages[0]]
    if not places or not absent:
        return None
    place = rng.choice(places)
    like = [name for name in absent if name.count(" ") == place[0].count(" ")] or absent
    return record.question[: place.start()] + rng.choice(like) + record.question[place.end() :]


@functools.cache
def grams(text: str) -> frozenset[str]:
    """The words of a text, and pairs of its Chinese characters."""
    chinese = re.findall(r"[\u4e00-\u9fff]+", text)
    return frozenset(re.findall(r"[a-z0-9]+", text.lower())) | {
        part[n : n + 2] for part in chinese for n in range(len(part))
    }


def near_questions(records: Sequence[QuestionRecord]) -> Iterator[tuple[QuestionRecord, QuestionRecord]]:
    """Each record with the most similar question of another passage of its article without an answer in this one."""
    rarity = Counter(gram for passage in {record.passages[0] for record in records} for gram in grams(passage))
    articles = defaultdict[str, list[QuestionRecord]](list)
    for record in records:
        articles[record.title].append(record)
    for title, group in articles.items():
        if not title:
            continue
        for record in group[:NEAR]:
            passage = grams(record.passages[0])
            best, score = None, 0.0
            for other in group[:NEAR]:
                if other.passages == record.passages or any(text in record.passages[0] for text in other.accepted):
                    continue
                shared = grams(other.question) & passage
                value = sum(math.log(len(records) / (1 + rarity[gram])) for gram in shared)
                if value > score:
                    best, score = other, value
            if best is not None:
                yield record, best


def main() -> None:
    """Write as many as were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions")
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", default="")
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    records = [each for each in read_questions(given.questions) if any(each.spans)]
    words = replaced_words(given.pairs) if given.pairs else {}
    names, read = defaultdict[str, list[str]](list), set[str]()
    for record in records:
        for passage in record.passages:
            if passage not in read:
                names[record.title] += QUOTED.findall(passage) or NAME.findall(passage)
                read.add(passage)
    near = dict[str, QuestionRecord]()
    for record, other in near_questions(rng.sample(records, min(len(records), 3 * given.count))):
        near[record.id] = other
    made, seen = list[QuestionRecord](), set[tuple[str, str]]()
    counts = Counter[str]()
    for record in rng.sample(records, len(records)):
        if len(made) >= given.count:
            break
        ways = {"word": other_word(record, rng, words), "name": other_name(record, rng, names[record.title])}
        ways["near"] = near[record.id].question if record.id in near else None
        possible = [(counts[way], way) for way, text in ways.items() if text and text != record.question]
        if not possible:
            continue
        way = min(possible)[1]
        question = ways[way]
        if question is None or (question, record.passages[0]) in seen:
            continue
        seen.add((question, record.passages[0]))
        counts[way] += 1
        empty = tuple(() for _ in record.passages)
        made.append(replace(record, id=f"{way}/{record.id}", question=question, spans=empty, accepted=()))
    print(f"{given.out}: {write_questions(made, given.out):,} questions; {json.dumps(counts)}")


if __name__ == "__main__":
    main()
