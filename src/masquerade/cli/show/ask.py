"""What the command ``ask`` reads and prints. torch and rich are imported only when they are needed."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from masquerade.cli.show.output import print_json
from masquerade.documents.document import Document, language
from masquerade.documents.encodings import decode_utf8
from masquerade.documents.folders import Skipped, read_documents
from masquerade.errors import MasqueradeError
from masquerade.progress import progress_bar
from masquerade.reading.shipped import shipped

if TYPE_CHECKING:
    from masquerade.reading.answers import Answer
    from masquerade.reading.reader import Reader

HIGHLIGHT = "bold black on bright_yellow"  # the answer in its sentence
LISTED = 20  # files that were not read are named, up to this many
LONG = 24  # windows; with at least this many, an answer takes long enough for a progress bar

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AskOptions:
    """How questions are answered; the parameters of ``Reader.ask``."""

    n_best: int = 1
    vote: str = "best"
    decoder: str = "parallel"
    free: bool = False
    windows: int = 32


def show_answers(
    question: str | None, sources: Sequence[str], model: str | None, options: AskOptions, as_json: bool
) -> None:
    """Print the answer to a question from texts; without a question, answer questions until an empty line."""
    if question is None and "-" in sources:
        raise MasqueradeError(
            "Standard input is the text, so the question cannot come from there too; give the question as an argument."
        )
    if question is not None:
        question = decode_utf8(question.encode("utf-8", "surrogateescape"), "question")  # arguments may be any bytes
        if not question.strip():
            raise MasqueradeError("The question is empty; give a question.")
        if model is None and language(question) == "zh":
            shipped("zh")  # stops before anything is read, if the Chinese reader is not installed
    documents, skipped = read_documents(sources)
    show_guesses(documents)
    session = AskSession(load_reader(model, question or "", documents), documents, options, as_json)
    if question is not None:
        session.answer(question)
    else:
        session.remember()
        try:
            for each in questions_typed():
                session.answer(each, several=True)
        except (KeyboardInterrupt, EOFError):
            print(file=sys.stderr)  # the shell's prompt begins on a new line
    show_skipped(skipped)


def load_reader(model: str | None, question: str, documents: Sequence[Document]) -> Reader:
    """The reader that was named, or the shipped one for the language of the question or the texts."""
    if model is None:
        model = language(question, "\n".join(each.text for each in documents))
        shipped(model)
        log.info("reader: %s, chosen by the language of the texts", model)
    from masquerade.reading.reader import Reader

    return Reader.load(model)


def show_guesses(documents: Sequence[Document]) -> None:
    """Name the files whose encoding was guessed."""
    for document in documents:
        if document.guessed:
            print(f"'{document.name}' is not Unicode; it was read as {document.encoding}.", file=sys.stderr)


def show_skipped(skipped: Sequence[Skipped]) -> None:
    """Name the files, and lines of files, that were not read, with their reasons."""
    if skipped:
        print("Not read:", file=sys.stderr)
    for each in skipped[:LISTED]:
        print(f"  {each.reason}", file=sys.stderr)
    if len(skipped) > LISTED:
        print(f"  … and {len(skipped) - LISTED:,} more", file=sys.stderr)


class AskSession:
    """A reader and the texts that its questions are about."""

    def __init__(self, reader: Reader, documents: Sequence[Document], options: AskOptions, as_json: bool) -> None:
        self.reader, self.documents, self.options, self.as_json = reader, documents, options, as_json
        self.texts = [document.joined.text for document in documents]
        held = len(reader.cut(tuple(self.texts)).windows)
        self.long = options.windows > 0 and held > 2 * options.windows  # only some windows are read for a question
        self.windows = options.windows if self.long else held

    def remember(self) -> None:
        """Encode the texts once for all questions, and print how much was read."""
        size = sum(map(len, self.texts))
        uses_encoded = self.options.decoder == "parallel" and not self.options.free
        if uses_encoded and not self.long:  # of a long text, each question reads its own windows
            with progress_bar("reading", self.windows) as done:
                self.reader.remember(self.texts, done)
        what = self.documents[0].name if len(self.documents) == 1 else f"{len(self.documents)} texts"
        print(f"Read {what}, {size:,} characters. Type your questions; an empty line ends.", file=sys.stderr)

    def answer(self, question: str, several: bool = False) -> None:
        """Print the answer to a question, which may be one of several."""
        options = self.options
        with progress_bar("passages", self.windows, shown=self.windows >= LONG) as done:
            answer = self.reader.ask_many([(question, self.texts)], **asdict(options), done=done)[0]
        if self.as_json:
            others = [self._plain(each) for each in answer.alternatives]
            print_json({"question": question, **self._plain(answer), "alternatives": others})
            return
        if several and not sys.stdin.isatty():  # the question was not typed here, so it is not on the screen
            print(f"? {question}")
        if not answer:
            print("No answer in this text.")
        for each in ([answer] if answer else []) + (list(answer.alternatives) if options.n_best > 1 else []):
            self._print(each)
        if several:
            print(flush=True)

    def _print(self, answer: Answer) -> None:
        """Print an answer with its probability, its sentence, and where that stands."""
        document, found = self.documents[answer.passage], answer.start >= 0
        start, end = document.joined.original(answer.start, answer.end) if found else (-1, -1)
        words = document.piece(start, end) if found else answer.text
        lines = [[(words, "bold"), (f"  {answer.score:.1%}", "dim")]]
        if found:
            before, after = document.around(start, end)
            lines.append([(f"  {before}", ""), (words, HIGHLIGHT), (after, "")])
        if found or len(self.documents) > 1:
            cited = f"{document.cite(start)} (characters {start}–{end})" if found else document.name
            lines.append([(f"  {cited}", "dim")])
        if not sys.stdout.isatty():
            for line in lines:
                print("".join(text for text, _ in line))
            return
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False)
        for line in lines:
            console.print(Text.assemble(*line))

    def _plain(self, answer: Answer) -> dict[str, Any]:
        """An answer as JSON; fields that it lacks are null."""
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


def questions_typed() -> Iterator[str]:
    """Questions as they are typed, until an empty line; or the lines of standard input."""
    if not sys.stdin.isatty():
        lines = (decode_utf8(line, "text of standard input").strip() for line in sys.stdin.buffer)
        yield from filter(None, lines)
        return
    with suppress(ImportError):
        import readline  # noqa: F401  (arrow keys and history)
    while question := input("? ").strip():
        yield question
