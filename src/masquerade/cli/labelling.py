"""Commands that classify and tag texts."""

from __future__ import annotations

from typing import Annotated

import typer

from masquerade.cli.app import (
    Changes,
    InFile,
    Json,
    JudgeName,
    MemoryName,
    ModelName,
    Panel,
    Predictions,
    RecipeName,
    Resume,
    app,
    evaluate,
    train,
)
from masquerade.cli.recipes import recipe_file
from masquerade.cli.working import check_judge
from masquerade.errors import MasqueradeError


@app.command(rich_help_panel=Panel.LABEL)
def classify(
    model: ModelName,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to classify.")] = None,
    pair: Annotated[str | None, typer.Option(help="A second text, for classifiers of text pairs.")] = None,
    source: InFile = None,
    memory: MemoryName = None,
    judge: JudgeName = None,
    as_json: Json = False,
) -> None:
    """Classify texts, each with its probability.

    [dim]masquerade classify --model runs/sst2 "A charming and often affecting journey."[/dim]
    [dim]masquerade classify --model runs/long --memory cogltx --in documents.txt[/dim]
    """
    check_judge(memory, judge)
    if memory is not None:
        from masquerade.cli.show.working import classify_with_memory

        if pair is not None:
            raise MasqueradeError("--memory is for long texts, not for pairs; leave --pair out.")
        classify_with_memory(model, texts or [], source, memory, judge, as_json)
        return
    from masquerade.cli.show.labels import show_classes

    show_classes(model, texts or [], pair, source, as_json)


@app.command(rich_help_panel=Panel.LABEL)
def tag(
    model: ModelName,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to find entities in.")] = None,
    source: InFile = None,
    memory: MemoryName = None,
    judge: JudgeName = None,
    as_json: Json = False,
) -> None:
    """Find the entities in texts.

    [dim]masquerade tag --model runs/cluener "彭小军在台湾的银行工作。"[/dim]
    """
    check_judge(memory, judge)
    if memory is not None:
        from masquerade.cli.show.working import tag_with_memory

        tag_with_memory(model, texts or [], source, memory, judge, as_json)
        return
    from masquerade.cli.show.labels import show_entities

    show_entities(model, texts or [], source, as_json)


@train.command("classifier")
def train_classifier(recipe: RecipeName, changes: Changes = None, resume: Resume = False) -> None:
    """Train a classifier of texts or of text pairs; with regression=true, one that predicts numbers.

    Data: records in .tsv, .csv, .json, .jsonl or .parquet files, or a hub data set.

    [dim]masquerade train classifier classifier start=bert train=train.tsv held_out=dev.tsv[/dim]
    """
    from masquerade.labelling.training import TrainClassifier
    from masquerade.training.loop import Run
    from masquerade.training.recipe import FineTuning, read_recipe

    Run(TrainClassifier(read_recipe(recipe_file(recipe), FineTuning, changes or [])), resume).train()


@train.command("tagger")
def train_tagger(recipe: RecipeName, changes: Changes = None, resume: Resume = False) -> None:
    """Train a tagger that finds entities in texts.

    Data: records with a text and its entities (kind, start, end), CLUENER's labels, or tokens with BIO tags; or a
    text file with one token and its tag per line.

    [dim]masquerade train tagger tagger start=bert-zh train=train.json held_out=dev.json[/dim]
    """
    from masquerade.labelling.training import TrainTagger
    from masquerade.training.loop import Run
    from masquerade.training.recipe import FineTuning, read_recipe

    Run(TrainTagger(read_recipe(recipe_file(recipe), FineTuning, changes or [])), resume).train()


@evaluate.command("classifier")
def evaluate_classifier(
    records: Annotated[list[str], typer.Argument(help="Files or hub data sets of labelled records.")],
    model: ModelName,
    text: Annotated[str, typer.Option(help="The field of the text, if it is not found by its name.")] = "",
    pair: Annotated[str, typer.Option(help="The field of the second text.")] = "",
    label: Annotated[str, typer.Option(help="The field of the label.")] = "",
    predictions: Predictions = None,
    as_json: Json = False,
) -> None:
    """Print accuracy and F1 of a classifier, or the correlations of one that predicts numbers.

    [dim]masquerade evaluate classifier dev.tsv --model runs/sst2[/dim]
    """
    from masquerade.cli.show.labels import score_classifier

    score_classifier(records, model, (text, pair, label), predictions, as_json)


@evaluate.command("tagger")
def evaluate_tagger(
    records: Annotated[list[str], typer.Argument(help="Files or hub data sets of tagged records.")],
    model: ModelName,
    predictions: Predictions = None,
    as_json: Json = False,
) -> None:
    """Print precision, recall and F1 of a tagger, for each kind of entity and for all of them.

    [dim]masquerade evaluate tagger dev.json --model runs/cluener[/dim]
    """
    from masquerade.cli.show.labels import score_tagger

    score_tagger(records, model, predictions, as_json)
