"""What the commands ``classify``, ``tag`` and ``evaluate`` read and print."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from masquerade.cli.show.output import print_json
from masquerade.files import read_texts, write_text
from masquerade.labelling.classifier import Classifier
from masquerade.labelling.records import Entity, read_classified, read_tagged
from masquerade.labelling.tagger import Tagger
from masquerade.progress import progress_bar

COLOURS = ("black on bright_yellow", "black on bright_green", "black on bright_cyan", "black on bright_magenta",
           "white on blue", "white on red", "black on white", "white on dark_green")  # fmt: skip


def show_classes(model: str, texts: Sequence[str], pair: str | None, source: str | None, as_json: bool) -> None:
    """Print the predicted label of each text."""
    classifier, given = Classifier.load(model), read_texts(texts, source, "read")
    predictions = classifier([(text, pair) for text in given])
    if as_json:
        for text, predicted in zip(given, predictions, strict=True):
            print_json({"text": text, **asdict(predicted)})
        return
    numbers = len(classifier.model.spec.labels) == 1
    table = Table("value", "text") if numbers else Table("label", "probability", "text")
    for text, predicted in zip(given, predictions, strict=True):
        probability = [] if numbers else [f"{predicted.score:.1%}"]
        table.add_row(Text(predicted.label or "none"), *probability, Text(text))
    Console(highlight=False).print(table)


def show_entities(model: str, texts: Sequence[str], source: str | None, as_json: bool) -> None:
    """Print each text with its entities marked."""
    tagger, given = Tagger.load(model), read_texts(texts, source, "read")
    print_entities(given, tagger(given), tagger.model.spec.labels, as_json)


def print_entities(
    texts: Sequence[str], found: Sequence[Sequence[Entity]], labels: Sequence[str], as_json: bool
) -> None:
    """Print texts with their entities marked; ``labels`` are the tags of the tagger."""
    kinds = sorted({label[2:] for label in labels if label != "O"})
    console = Console(highlight=False)
    for text, entities in zip(texts, found, strict=True):
        if as_json:
            print_json({"text": text, "entities": _named(text, entities)})
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
    """Print the scores of a classifier."""
    classifier = Classifier.load(model)
    records = [record for source in sources for record in read_classified(source, *names)]
    with progress_bar("texts", len(records)) as done:
        scores, found = classifier.evaluate(records, done)
    if predictions is not None:
        pairs = zip(records, found, strict=True)
        _save(predictions, ({**asdict(record), "predicted": asdict(each)} for record, each in pairs))
    _print_scores({"all": {**scores, "records": len(records)}}, as_json)


def score_tagger(sources: Sequence[str], model: str, predictions: Path | None, as_json: bool) -> None:
    """Print the scores of a tagger, for each kind of entity and for all."""
    tagger = Tagger.load(model)
    records = [record for source in sources for record in read_tagged(source)]
    with progress_bar("texts", len(records)) as done:
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
        print_json(scores)
        return
    columns = next(iter(scores.values()))
    table = Table("", *(name.replace("_", " ") for name in columns))
    for kind, values in scores.items():
        table.add_row(
            Text(kind), *(f"{value:.4f}" if isinstance(value, float) else f"{value:,}" for value in values.values())
        )
    Console(highlight=False).print(table)
