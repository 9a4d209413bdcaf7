"""What the commands ``write``, ``title``, ``summarize`` and ``evaluate writer`` read and print."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from masquerade.cli.show.ask import show_skipped
from masquerade.cli.show.output import print_json
from masquerade.documents.document import Document
from masquerade.documents.folders import read_documents
from masquerade.errors import MasqueradeError
from masquerade.files import write_text
from masquerade.progress import progress_bar
from masquerade.writing.baselines import BASELINES
from masquerade.writing.pairs import TextPair, read_pairs
from masquerade.writing.writer import Writer, WrittenText, scored

STREAMED = ("greedy", "sample")
UNKNOWN = 0.3  # the share of unknown characters from which on a writer is not made for a text
SCORES = {
    "rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "rouge_l": "ROUGE-L", "bleu": "BLEU", "copied": "copied 3-grams",
    "length": "length",
}  # fmt: skip


def show_written(
    files: Sequence[str],
    model: str,
    method: str | None,
    task: str,
    prefix: str | None,
    n_best: int,
    windows: bool,
    advice: str | None,
    settings: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Print the text that a writer writes for each file. Settings that are None keep their defaults. With ``windows``
    all windows of a long file are read; without, the ``advice`` for a file that is longer than the model is printed, or
    nothing if it is None: then the beginning of a file is meant to be enough."""
    documents, skipped = read_documents(files)
    for document in documents:
        if document.guessed:
            print(f"'{document.name}' is not Unicode; it was read as {document.encoding}.", file=sys.stderr)
    if windows and n_best > 1:
        raise MasqueradeError("--windows and --n-best exclude each other; leave one of them out.")
    writer, console = Writer.load(model), Console(highlight=False)
    chosen = {name: value for name, value in settings.items() if value is not None} | {"task": task, "prefix": prefix}
    texts = [document.joined.text for document in documents]
    several = len(texts) > 1
    if method in STREAMED and console.is_terminal and not several and n_best == 1 and not (windows or as_json):
        for piece in writer.stream(texts[0], method, **chosen):
            print(piece, end="", flush=True)
        print()
        source = writer.read(texts[0], task=task, prefix=prefix, max_new=chosen.get("max_new"))
        _notices(documents[0], source.unread, source.unknown, advice)
    else:
        with progress_bar("texts", len(texts), shown=several) as done:
            if windows:
                for document, text in zip(documents, texts, strict=True):
                    _show(console, document, writer.write_windows(text, method, **chosen), several, None, as_json)
                    done(1)
            else:
                each = writer.each(texts, method, n_best=n_best, done=done, **chosen)
                for document, found in zip(documents, each, strict=True):
                    _show(console, document, found, several, advice, as_json)
    show_skipped(skipped)


def _show(
    console: Console, document: Document, found: WrittenText, several: bool, advice: str | None, as_json: bool
) -> None:
    """Print the text, or the texts, for one file, and what there is to notice."""
    _notices(document, found.unread, found.unknown, None if as_json else advice)
    if as_json:
        others = [{"text": each.text, "score": each.score, "ended": each.ended} for each in found.alternatives]
        about = {"file": document.name, "text": found.text, "score": found.score, "ended": found.ended}
        print_json({**about, "unread": found.unread, "unknown": found.unknown, "alternatives": others})
        return
    if several:
        console.print(Text(document.name, "dim"))
    for each in (found, *found.alternatives):
        score = f"{each.score:7.3f}  " if found.alternatives else ""
        print(f"{score}{each.text}", flush=True)


def _notices(document: Document, unread: int, unknown: float, advice: str | None) -> None:
    """Print that the writer is not made for a file, or that it did not read all of it."""
    if unknown >= UNKNOWN:
        print(
            f"masquerade: this writer does not know {unknown:.0%} of the characters of '{document.name}'; "
            "use one that was trained on such texts.",
            file=sys.stderr,
        )
    if unread and advice is not None:
        print(
            f"masquerade: '{document.name}' is longer than the model reads; its last {unread:,} tokens were not read. "
            f"{advice}",
            file=sys.stderr,
        )


@dataclass(frozen=True)
class WriterEvaluation:
    """What ``evaluate writer`` scores, and how texts are written."""

    sources: Sequence[str]
    names: tuple[str, str] = ("", "")
    limit: int | None = None
    task: str = ""
    prefix: str | None = None
    method: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def read(self) -> list[TextPair]:
        """The pairs. What is left out is named."""
        pairs = list[TextPair]()
        for source in self.sources:
            file = read_pairs(source, *self.names)
            for note in file.notes:
                print(f"masquerade: {note}", file=sys.stderr)
            pairs += file.pairs
        return pairs[: self.limit]


def score_writer(
    model: str | None,
    baseline: str | None,
    evaluation: WriterEvaluation,
    predictions: Path | None,
    worst: int | None,
    as_json: bool,
) -> None:
    """Print the scores of a writer or of a baseline, and the texts with the lowest ones."""
    if (model is None) == (baseline is None):
        raise MasqueradeError("Give the writer with --model, or a baseline with --baseline.")
    if baseline is not None and baseline not in BASELINES:
        raise MasqueradeError(f"There is no baseline '{baseline}'; choose from {', '.join(BASELINES)}.")
    pairs, begun = evaluation.read(), time.monotonic()
    if baseline is not None:
        texts = [BASELINES[baseline](pair.source) for pair in pairs]
        written = [WrittenText(text, 0.0, True) for text in texts]
    else:
        writer = Writer.load(str(model))
        chosen = {name: value for name, value in evaluation.settings.items() if value is not None}
        chosen |= {"task": evaluation.task, "prefix": evaluation.prefix, "method": evaluation.method}
        begun = time.monotonic()
        with progress_bar("texts", len(pairs)) as done:
            written = writer.write_many([pair.source for pair in pairs], done=done, **chosen)
    taken = time.monotonic() - begun
    scores = scored(pairs, [each.text for each in written])
    rows = [
        {"source": pair.source, "target": pair.target, "text": text.text, "score": text.score, **each}
        for pair, text, each in zip(pairs, written, scores.each, strict=True)
    ]
    lowest = sorted(rows, key=lambda row: float(str(row["rouge_l"])))
    if predictions is not None:
        saved = rows if worst is None else lowest
        write_text(predictions, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in saved))
    if as_json:
        listed = {} if worst is None else {"worst": lowest[:worst]}
        print_json({"pairs": len(pairs), "texts_per_second": len(pairs) / max(taken, 1e-9), **scores.total, **listed})
        return
    console = Console(highlight=False)
    console.print(f"{len(pairs):,} pairs, {len(pairs) / max(taken, 1e-9):,.1f} texts/s")
    table = Table("score", "value")
    for name, value in scores.total.items():
        table.add_row(SCORES[name], f"{value:.2f}")
    console.print(table)
    if worst is not None:
        table = Table("written", "target", "ROUGE-L")
        for row in lowest[:worst]:
            table.add_row(Text(str(row["text"])), Text(str(row["target"])), f"{row['rouge_l']:.1f}")
        console.print(table)
