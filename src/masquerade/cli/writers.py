"""Commands that write a text for a text: titles, summaries, and whatever a writer was trained for."""

from __future__ import annotations

from typing import Annotated

import typer

from masquerade.cli.app import Changes, Json, Panel, Predictions, RecipeName, Resume, app, evaluate, train
from masquerade.cli.recipes import recipe_file

Files = Annotated[
    list[str],
    typer.Argument(help="Files (text, .md, .html, .pdf, .docx …), folders, globs, or - for standard input."),
]
WriterName = Annotated[str, typer.Option("--model", "-m", help="The folder of a writer or run, or a hub id.")]
Task = Annotated[str, typer.Option(help="The task, for a writer that was trained for several.")]
PrefixText = Annotated[str | None, typer.Option("--prefix", help="A text before each source, as 'summarize: '.")]
MethodName = Annotated[
    str | None,
    typer.Option(
        help="beam (the default), greedy, sample; for a writer trained with both masks also parallel, mask-predict, "
        "blocks, mixture and rerank."
    ),
]
Beams = Annotated[int | None, typer.Option(help="Number of beams.")]
NBest = Annotated[int, typer.Option(min=1, help="Number of texts to print for each source, best first.")]
MaxLength = Annotated[int | None, typer.Option("--length", help="The most tokens of a text.")]
Gamma = Annotated[
    float | None, typer.Option(help="The weight of the parallel half, 0 to 1, of a γ-mixture or of --method mixture.")
]
Windows = Annotated[
    bool, typer.Option("--windows", help="Write for all windows of a long text, not only for its beginning.")
]


@app.command(rich_help_panel=Panel.WRITE)
def write(
    files: Files,
    model: WriterName,
    task: Task = "",
    prefix: PrefixText = None,
    method: MethodName = None,
    beams: Beams = None,
    length: MaxLength = None,
    n_best: NBest = 1,
    gamma: Gamma = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of --method sample.")] = None,
    windows: Windows = False,
    as_json: Json = False,
) -> None:
    """Write a text for each file, by a writer trained with 'train writer', or by T5, BART, PEGASUS and the like.

    On a terminal, greedy and sample print each token as it is written.

    [dim]masquerade write letter.txt --model runs/translate --n-best 3[/dim]
    [dim]masquerade write article.txt --model t5-small --prefix "summarize: "[/dim]
    """
    from masquerade.cli.show.writers import show_written

    settings = {"beams": beams, "max_new": length, "gamma": gamma, "seed": seed}
    advice = "Use --windows to write for all of it."
    show_written(files, model, method, task, prefix, n_best, windows, advice, settings, as_json)


@app.command(rich_help_panel=Panel.WRITE)
def title(
    files: Files,
    model: WriterName = "title-en",
    beams: Beams = None,
    length: MaxLength = None,
    n_best: NBest = 1,
    as_json: Json = False,
) -> None:
    """Write a title for each file, from its beginning.

    [dim]masquerade title examples/abstract.txt --n-best 3[/dim]
    [dim]masquerade title news/*.txt --model runs/titles-zh --json[/dim]
    """
    from masquerade.cli.show.writers import show_written

    settings = {"beams": beams, "max_new": length}
    show_written(files, model, None, "", None, n_best, False, None, settings, as_json)


@app.command(rich_help_panel=Panel.WRITE)
def summarize(
    files: Files,
    model: WriterName,
    task: Task = "",
    prefix: PrefixText = None,
    beams: Beams = None,
    length: MaxLength = None,
    n_best: NBest = 1,
    as_json: Json = False,
) -> None:
    """Write a summary of each file: of all its windows, one after the other, if it is longer than the model.

    [dim]masquerade summarize report.pdf --model runs/summaries[/dim]
    """
    from masquerade.cli.show.writers import show_written

    settings = {"beams": beams, "max_new": length}
    advice = "Leave --n-best out to have all of it summarized."
    show_written(files, model, None, task, prefix, n_best, n_best == 1, advice, settings, as_json)


@train.command("writer")
def train_writer(recipe: RecipeName, changes: Changes = None, resume: Resume = False) -> None:
    """Train a writer, which writes a target for a source: titles, summaries, translations …

    Data: pairs in .jsonl, .json, .tsv, .csv or .parquet files, or a hub data set. The columns are found by their usual
    names (text, abstract, article …; title, summary, target …), or are set by source=… and target=….
    It starts from a BERT, or from any checkpoint that writes: start=t5-small.

    [dim]masquerade train writer writer-title-en train=train.jsonl held_out=dev.jsonl[/dim]
    [dim]masquerade train writer writer-title-en train=news.tsv source=2 target=1 start=t5-small[/dim]
    """
    import logging

    from masquerade.training.loop import Run
    from masquerade.training.recipe import read_recipe
    from masquerade.writing.training import TrainWriter, Writing

    logging.basicConfig(level=logging.WARNING, format="%(message)s")  # pairs that are left out are named
    Run(TrainWriter(read_recipe(recipe_file(recipe), Writing, changes or [])), resume).train()


@evaluate.command("writer")
def evaluate_writer(
    records: Annotated[list[str], typer.Argument(help="Files or hub data sets of pairs.")],
    model: Annotated[str | None, typer.Option("--model", "-m", help="The folder of a writer or run, or a hub id.")] = (
        None
    ),
    baseline: Annotated[
        str | None, typer.Option(help="Instead of a model: lead (the first sentence) or words (the first words).")
    ] = None,
    source: Annotated[str, typer.Option(help="The field or column of the source, if not found by its name.")] = "",
    target: Annotated[str, typer.Option(help="The field or column of the target.")] = "",
    task: Task = "",
    prefix: PrefixText = None,
    method: MethodName = None,
    beams: Beams = None,
    length: MaxLength = None,
    gamma: Gamma = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Number of pairs to use, from the first on.")] = None,
    predictions: Predictions = None,
    worst: Annotated[int | None, typer.Option(min=1, help="Print this many texts with the lowest ROUGE-L.")] = None,
    as_json: Json = False,
) -> None:
    """Print ROUGE-1, -2 and -L, BLEU, the share of 3-grams copied from the source, and the mean length.

    Words are compared; for Chinese, characters. ROUGE is the F1 of words in lower case, without stemming.

    [dim]masquerade evaluate writer dev.jsonl --model runs/title-en --worst 50 --predictions titles.jsonl[/dim]
    [dim]masquerade evaluate writer dev.jsonl --baseline lead[/dim]
    """
    from masquerade.cli.show.writers import WriterEvaluation, score_writer

    settings = {"beams": beams, "max_new": length, "gamma": gamma}
    evaluation = WriterEvaluation(records, (source, target), limit, task, prefix, method, settings)
    score_writer(model, baseline, evaluation, predictions, worst, as_json)
