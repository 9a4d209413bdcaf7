"""What the commands ``classify``, ``tag`` and ``evaluate`` read and print."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from masquerade.files import read_texts, write_text
from masquerade.labelling.classifier import Classifier
from masquerade.labelling.records import Entity, read_classified, read_tagged
from masquerade.labelling.tagger import Tagger

COLOURS = ("black on bright_yellow", "black on bright_green", "black on bright_cyan", "black on bright_magenta",
           "white on blue", "white on red", "black on white", "white on dark_green")  # fmt: skip


def show_classes(model: str, texts: Sequence[str], pair: str | None, source: str | None, as_json: bool) -> None:
    """Print the verdict on each text."""
    classifier, given = Classifier.load(model), read_texts(texts, source, "read")
    verdicts = classifier([(text, pair) for text in given])
    if as_json:
        for text, verdict in zip(given, verdicts, strict=True):
            print(json.dumps({"text": text, **asdict(verdict)}, ensure_ascii=False))
        return
    numbers = len(classifier.model.spec.labels) == 1
    table = Table("value", "text") if numbers else Table("label", "probability", "text")
    for text, verdict in zip(given, verdicts, strict=True):
        sure = [] if numbers else [f"{verdict.score:.1%}"]
        table.add_row(Text(verdict.label), *sure, Text(text))
    Console(highlight=False).print(table)


def show_entities(model: str, texts: Sequence[str], source: str | None, as_json: bool) -> None:
    """Print each text with its entities marked."""
    tagger, given = Tagger.load(model), read_texts(texts, source, "read")
    kinds = sorted({label[2:] for label in tagger.model.spec.labels if label != "O"})
    console = Console(highlight=False)
    for text, entities in zip(given, tagger(given), strict=True):
        if as_json:
            print(json.dumps({"text": text, "entities": _named(text, entities)}, ensure_ascii=False))
            continue
        shown = Text(text)
        for entity in entities:
            shown.stylize(COLOURS[kinds.index(entity.kind) % len(COLOURS)], entity.start, entity.end)
        console.print(shown)
        for entity in entities:
            name = text[entity.start : entity.end]
            console.print(Text(f"  {entity.start:>4}–{entity.end:<4} {entity.kind}: {name}"))


def score_classifier(
    sources: Sequence[str], model: str, names: tuple[str, str, str], predictions: Path | None, as_json: bool
) -> None:
    """Print how good a classifier is."""
    classifier = Classifier.load(model)
    records = [record for source in sources for record in read_classified(source, *names)]
    with _progress(len(records)) as done:
        scores, verdicts = classifier.evaluate(records, done)
    if predictions is not None:
        pairs = zip(records, verdicts, strict=True)
        _save(predictions, ({**asdict(record), "predicted": asdict(verdict)} for record, verdict in pairs))
    _print_scores({"all": {**scores, "records": len(records)}}, as_json)


def score_tagger(sources: Sequence[str], model: str, predictions: Path | None, as_json: bool) -> None:
    """Print how good a tagger is, kind by kind."""
    tagger = Tagger.load(model)
    records = [record for source in sources for record in read_tagged(source)]
    with _progress(len(records)) as done:
        scores, found = tagger.evaluate(records, done)
    if predictions is not None:
        pairs = zip(records, found, strict=True)
        named = (
            {
                "text": record.text,
                "entities": _named(record.text, record.entities),
                "predicted": _named(record.text, each),
            }
            for record, each in pairs
        )
        _save(predictions, named)
    _print_scores(scores, as_json)


def _named(text: str, entities: Sequence[Entity]) -> list[dict[str, object]]:
    return [{**asdict(entity), "text": text[entity.start : entity.end]} for entity in entities]


def _save(path: Path, records: Iterable[Mapping[str, object]]) -> None:
    write_text(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def _print_scores(scores: dict[str, dict[str, float]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(scores, ensure_ascii=False))
        return
    columns = next(iter(scores.values()))
    table = Table("", *(name.replace("_", " ") for name in columns))
    for kind, values in scores.items():
        table.add_row(
            Text(kind), *(f"{value:.4f}" if isinstance(value, float) else f"{value:,}" for value in values.values())
        )
    Console(highlight=False).print(table)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar that is told how many more are done."""
    columns = (TextColumn("reading"), MofNCompleteColumn(), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("read", total=total)
        yield lambda count: progress.update(task, advance=count)
