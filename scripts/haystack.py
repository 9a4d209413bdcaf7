"""How well does a reader find an answer among many texts, and does it matter how their answers are compared?

    python scripts/haystack.py READER QUESTIONS [--questions 80] [--others 40] [--metric squad]

Each question is asked of its own passage and of others by chance. *alone* asks of its own passage only. *odds* reads
all of them as one text, as ``Reader.ask`` does: spans are compared by their odds against no answer. *share* takes the
answer that is the most probable one in its own passage.
"""

from __future__ import annotations

import argparse

from rich.progress import track

from masquerade.data.rng import rng_for
from masquerade.reading.answers import Answer
from masquerade.reading.reader import Reader
from masquerade.reading.records import read_questions
from masquerade.reading.scores import METRICS


def main() -> None:
    """WindowQuestion, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader")
    parser.add_argument("data")
    parser.add_argument("--questions", type=int, default=80)
    parser.add_argument("--others", type=int, default=40)
    parser.add_argument("--metric", default="squad", choices=list(METRICS))
    asked = parser.parse_args()
    reader, records = Reader.load(asked.reader), [record for record in read_questions(asked.data) if record.accepted]
    pool = list(dict.fromkeys(record.passages[0] for record in records))
    records = records[:: max(1, len(records) // asked.questions)][: asked.questions]
    found = dict[str, list[tuple[Answer, bool]]](alone=[], odds=[], share=[])  # answers, of their own passage or not
    for number, record in enumerate(track(records, "questions")):
        strange = [text for text in pool if text != record.passages[0]]
        order = rng_for(0, number).permutation(len(strange))[: asked.others]
        passages = [record.passages[0], *(strange[index] for index in order)]
        each = [_whole(answer) for answer in reader.ask_many([(record.question, passage) for passage in passages])]
        best = max(range(len(each)), key=lambda index: each[index].score)
        together = _whole(reader.ask(record.question, passages))
        found["alone"].append((each[0], True))
        found["odds"].append((together, together.passage == 0))
        found["share"].append((each[best], best == 0))
    print("| compared by | " + " | ".join(METRICS[asked.metric]({}, records).total) + " | the right passage |")
    for name, answers in found.items():
        texts = {record.id: answer.text for record, (answer, _) in zip(records, answers, strict=True)}
        scores = [*METRICS[asked.metric](texts, records).total.values()]
        right = 100 * sum(own for _, own in answers) / len(answers)
        print(f"| {name} | " + " | ".join(f"{score:.1f}" for score in (*scores, right)) + " |")


def _whole(answer: Answer) -> Answer:
    """An answer also where it is below the threshold."""
    return answer or answer.alternatives[0]


if __name__ == "__main__":
    main()
