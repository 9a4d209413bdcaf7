"""What the commands ``evaluate reader`` and ``questions`` read and print."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from masquerade.cli.show.output import print_json
from masquerade.data import corpus
from masquerade.documents.document import language
from masquerade.errors import MasqueradeError
from masquerade.files import write_text
from masquerade.progress import progress_bar
from masquerade.reading.answers import VOTES, Answer
from masquerade.reading.decoders import DECODERS
from masquerade.reading.reader import Reader
from masquerade.reading.records import QuestionRecord, read_questions, write_questions
from masquerade.reading.scores import METRICS, read_accepted


@dataclass(frozen=True)
class Evaluation:
    """The questions of an evaluation and its settings; a setting that is None is chosen by the questions."""

    sources: Sequence[str]
    metric: str | None = None
    decoder: str = "parallel"
    vote: str | None = None
    accepted: Path | None = None  # SogouQA's accepted answers
    limit: int | None = None  # number of questions, from the first on

    def __post_init__(self) -> None:
        _check("metric", self.metric or "squad", METRICS)
        _check("vote", self.vote or "best", VOTES)
        _check("decoder", self.decoder, DECODERS)

    def read(self) -> list[QuestionRecord]:
        """The questions with their accepted answers. An id that occurs in two files gets the file's name in front."""
        found = dict[str, QuestionRecord]()
        for source in self.sources:
            for record in read_questions(source):
                name = f"{source}#{record.id}" if record.id in found else record.id
                found[name] = replace(record, id=name)
        records = list(found.values())[: self.limit]
        if self.accepted is not None:
            gold = read_accepted(self.accepted)
            if missing := [record.id for record in records if record.id not in gold]:
                raise MasqueradeError(f"The question '{missing[0]}' is not in {self.accepted}; give the file it is in.")
            records = [replace(record, accepted=gold[record.id]) for record in records]
        if not any(map(_readable, records)):
            raise MasqueradeError(
                f"The questions of {', '.join(self.sources)} have no passages; add texts that hold the answers."
            )
        return records

    def rules(self, records: Sequence[QuestionRecord]) -> tuple[str, str]:
        """The metric and the vote: "sogouqa" and "all" for questions with several passages, else "cmrc" for Chinese
        questions and "squad" for others."""
        several = any(len(record.passages) > 1 for record in records)
        found = language(" ".join(record.question for record in records))
        metric = "sogouqa" if several else "cmrc" if found == "zh" else "squad"
        return self.metric or metric, self.vote or ("all" if several else "best")


def score_reader(
    model: str, evaluation: Evaluation, predictions: Path | None, worst: int | None, as_json: bool
) -> None:
    """Print the scores of a reader, and the questions with the lowest ones."""
    records = evaluation.read()
    metric, vote = evaluation.rules(records)
    reader = Reader.load(model)
    if all(record.accepted for record in records):  # every question has an answer
        reader.settings = replace(reader.settings, threshold=0.0)
    answers = _answers(reader, records, vote, evaluation.decoder)
    texts = {record.id: answer.text for record, answer in zip(records, answers, strict=True)}
    scores = METRICS[metric](texts, records)
    rows: list[dict[str, Any]] = [
        {"id": record.id, "question": record.question, "answer": answer.text, "score": answer.score,
         "accepted": record.accepted, **scores.each[record.id]}
        for record, answer in zip(records, answers, strict=True)
    ]  # fmt: skip
    if worst is not None:
        rows.sort(key=lambda row: (row["f1"], -row["score"]))  # lowest F1 first; of these, the most confident
    if predictions is not None:
        write_text(predictions, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    if as_json:
        about = {"metric": metric, "decoder": evaluation.decoder, "vote": vote, "questions": len(records)}
        listed = {} if worst is None else {"worst": rows[:worst]}
        print_json({**about, **scores.total, **listed})
        return
    console = Console(highlight=False)
    console.print(f"{len(records):,} questions, metric {metric}, decoder {evaluation.decoder}, vote {vote}")
    table = Table("score", "percent")
    for name, value in scores.total.items():
        table.add_row(name.replace("_", " "), f"{value:.2f}")
    console.print(table)
    if worst is not None:
        table = Table("question", "predicted", "accepted", "f1")
        for row in rows[:worst]:
            table.add_row(*map(Text, (row["question"], row["answer"], " | ".join(row["accepted"]), f"{row['f1']:.2f}")))
        console.print(table)


def _answers(reader: Reader, records: Sequence[QuestionRecord], vote: str, decoder: str) -> list[Answer]:
    """The answer to each question; empty for a question without a passage."""
    asked = [record for record in records if _readable(record)]
    passages = list(dict.fromkeys(passage for record in asked for passage in record.passages))
    windows = Counter(passages[window.passage] for window in reader.cut(tuple(passages)).windows)
    share = len(asked) / sum(windows[passage] for record in asked for passage in record.passages)
    with progress_bar("questions", len(asked)) as done:
        pairs = [(record.question, record.passages) for record in asked]
        found = reader.ask_many(pairs, vote=vote, decoder=decoder, done=lambda count: done(count * share))
    by_id = {record.id: answer for record, answer in zip(asked, found, strict=True)}
    return [by_id.get(record.id, Answer("", 0.0)) for record in records]


def make_questions(sources: Sequence[str], out: Path, count: int, each: int, most: int, length: int, seed: int) -> None:
    """Write synthetic questions from texts."""
    from masquerade.reading.synthetic import synthetic_questions  # imports all objectives

    if min(count, each, most, length) < 1:
        raise MasqueradeError("--count, --each, --passages and --length have to be at least 1.")
    documents = (document for source in sources for document in corpus.read_documents(source))
    made = list[QuestionRecord]()
    with progress_bar("questions", count) as done:
        for record in islice(synthetic_questions(documents, seed, each, most, length), count):
            made.append(record)
            done(1)
    if not made:
        raise MasqueradeError("No question can be made from these texts; give longer ones, with several sentences.")
    print(f"{out}: {write_questions(made, out):,} questions of {len({record.title for record in made}):,} documents")


def _readable(record: QuestionRecord) -> bool:
    """Whether a question has a passage with text in it."""
    return any(passage.strip() for passage in record.passages)


def _check(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise MasqueradeError(f"There is no {what} '{name}'; choose from {', '.join(known)}.")
