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
from masquerade.reading.shipped import SHIPPED, shipped

if TYPE_CHECKING:
    from masquerade.reading.answers import Answer
    from masquerade.reading.explained import Explanation
    from masquerade.reading.languages import LanguageReaders
    from masquerade.reading.reader import Reader

HIGHLIGHT = "bold black on bright_yellow"  # the answer in its sentence
LISTED = 20  # files that were not read are named, up to this many
SHOWN = 100  # characters of a part that was read
HEADS = {"words": "vocabulary at the slots", "copies": "slots copy tokens", "pointers": "first and last token"}
LONG = 24  # windows; with at least this many, an answer takes long enough for a progress bar

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AskOptions:
    """How questions are answered; the parameters of ``Reader.ask``."""

    n_best: int = 1
    vote: str = "best"
    decoder: str = "parallel"
    free: bool = False
    windows: int = 16  # as masquerade.reading.reader.WINDOWS, which is not imported here, because it imports torch
    threshold: float | None = None


def show_answers(
    question: str | None,
    sources: Sequence[str],
    model: str | None,
    options: AskOptions,
    as_json: bool,
    explain: bool = False,
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
    _show_guesses(documents)
    reader = load_readers(model, question or "", documents)
    session = AskSession(reader, documents, options, as_json, explain)
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


def load_readers(model: str | None, question: str, documents: Sequence[Document]) -> Reader | LanguageReaders:
    """The reader that was named, or the shipped one for the language of the question or the texts; if these have
    several languages, a reader for each of them."""
    names = sorted({language(question, each.text) for each in documents})
    if model is not None or len(names) < 2:
        return load_reader(model or names[0])
    for name in names:
        shipped(name)
    log.info("readers: %s, chosen by the languages of question and texts", ", ".join(names))
    from masquerade.reading.languages import LanguageReaders

    return LanguageReaders()


def load_reader(model: str) -> Reader:
    """The reader of that name."""
    if model in SHIPPED:
        shipped(model)
        log.info("reader: %s", model)
    from masquerade.reading.reader import Reader

    return Reader.load(model)


def _show_guesses(documents: Sequence[Document]) -> None:
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

    def __init__(
        self,
        reader: Reader | LanguageReaders,
        documents: Sequence[Document],
        options: AskOptions,
        as_json: bool,
        explain: bool = False,
    ) -> None:
        self.reader, self.documents, self.options, self.as_json = reader, documents, options, as_json
        self.explain = explain
        self.texts = [document.joined.text for document in documents]
        held = reader.windows(self.texts)
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
        hint = " Type your questions; an empty line ends." if sys.stdin.isatty() else ""
        print(f"Read {what}, {size:,} characters.{hint}", file=sys.stderr)

    def answer(self, question: str, several: bool = False) -> None:
        """Print the answer to a question, which may be one of several."""
        options = self.options
        with progress_bar("passages", self.windows, shown=self.windows >= LONG) as done:
            answer = self.reader.ask_many([(question, self.texts)], **asdict(options), done=done)[0]
        if self.as_json:
            others = [self._plain(each) for each in answer.alternatives]
            said = self._explanation(question).plain() if self.explain else {}
            print_json({"question": question, **self._plain(answer), "alternatives": others, **said})
            return
        if several and not sys.stdin.isatty():  # the question was not typed here, so it is not on the screen
            print(f"? {question}")
        if not answer:
            print("No answer in this text.")
        for each in ([answer] if answer else []) + (list(answer.alternatives) if options.n_best > 1 else []):
            self._print(each)
        if self.explain:
            self._explain(question)
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

    def _explanation(self, question: str) -> Explanation:
        from masquerade.reading.explained import explain

        return explain(self.reader, question, self.texts, self.options.windows)

    def _explain(self, question: str) -> None:
        """Print which parts of the texts were read, and what each head answers by itself."""
        said = self._explanation(question)
        print(f"Read {said.characters:,} of {sum(map(len, self.texts)):,} characters:")
        for part in said.parts[:LISTED]:
            document, words = (
                self.documents[part.passage],
                " ".join(self.texts[part.passage][part.start : part.end].split()),
            )
            start, _ = document.joined.original(part.start, part.end)
            print(f"  {document.cite(start)}  {words if len(words) <= SHOWN else words[:SHOWN] + '…'}")
        if len(said.parts) > LISTED:
            print(f"  … and {len(said.parts) - LISTED:,} more parts")
        print("The heads, each alone:")
        for name, answer in said.heads.items():
            print(f"  {HEADS[name]:<28}{answer.text or 'no answer'}  {answer.score:.1%}")

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
