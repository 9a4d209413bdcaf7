"""Ask a reader the questions about the files of examples/own, and print what it gets right.

    python scripts/own_files.py --model en [--language en] [--threshold 0] [--together] [--json]

Each language has ten short files of different kinds and 60 questions, ten of them near the topic without an answer.
They were written before any was asked, and nothing was chosen on them. An answer is right if it equals one of the
accepted ones by SQuAD's rule (English) or CMRC 2018's (Chinese). Each question is asked of its own file; with
--together of all ten files at once, as of a folder.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from masquerade.documents.document import Document
from masquerade.documents.folders import read_document
from masquerade.reading.answers import Answer
from masquerade.reading.reader import Reader
from masquerade.reading.records import QuestionRecord
from masquerade.reading.scores import METRICS

FOLDER = Path(__file__).parents[1] / "examples" / "own"
RULES = {"en": "squad", "zh": "cmrc"}


@dataclass(frozen=True)
class OwnQuestion:
    """A question about one of the files; no accepted answer: the file does not answer it."""

    file: str
    text: str
    accepted: tuple[str, ...]


def own_questions(language: str) -> list[OwnQuestion]:
    """The questions of a language, from its questions.tsv: file, question, accepted answers with | between them."""
    lines = (FOLDER / language / "questions.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return [OwnQuestion(file, text, tuple(filter(None, accepted.split("|")))) for file, text, accepted in rows]


def own_documents(language: str) -> dict[str, Document]:
    """The files of a language by their names."""
    names = dict.fromkeys(question.file for question in own_questions(language))
    return {name: read_document(str(FOLDER / language / name)) for name in names}


def scores_of(questions: Sequence[OwnQuestion], answers: Sequence[Answer], language: str) -> list[dict[str, float]]:
    """The exact match and F1 of each answer, from 0 to 1."""
    records = [QuestionRecord(str(number), each.text, (), (), each.accepted) for number, each in enumerate(questions)]
    texts = {record.id: answer.text for record, answer in zip(records, answers, strict=True)}
    scores = METRICS[RULES[language]](texts, records)
    return [scores.each[record.id] for record in records]


def main() -> None:
    """Ask, and print the shares and each miss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="en, zh, the folder of a reader or run, or a hub id")
    parser.add_argument("--language", choices=list(RULES), help="of files and questions; by default that of --model")
    parser.add_argument("--together", action="store_true", help="ask of all files at once")
    parser.add_argument("--threshold", type=float, help="as of 'masquerade ask'; 0 always answers")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    language = asked.language or ("zh" if "zh" in Path(asked.model).name else "en")
    questions, documents = own_questions(language), own_documents(language)
    texts = {name: document.joined.text for name, document in documents.items()}
    everything = tuple(texts.values())
    reader = Reader.load(asked.model)
    pairs = [(each.text, everything if asked.together else texts[each.file]) for each in questions]
    answers = reader.ask_many(pairs, threshold=asked.threshold)
    scores = scores_of(questions, answers, language)
    having = [score for score, each in zip(scores, questions, strict=True) if each.accepted]
    lacking = [score for score, each in zip(scores, questions, strict=True) if not each.accepted]
    totals = {
        "right": 100 * sum(score["exact"] for score in having) / len(having),
        "f1": 100 * sum(score["f1"] for score in having) / len(having),
        "refused": 100 * sum(score["exact"] for score in lacking) / len(lacking),
    }
    if asked.json:
        print(json.dumps(totals))
        return
    for each, answer, score in zip(questions, answers, scores, strict=True):
        if score["exact"] < 1:
            wanted = each.accepted[0] if each.accepted else "(no answer)"
            print(f"{each.file}: {each.text}\n    wanted: {wanted}")
            print(f"    got:    {answer.text or '(no answer)'}  {answer.score:.1%}")
    print(f"right: {totals['right']:.1f} % of {len(having)} with an answer (F1 {totals['f1']:.1f});", end=" ")
    print(f"refused: {totals['refused']:.1f} % of {len(lacking)} without")


if __name__ == "__main__":
    main()
