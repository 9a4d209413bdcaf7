"""Make questions about tables, CSV, lists, letters, frequent questions, settings and code, which are no prose.

    python scripts/structured_questions.py OUT --language en --count 2000 [--seed 1]

Every text is about some items of one domain (goods, staff, events, places, settings), each with values for the same
fields, in one of several forms. A question asks for one value in other words than the text's. A quarter of the
questions have no answer: they ask for an item or for a field that the text does not have. Everything is drawn by
--seed, so the same call writes the same file.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from structured_words import DOMAINS, WORDS, Domain, Field

from masquerade.reading.records import Gold, QuestionRecord, write_questions

NONE = 0.25  # the share of questions without an answer
Rows = list[list[str]]


@dataclass(frozen=True)
class Sheet:
    """Items with their values, and the labels of the fields as the text names them."""

    domain: Domain
    items: list[str]
    fields: list[Field]
    labels: list[str]
    values: Rows  # of each item, a value a field


class Text:
    """A text that is put together piece by piece, and where each value stands in it."""

    def __init__(self) -> None:
        self.text = ""
        self.places = dict[tuple[int, int], Gold]()

    def add(self, piece: str) -> None:
        self.text += piece

    def value(self, item: int, field: int, value: str) -> None:
        """Add a value, and keep its first place."""
        self.places.setdefault((item, field), Gold(value, len(self.text)))
        self.text += value


def sheet(language: str, rng: random.Random) -> Sheet:
    """Random items of a random domain."""
    domain = rng.choice(DOMAINS[language])
    fields = rng.sample(domain.fields, min(len(domain.fields), rng.randint(2, 5)))
    items = rng.sample(domain.items, rng.randint(3, 9))
    values = [[draw(field, rng) for field in fields] for _ in items]
    return Sheet(domain, items, fields, [rng.choice(field.labels) for field in fields], values)


def draw(field: Field, rng: random.Random) -> str:
    """A value of a field: its pattern with every {name} replaced by one of those words, and {a-b} by a number."""
    text = rng.choice(field.patterns)
    while "{" in text:
        begin, end = text.index("{"), text.index("}")
        name = text[begin + 1 : end]
        if name[0].isdigit():
            low, high = name.split("-")
            new = str(rng.randint(int(low), int(high))).zfill(len(low))
        else:
            new = rng.choice(WORDS[name])
        text = text[:begin] + new + text[end + 1 :]
    return text


def table(given: Sheet, rng: random.Random, before: str, between: str, after: str, rule: bool) -> Text:
    """Rows with a separator, under a row of labels."""
    found, name = Text(), rng.choice(given.domain.names)
    found.add(f"{before}{between.join([name, *given.labels])}{after}\n")
    if rule:
        found.add(f"{before}{between.join(['---'] * (1 + len(given.labels)))}{after}\n")
    for row, item in enumerate(given.items):
        found.add(before + item)
        for column, value in enumerate(given.values[row]):
            found.add(between)
            found.value(row, column, value)
        found.add(f"{after}\n")
    return found


def sections(given: Sheet, rng: random.Random) -> Text:
    """A heading for each item, and a line for each field."""
    found, mark, bullet = Text(), rng.choice(["## ", "# ", "", "=== "]), rng.choice(["- ", "* ", "", "  "])
    colon = rng.choice(given.domain.colons)
    for row, item in enumerate(given.items):
        found.add(f"{mark}{item}\n")
        for column, value in enumerate(given.values[row]):
            found.add(f"{bullet}{given.labels[column]}{colon}")
            found.value(row, column, value)
            found.add("\n")
        found.add("\n")
    return found


def frequent(given: Sheet, rng: random.Random) -> Text:
    """Questions as headings, and answers below them: the words of a question are in the text, beside its answer."""
    found = Text()
    asked = [(row, column) for row in range(len(given.items)) for column in range(len(given.fields))]
    for row, column in rng.sample(asked, min(len(asked), rng.randint(4, 8))):
        field, item = given.fields[column], given.items[row]
        found.add(f"### {rng.choice(field.questions).format(item)}\n")
        said = rng.choice(field.sentences).format(item, "\0").split("\0")
        found.add(said[0])
        found.value(row, column, given.values[row][column])
        found.add(f"{said[1]}\n\n")
    return found


def prose(given: Sheet, rng: random.Random) -> Text:
    """A letter or notice: sentences with one value each."""
    found, (opening, closing) = Text(), rng.choice(given.domain.letters)
    found.add(opening)
    for row, item in enumerate(given.items):
        for column, value in enumerate(given.values[row]):
            if rng.random() < 0.6:
                said = rng.choice(given.fields[column].sentences).format(item, "\0").split("\0")
                found.add(said[0])
                found.value(row, column, value)
                found.add(said[1] + given.domain.space)
    found.add(closing)
    return found


def code(given: Sheet, rng: random.Random) -> Text:
    """Settings in a program or a configuration file."""
    found, names = Text(), [item.lower().replace(" ", "_") for item in given.items]
    dictionary = rng.random() < 0.5
    if dictionary:
        found.add("SETTINGS = {\n")
    for row, name in enumerate(names):
        found.add(f'    "{name}": {{' if dictionary else f"[{name}]\n")
        for column, value in enumerate(given.values[row]):
            key = given.fields[column].labels[-1].lower().replace(" ", "_")
            found.add(f'"{key}": "' if dictionary else f"{key} = ")
            found.value(row, column, value)
            found.add(('", ' if column < len(given.labels) - 1 else '"') if dictionary else "\n")
        found.add("},\n" if dictionary else "\n")
    found.add("}\n" if dictionary else "")
    return found


FORMS: list[Callable[[Sheet, random.Random], Text]] = [
    lambda given, rng: table(given, rng, "", rng.choice([",", ", ", ";", "\t"]), "", False),
    lambda given, rng: table(given, rng, "| ", " | ", " |", True),
    sections,
    frequent,
    prose,
    code,
]


def questions(language: str, number: int, rng: random.Random) -> list[QuestionRecord]:
    """A text with three to five questions."""
    given = sheet(language, rng)
    made = rng.choice(FORMS)(given, rng)
    title = f"structured {language} {number}"
    others = [item for item in given.domain.items if item not in made.text]
    unused = [field for field in given.domain.fields if field not in given.fields]
    found = list[QuestionRecord]()
    for asked in range(min(rng.randint(3, 5), len(made.places))):
        row, column = rng.choice(list(made.places))
        item, field, golds = given.items[row], given.fields[column], (made.places[row, column],)
        if rng.random() < NONE and (others or unused):
            golds = ()
            if others and (not unused or rng.random() < 0.5):
                item = rng.choice(others)
            else:
                field = rng.choice(unused)
        possible = [text for text in field.questions if text.format(item) not in made.text] or list(field.questions)
        question = rng.choice(possible).format(item)
        record = QuestionRecord(
            f"structured-{language}/{number}-{asked}", question, (made.text,), (golds,), texts_of(golds), title
        )
        if question not in [each.question for each in found]:
            found.append(record)
    return found


def texts_of(golds: Sequence[Gold]) -> tuple[str, ...]:
    """The texts of some answers."""
    return tuple(gold.text for gold in golds)


def main() -> None:
    """Write as many as were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--language", choices=sorted(DOMAINS), default="en")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng, found, number = random.Random(given.seed), list[QuestionRecord](), 0
    while len(found) < given.count:
        found += questions(given.language, number, rng)
        number += 1
    none = sum(not any(record.spans) for record in found)
    print(f"{given.out}: {write_questions(found, given.out):,} questions, {none:,} without an answer")


if __name__ == "__main__":
    main()
