"""What the commands ``ask``, ``questions`` and ``evaluate reader`` read and print."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from masquerade.data import corpus
from masquerade.documents.document import Document, language
from masquerade.documents.encodings import decode_utf8
from masquerade.documents.folders import Skipped, read_documents
from masquerade.errors import MasqueradeError
from masquerade.files import write_text
from masquerade.reading.answers import VOTES, Answer
from masquerade.reading.decoders import DECODERS
from masquerade.reading.reader import Reader
from masquerade.reading.records import QuestionRecord, read_questions, write_questions
from masquerade.reading.scores import METRICS, read_accepted

FOUND = "bold black on bright_yellow"  # the answer in its sentence
LISTED = 20  # files that were not read are named, up to this many
LONG = 24  # windows of text; from so many on, an answer takes long enough for a progress bar


@dataclass(frozen=True)
class How:
    """How a question is answered, as ``Reader.ask`` takes it."""

    n_best: int = 1
    vote: str = "best"
    decoder: str = "parallel"
    free: bool = False

    def __post_init__(self) -> None:
        _check("vote", self.vote, VOTES)
        _check("decoder", self.decoder, DECODERS)


def show_answers(question: str | None, sources: Sequence[str], model: str | None, how: How, as_json: bool) -> None:
    """Print the answer to a question from texts; without a question, answer what is asked until nothing is."""
    if question is None and "-" in sources:
        raise MasqueradeError(
            "Standard input is the text, so the question cannot come from there too; give it behind ask."
        )
    if question is not None:
        question = decode_utf8(
            question.encode("utf-8", "surrogateescape"), "question"
        )  # what was typed may be any bytes
        if not question.strip():
            raise MasqueradeError("The question is empty; ask something.")
    documents, skipped = read_documents(sources)
    _show_guesses(documents)
    reader = Reader.load(model or language(question or "", "\n".join(each.text for each in documents)))
    desk = Desk(reader, documents, how, as_json)
    if question is not None:
        desk.show(question)
    else:
        desk.remember()
        try:
            for each in _questions():
                desk.show(each, several=True)
        except (KeyboardInterrupt, EOFError):
            print(file=sys.stderr)  # what comes next begins on a line of its own
    _show_skipped(skipped)


def _show_guesses(documents: Sequence[Document]) -> None:
    """Name the files whose encoding was guessed."""
    for document in documents:
        if document.guessed:
            print(f"'{document.name}' is not Unicode; it was read as {document.encoding}.", file=sys.stderr)


def _show_skipped(skipped: Sequence[Skipped]) -> None:
    """Name the files that were not read, with their reasons."""
    if skipped:
        print(f"{len(skipped):,} of the files were not read:", file=sys.stderr)
    for each in skipped[:LISTED]:
        print(f"  {each.reason}", file=sys.stderr)
    if len(skipped) > LISTED:
        print(f"  … and {len(skipped) - LISTED:,} more", file=sys.stderr)


class Desk:
    """A reader with its texts in front of it."""

    def __init__(self, reader: Reader, documents: Sequence[Document], how: How, as_json: bool) -> None:
        self.reader, self.documents, self.how, self.as_json = reader, documents, how, as_json
        self.texts = [document.joined.text for document in documents]
        self.windows = len(reader.layout.windows(reader.tokenizer, self.texts))
        self.console = Console(highlight=False)

    def remember(self) -> None:
        """Read the texts once for all questions to come, and say so."""
        notes, size = Console(stderr=True, highlight=False), sum(map(len, self.texts))
        if self.how.decoder == "parallel" and not self.how.free:  # the others begin anew with each question
            with _progress("reading", self.windows) as done:
                self.reader.remember(self.texts, done)
        what = self.documents[0].name if len(self.documents) == 1 else f"{len(self.documents)} texts"
        said = f"Read {what}, {size:,} characters. Ask your questions; an empty line ends it."
        notes.print(Text(said), soft_wrap=True)

    def show(self, question: str, several: bool = False) -> None:
        """Print the answer to a question, which may be one of several."""
        how = self.how
        with _progress("passages", self.windows, shown=self.windows >= LONG) as done:
            asked = [(question, self.texts)]
            answer = self.reader.ask_many(asked, how.n_best, how.vote, how.decoder, how.free, done)[0]
        if self.as_json:
            others = [self._plain(each) for each in answer.alternatives]
            whole = {"question": question, **self._plain(answer), "alternatives": others}
            print(json.dumps(whole, ensure_ascii=False), flush=True)
            return
        if several and not sys.stdin.isatty():  # nobody has seen it yet
            self.console.print(Text(f"? {question}"), soft_wrap=True)
        if not answer:
            self.console.print("No answer in this text.")
        for each in ([answer] if answer else []) + (list(answer.alternatives) if how.n_best > 1 else []):
            self._print(each)
        if several:
            self.console.print()

    def _print(self, answer: Answer) -> None:
        """An answer, how sure it is, its sentence, and where that stands."""
        document, there = self.documents[answer.passage], answer.start >= 0
        start, end = document.joined.original(answer.start, answer.end) if there else (-1, -1)
        words = document.piece(start, end) if there else answer.text
        whole = not self.console.is_terminal  # lines are wrapped for people, not for programs
        self.console.print(Text.assemble((words, "bold"), (f"  {answer.score:.1%}", "dim")), soft_wrap=whole)
        if there:
            before, after = document.around(start, end)
            self.console.print(Text.assemble("  ", before, (words, FOUND), after), soft_wrap=whole)
        if there or len(self.documents) > 1:
            cited = f"{document.cite(start)} (characters {start}–{end})" if there else document.name
            self.console.print(Text(f"  {cited}", "dim"), soft_wrap=True)

    def _plain(self, answer: Answer) -> dict[str, Any]:
        """An answer as JSON; what it does not have is null."""
        plain: dict[str, Any] = {"answer": answer.text, "score": answer.score}
        plain |= dict.fromkeys(("file", "unit", "number", "start", "end"))
        if answer.passage >= 0:
            document = self.documents[answer.passage]
            plain["file"] = document.name
            if answer.start >= 0:
                plain["start"], plain["end"] = document.joined.original(answer.start, answer.end)
                cited = document.place(plain["start"])
                plain["unit"], plain["number"] = cited.unit, cited.number
        return plain


def _questions() -> Iterator[str]:
    """Questions as they are typed, until an empty line; or the lines that come in by a pipe."""
    if not sys.stdin.isatty():
        lines = (decode_utf8(line, "text of standard input").strip() for line in sys.stdin.buffer)
        yield from filter(None, lines)
        return
    with suppress(ImportError):
        import readline  # noqa: F401  (arrow keys, and what was asked before)
    while question := input("? ").strip():
        yield question


@dataclass(frozen=True)
class Exam:
    """What a reader is asked, how, and by which rule it is scored; None is as suits the questions."""

    sources: Sequence[str]
    metric: str | None = None
    decoder: str = "parallel"
    vote: str | None = None
    accepted: Path | None = None  # SogouQA's accepted answers
    limit: int | None = None  # only so many of the first questions

    def __post_init__(self) -> None:
        _check("metric", self.metric or "squad", METRICS)
        _check("vote", self.vote or "best", VOTES)
        _check("decoder", self.decoder, DECODERS)

    def read(self) -> list[QuestionRecord]:
        """The questions, with the answers that are accepted; one whose id has been taken in another file gets a new
        one."""
        found = dict[str, QuestionRecord]()
        for source in self.sources:
            for record in read_questions(source):
                name = f"{source}#{record.id}" if record.id in found else record.id
                found[name] = replace(record, id=name)
        records = list(found.values())[: self.limit]
        if self.accepted is not None:
            gold = read_accepted(self.accepted)
            if strange := [record.id for record in records if record.id not in gold]:
                raise MasqueradeError(f"The question '{strange[0]}' is not in {self.accepted}; give the file it is in.")
            records = [replace(record, accepted=gold[record.id]) for record in records]
        if not any(map(_readable, records)):
            raise MasqueradeError(f"The questions of {', '.join(self.sources)} have no passages to be answered from.")
        return records

    def rules(self, records: Sequence[QuestionRecord]) -> tuple[str, str]:
        """The metric and the vote: SogouQA's metric and all votes where questions have several passages, else CMRC's
        for Chinese ones and SQuAD's for others."""
        several = any(len(record.passages) > 1 for record in records)
        spoken = language(" ".join(record.question for record in records))
        metric = "sogouqa" if several else "cmrc" if spoken == "zh" else "squad"
        return self.metric or metric, self.vote or ("all" if several else "best")


def score_reader(model: str, exam: Exam, predictions: Path | None, worst: int | None, as_json: bool) -> None:
    """Print how good a reader is, and the questions it is worst at."""
    records = exam.read()
    metric, vote = exam.rules(records)
    reader = Reader.load(model)
    if all(record.accepted for record in records):  # to say that there is no answer would never be right
        reader.settings = replace(reader.settings, threshold=0.0)
    answers = _answers(reader, records, vote, exam.decoder)
    texts = {record.id: answer.text for record, answer in zip(records, answers, strict=True)}
    scores = METRICS[metric](texts, records)
    rows: list[dict[str, Any]] = [
        {"id": record.id, "question": record.question, "answer": answer.text, "score": answer.score,
         "accepted": record.accepted, **scores.each[record.id]}
        for record, answer in zip(records, answers, strict=True)
    ]  # fmt: skip
    if worst is not None:
        rows.sort(key=lambda row: (row["f1"], -row["score"]))  # of equally bad answers, the surer ones are worse
    if predictions is not None:
        write_text(predictions, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    if as_json:
        about = {"metric": metric, "decoder": exam.decoder, "vote": vote, "questions": len(records)}
        listed = {} if worst is None else {"worst": rows[:worst]}
        print(json.dumps({**about, **scores.total, **listed}, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(f"{len(records):,} questions, metric {metric}, decoder {exam.decoder}, vote {vote}")
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
    """The answer to each question; one without a passage has none."""
    asked = [record for record in records if _readable(record)]
    passages = list(dict.fromkeys(passage for record in asked for passage in record.passages))
    windows = Counter(passages[window.passage] for window in reader.layout.windows(reader.tokenizer, passages))
    share = len(asked) / sum(windows[passage] for record in asked for passage in record.passages)
    with _progress("questions", len(asked)) as done:
        pairs = [(record.question, record.passages) for record in asked]
        found = reader.ask_many(pairs, vote=vote, decoder=decoder, done=lambda count: done(count * share))
    by_id = {record.id: answer for record, answer in zip(asked, found, strict=True)}
    return [by_id.get(record.id, Answer("", 0.0)) for record in records]


def make_questions(sources: Sequence[str], out: Path, count: int, each: int, most: int, length: int, seed: int) -> None:
    """Write synthetic questions from texts."""
    from masquerade.reading.synthetic import synthetic_questions  # here: it imports all objectives

    if min(count, each, most, length) < 1:
        raise MasqueradeError("At least one question has to be made, of one passage with a letter.")
    documents = (document for source in sources for document in corpus.read_documents(source))
    made = list[QuestionRecord]()
    with _progress("questions", count) as done:
        for record in islice(synthetic_questions(documents, seed, each, most, length), count):
            made.append(record)
            done(1)
    if not made:
        raise MasqueradeError("No question can be made of these texts; longer ones, of several sentences, have some.")
    print(f"{out}: {write_questions(made, out):,} questions of {len({record.title for record in made}):,} documents")


def _readable(record: QuestionRecord) -> bool:
    """Is there a passage with words in it?"""
    return any(passage.strip() for passage in record.passages)


def _check(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise MasqueradeError(f"There is no {what} '{name}'; choose from {', '.join(known)}.")


class _Rate(ProgressColumn):
    """How many are done in a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.finished_speed or task.speed or 0.0:,.1f}/s")


@contextmanager
def _progress(what: str, total: int, shown: bool = True) -> Iterator[Callable[[float], None]]:
    """A progress bar that is told how many more are done, with rate and time left."""
    columns = (TextColumn(what), MofNCompleteColumn(), BarColumn(), _Rate(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.update(task, advance=count)
