"""Commands that answer questions from texts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from masquerade.cli.app import Changes, Decoder, Json, ModelName, Predictions, RecipeFile, Resume, app, evaluate, train


class AskCommand(TyperCommand):
    """A command whose --in takes several files at once, as the *.txt of a shell gives them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Words behind a file of --in belong to it as well, as long as they are files."""
        spread = args[:2]
        for word in args[2:]:
            is_file = word == "-" or (not word.startswith("-") and os.path.exists(word))  # of a name of any length
            spread += ["--in", word] if spread[-2] == "--in" and is_file else [word]
        return super().parse_args(ctx, spread)


@app.command(cls=AskCommand)
def ask(
    question: Annotated[str | None, typer.Argument(help="What you want to know from the texts.")] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--in",
            metavar="FILE …",
            help="Files (text, .md, .html, .pdf, .docx, .csv, .json …), folders, globs, or - for standard input.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="en, zh, a reader's or run's folder, or a hub id; else as suits the text."),
    ] = None,
    n_best: Annotated[int, typer.Option(help="How many answers, the best one first.")] = 1,
    decoder: Decoder = "parallel",
    vote: Annotated[
        str, typer.Option(help="Of several texts: best, the surest one says it; all, they say it together.")
    ] = "best",
    free: Annotated[bool, typer.Option("--free", help="Any words, not only a piece of the text.")] = False,
    as_json: Json = False,
) -> None:
    """Answer a question from your texts, with how sure that is and where it stands.

    Without a question it asks you for questions, or takes those of a pipe, a line each; the texts are read only once.

    [dim]masquerade ask "When was the stone found?" --in examples/rosetta.txt[/dim]
    [dim]masquerade ask "都江堰是谁修建的？" --in examples/dujiangyan.txt --n-best 3[/dim]
    [dim]masquerade ask "Who signed it?" --in contracts "letters/*.pdf"[/dim]
    [dim]masquerade ask --in notes report.md[/dim]
    """
    from masquerade.cli.show.answers import How, show_answers

    show_answers(question, source or [], model, How(n_best, vote, decoder, free), as_json)


@app.command()
def questions(
    texts: Annotated[list[str], typer.Argument(help="Text, JSON lines or Parquet files, or hub data sets.")],
    out: Annotated[Path, typer.Option(help="The file for the questions, JSON lines as 'train reader' takes them.")],
    count: Annotated[int, typer.Option(help="How many at most.")] = 10000,
    each: Annotated[int, typer.Option(help="How many of a passage at most.")] = 4,
    passages: Annotated[int, typer.Option(help="Of how many passages of a document at most.")] = 8,
    length: Annotated[int, typer.Option(help="Letters of a passage; a Chinese character counts as two.")] = 900,
    seed: Annotated[int, typer.Option(help="Another seed, other questions.")] = 0,
) -> None:
    """Make questions of your own texts, to train a reader on before, or beside, real ones.

    Half of them ask for words that stand twice in a passage, half for a date, a number or a name of one sentence.

    [dim]masquerade questions corpus.jsonl --count 5000 --out clozes.jsonl[/dim]
    [dim]masquerade train reader recipes/reader-en.toml train=clozes.jsonl out=runs/first[/dim]
    """
    from masquerade.cli.show.answers import make_questions

    make_questions(texts, out, count, each, passages, length, seed)


@train.command("reader")
def train_reader(recipe: RecipeFile, changes: Changes = None, resume: Resume = False) -> None:
    """Train a reader that answers questions from passages, in one parallel step or word by word.

    Questions come as SQuAD, CMRC 2018, WebQA or SogouQA files, as JSON lines, or from the hub.

    [dim]masquerade train reader recipes/reader-en.toml start=bert train=squad.json held_out=dev.json[/dim]
    """
    from masquerade.reading.training import Reading, TrainReader
    from masquerade.training.loop import Run
    from masquerade.training.recipe import read_recipe

    Run(TrainReader(read_recipe(recipe, Reading, changes or [])), resume).train()


@evaluate.command("reader")
def evaluate_reader(
    records: Annotated[list[str], typer.Argument(help="Files or hub data sets with questions, passages and answers.")],
    model: ModelName,
    metric: Annotated[str | None, typer.Option(help="squad, cmrc or sogouqa; else as suits the questions.")] = None,
    decoder: Decoder = "parallel",
    vote: Annotated[str | None, typer.Option(help="best or all; all, if questions have several passages.")] = None,
    accepted: Annotated[Path | None, typer.Option(help="SogouQA's file of accepted answers.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many questions, the first ones.")] = None,
    predictions: Predictions = None,
    worst: Annotated[
        int | None, typer.Option(min=1, help="Print the worst so many; they are saved first, too.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a reader as SQuAD, CMRC 2018 or SogouQA do, and see which questions it is worst at.

    Questions come in the formats that train reader takes.

    [dim]masquerade evaluate reader dev.json --model en --worst 10 --predictions answers.jsonl[/dim]
    [dim]masquerade evaluate reader sogouqa.json --model zh --accepted gold.txt[/dim]
    """
    from masquerade.cli.show.answers import Exam, score_reader

    exam = Exam(records, metric, decoder, vote, accepted, limit)
    score_reader(model, exam, predictions, worst, as_json)
