"""Questions about everyday documents: letters, contracts, price lists, notices, code, minutes and the like.

The folders everyday-en and everyday-zh hold the documents, several in a file, with their questions behind each:

    the text of a document, of any layout
    =====
    Q: a question
    A: its answer, as it stands in the text; with " @2" behind it, its second occurrence
    Q: a question that the document does not answer
    A: -
    #####
    the next document

Everything in them was made up, and written for this project by a language model, a third of the questions so that the
document does not answer them. The folders wikipedia-en and wikipedia-zh have passages of Wikipedia (CC BY-SA) with
questions written in the same way. `scripts/reading_data.py` reads all four. To check one:
python scripts/everyday.py FOLDER.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from masquerade.reading.records import Gold, QuestionRecord

NEXT = re.compile(r"^#####+\n", re.MULTILINE)
PLACE = re.compile(r"(.*?)(?: @(\d+))?")


def everyday_questions(folder: Path) -> list[QuestionRecord]:
    """The questions of all documents of a folder."""
    return [record for path in sorted(folder.glob("*.txt")) for record in in_file(path)]


def in_file(path: Path) -> Iterator[QuestionRecord]:
    """The questions of a file."""
    for number, document in enumerate(NEXT.split(path.read_text(encoding="utf-8")), start=1):
        if not document.strip():
            continue
        text, marked, asked = document.partition("\n=====\n")
        lines = [line for line in asked.splitlines() if line.strip()]
        if not marked or len(lines) % 2:
            sys.exit(f"{path}, document {number}: a line ===== and pairs of Q: and A: are needed.")
        for place in range(0, len(lines), 2):
            question, answer = lines[place : place + 2]
            if not (question.startswith("Q: ") and answer.startswith("A: ")):
                sys.exit(f"{path}, document {number}: '{question}' and '{answer}' have to begin with 'Q: ' and 'A: '.")
            gold = find(text.strip("\n"), answer[3:].strip(), f"{path}, document {number}")
            golds, name = ((gold,) if gold else ()), f"{path.stem}-{number}"
            yield QuestionRecord(
                f"{name}-{place // 2 + 1}",
                question[3:].strip(),
                (text.strip("\n"),),
                (golds,),
                tuple(each.text for each in golds),
                name,
            )


def find(text: str, answer: str, where: str) -> Gold | None:
    """The place of an answer in a text; None for "-", no answer."""
    if answer == "-":
        return None
    parts = PLACE.fullmatch(answer)
    assert parts
    start = -1
    for _ in range(int(parts[2] or 1)):
        start = text.find(parts[1], start + 1)
        if start < 0:
            sys.exit(f"{where}: '{answer}' does not stand in the text.")
    return Gold(parts[1], start)


def main() -> None:
    """Check a folder."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    records = everyday_questions(Path(sys.argv[1]))
    none = sum(not record.accepted for record in records)
    print(f"{len({record.title for record in records})} documents, {len(records)} questions, {none} without an answer")


if __name__ == "__main__":
    main()
