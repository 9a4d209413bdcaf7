"""What ``ask``, ``classify`` and ``tag`` with ``--memory`` read and print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from masquerade.checkpoints.folders import locate
from masquerade.cli.show.ask import AskOptions, AskSession, load_reader, questions_typed, show_skipped
from masquerade.cli.show.labels import print_entities
from masquerade.cli.show.output import print_json
from masquerade.documents.document import Document, language
from masquerade.documents.folders import read_documents
from masquerade.errors import MasqueradeError
from masquerade.files import read_texts
from masquerade.labelling.classifier import Classifier
from masquerade.labelling.tagger import Tagger
from masquerade.memory.working.judge import FOLDER, Judge
from masquerade.memory.working.reasoners import MemoryClassifier, MemoryReader, MemoryTagger
from masquerade.memory.working.selection import ShortText, WorkingMemory
from masquerade.progress import progress_bar
from masquerade.reading.answers import Answer
from masquerade.reading.reader import Reader

MEMORIES = ("cogltx",)
SHOWN = 90  # characters of a kept block


def check_memory(name: str) -> None:
    """An error for a memory that does not exist."""
    if name not in MEMORIES:
        raise MasqueradeError(f"There is no memory '{name}'; choose from {', '.join(MEMORIES)}.")


def load_judge(model: str | None, judge: str | None) -> Judge:
    """The judge that was named, or the one in the model's folder."""
    if judge is not None:
        return Judge.load(judge)
    if model is None or not (locate(model) / FOLDER / "config.json").is_file():
        raise MasqueradeError(
            f"The model '{model or 'that is used by default'}' has no judge; give one by --judge, or a run of "
            "'masquerade train cogltx' by --model."
        )
    return Judge.load(model)


class MemorySession(AskSession):
    """A reader with a judge, and the texts that its questions are about."""

    def __init__(
        self, reader: Reader, judge: Judge, documents: Sequence[Document], options: AskOptions, as_json: bool
    ) -> None:
        super().__init__(reader, documents, replace(options, windows=1), as_json)
        self.memory = MemoryReader(reader, WorkingMemory(judge))

    def answer(self, question: str, several: bool = False) -> None:
        """Print the answer to a question, and the blocks that were read for it."""
        options = self.options
        answer, short = self.memory.ask(question, self.texts, options.n_best, options.decoder, options.threshold)
        if self.as_json:
            others = [self._plain(each) for each in answer.alternatives]
            kept = [self._plain(block_answer(short, number, self.texts)) for number in range(len(short.blocks))]
            said = {"blocks": short.total, "judged": short.judged, "kept": kept}
            print_json({"question": question, **self._plain(answer), "alternatives": others, "memory": said})
            return
        if several and not sys.stdin.isatty():
            print(f"? {question}")
        if not answer:
            print("No answer in this text.")
        for each in ([answer] if answer else []) + (list(answer.alternatives) if options.n_best > 1 else []):
            self._print(each)
        print_kept(short, self.texts)
        if several:
            print(flush=True)


def block_answer(short: ShortText, number: int, texts: Sequence[str]) -> Answer:
    """A kept block in the form of an answer: its words, its score and its place."""
    block = short.blocks[number]
    score = short.scores[number] if short.scores else 1.0
    return Answer(texts[block.text][block.start : block.end], score, block.text, block.start, block.end)


def print_kept(short: ShortText, texts: Sequence[str]) -> None:
    """Print which blocks were kept, with their scores, on standard error."""
    console = Console(stderr=True, highlight=False)
    if short.whole:
        console.print("The whole text fits into the window.")
        return
    said = f"{len(short.blocks)} of {short.total:,} blocks kept"
    if short.judged < short.total:
        said += f"; {short.judged:,} were judged, the others share fewer words with the question"
    console.print(f"{said}:")
    for number in range(len(short.blocks)):
        block = block_answer(short, number, texts)
        words = " ".join(block.text.split())
        console.print(Text(f"  {block.score:.2f}  {words if len(words) <= SHOWN else words[:SHOWN] + '…'}"))


def ask_with_memory(
    question: str | None,
    sources: Sequence[str],
    model: str | None,
    memory: str,
    judge: str | None,
    options: AskOptions,
    as_json: bool,
) -> None:
    """Print the answer to a question from what a judge keeps of long texts."""
    check_memory(memory)
    if options.free or options.vote != "best":
        raise MasqueradeError("With --memory, blocks of all texts are read as one; leave --free and --vote out.")
    if question is not None and not question.strip():
        raise MasqueradeError("The question is empty; give a question.")
    loaded = load_judge(model, judge)
    loaded.progress = True
    documents, skipped = read_documents(sources)
    reader = load_reader(model or language(question or "", *(each.text for each in documents)))
    session = MemorySession(reader, loaded, documents, options, as_json)
    for each in [question] if question is not None else questions_typed():
        session.answer(each, several=question is None)
    show_skipped(skipped)


def classify_with_memory(
    model: str, texts: Sequence[str], source: str | None, memory: str, judge: str | None, as_json: bool
) -> None:
    """Print the predicted label of each text, from what a judge keeps of it."""
    check_memory(memory)
    loaded, given = load_judge(model, judge), read_texts(texts, source, "read")
    classifier = MemoryClassifier(Classifier(Classifier.load(model).model, loaded.window), WorkingMemory(loaded))
    with progress_bar("texts", len(given)) as done:
        found = classifier(given, done)
    if as_json:
        for text, (predicted, short) in zip(given, found, strict=True):
            said = {"blocks": short.total, "judged": short.judged, "read": short.text}
            print_json({"text": text, **asdict(predicted), "memory": said})
        return
    table = Table("label", "probability", "blocks read", "text")
    for text, (predicted, short) in zip(given, found, strict=True):
        read = f"{len(short.blocks)} of {short.total:,}"
        read += f", {short.judged:,} judged" if short.judged < short.total else ""
        table.add_row(Text(predicted.label or "none"), f"{predicted.score:.1%}", read, Text(text[:SHOWN]))
    Console(highlight=False).print(table)


def tag_with_memory(
    model: str, texts: Sequence[str], source: str | None, memory: str, judge: str | None, as_json: bool
) -> None:
    """Print the entities of each text; every part is read with what a judge keeps of the others."""
    check_memory(memory)
    loaded, given = load_judge(model, judge), read_texts(texts, source, "read")
    tagger = Tagger(Tagger.load(model).model, loaded.window)
    with progress_bar("texts", len(given)) as done:
        found = MemoryTagger(tagger, WorkingMemory(loaded))(given, done)
    print_entities(given, found, tagger.model.spec.labels, as_json)
