"""Commands that answer questions from texts."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from masquerade.cli.app import (
    Changes,
    Decoder,
    Json,
    JudgeName,
    MemoryName,
    ModelName,
    Panel,
    Predictions,
    RecipeName,
    Resume,
    Texts,
    app,
    evaluate,
    train,
)
from masquerade.cli.collections import Dense, Where
from masquerade.cli.recipes import recipe_file
from masquerade.cli.working import check_judge
from masquerade.errors import MasqueradeError


class AskCommand(TyperCommand):
    """A command whose --in takes several files, as a shell expands *.txt."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Arguments after a file of --in are files of --in too, as long as they exist; so are globs of such files."""
        spread = args[:2]
        for word in args[2:]:
            spread += ["--in", word] if spread[-2] == "--in" and _is_file(word) else [word]
        return super().parse_args(ctx, spread)


def _is_file(word: str) -> bool:
    """Whether an argument names standard input, a file or folder, or a glob that some files match."""
    if word == "-" or word.startswith("-"):
        return word == "-"
    return os.path.exists(word) or (glob.has_magic(word) and any(glob.iglob(word, recursive=True)))


@app.command(cls=AskCommand, rich_help_panel=Panel.ASK)
def ask(
    question: Annotated[str | None, typer.Argument(help="The question.")] = None,
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
        typer.Option(
            "--model",
            "-m",
            help="en, zh, the folder of a reader or run, or a hub id; by default, by the language of the text.",
        ),
    ] = None,
    n_best: Annotated[int, typer.Option(help="Number of answers to print, best first.")] = 1,
    decoder: Decoder = "parallel",
    vote: Annotated[
        str,
        typer.Option(
            help="With several texts: best, the most probable span; all, probabilities of equal answers are added."
        ),
    ] = "best",
    free: Annotated[
        bool, typer.Option("--free", help="Allow any words as the answer, not only a span of the text.")
    ] = False,
    windows: Annotated[
        int,
        typer.Option(
            min=0,
            help="Of a text with more than twice as many windows (of 256 tokens), read only this many, those that "
            "share most words with the question; 0 reads all.",
        ),
    ] = 16,  # as masquerade.reading.reader.WINDOWS, which is not imported here, because it imports torch
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Least probability of an answer; 0 always answers. By default the reader's own.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show which parts of the texts were read, and what each head answers.")
    ] = False,
    kb: Annotated[Path | None, typer.Option(help="Ask this collection, made by index, instead of files.")] = None,
    passages: Annotated[int, typer.Option(min=1, help="With --kb: how many passages are read.")] = 10,
    where: Where = None,
    dense: Dense = None,
    trace: Annotated[bool, typer.Option("--trace", help="With --kb: show every stage with its time.")] = False,
    rag: Annotated[
        str | None, typer.Option(help="With --kb: answer by this run of 'train rag' or 'train realm' instead.")
    ] = None,
    hops: Annotated[
        bool, typer.Option("--hops", help="With --kb: answer in several steps, and show the graph of what was read.")
    ] = False,
    graph: Annotated[Path | None, typer.Option(help="With --hops: draw the graph to this .svg or .png file.")] = None,
    memory: MemoryName = None,
    judge: JudgeName = None,
    as_json: Json = False,
) -> None:
    """Answer a question from your texts, with its probability and its place.

    Without a question, it reads questions from the terminal or from standard input, one per line.

    [dim]masquerade ask "When was the stone found?" --in examples/rosetta.txt[/dim]
    [dim]masquerade ask "都江堰是谁修建的？" --in examples/dujiangyan.txt --n-best 3[/dim]
    [dim]masquerade ask "Who signed it?" --in contracts "letters/*.pdf"[/dim]
    [dim]masquerade ask --in notes report.md[/dim]
    [dim]masquerade ask "Who signed it?" --kb kb --trace[/dim]
    [dim]masquerade ask "Where was the maker of Ed Wood born?" --hops --kb kb --model runs/cogqa --graph out.svg[/dim]
    """
    from masquerade.cli.show.ask import AskOptions, show_answers

    check_judge(memory, judge)
    if graph is not None and not hops:
        raise MasqueradeError("--graph draws what --hops reads; add --hops.")
    if hops and kb is None:
        raise MasqueradeError("--hops goes from paragraph to paragraph of a collection; give one by --kb.")
    if kb is not None:
        from masquerade.cli.show.collections import answer_from

        if explain or threshold is not None:
            raise MasqueradeError("--explain and --threshold are for files; with --kb, use --trace.")
        if source:
            raise MasqueradeError("--in and --kb cannot be given together; ask the files or the collection.")
        if memory is not None:
            raise MasqueradeError("--memory is for files; a collection finds its passages itself. Leave it out.")
        if hops:
            from masquerade.cli.show.hops import ask_in_steps

            if rag is not None:
                raise MasqueradeError("--hops reads and --rag writes the answer; give one of them.")
            if where or dense is not None or trace or free or (n_best, decoder, vote) != (1, "parallel", "best"):
                raise MasqueradeError(
                    "--hops finds and reads its paragraphs itself; leave out --where, --dense, --trace, --n-best, "
                    "--decoder, --vote and --free."
                )
            ask_in_steps(question, kb, model, graph, as_json)
            return
        if rag is not None:
            from masquerade.cli.show.rag import write_from

            write_from(question, kb, rag, n_best, trace, as_json)
            return
        options = AskOptions(n_best, vote, decoder, free, windows)
        answer_from(question, kb, model, options, passages, where or [], dense, trace, as_json)
        return
    if rag is not None:
        raise MasqueradeError("--rag writes from a collection; give one by --kb.")
    if explain and (memory is not None or decoder != "parallel" or free):
        raise MasqueradeError("--explain is for the parallel decoder; leave --memory, --decoder and --free out.")
    if memory is not None:
        from masquerade.cli.show.working import ask_with_memory

        options = AskOptions(n_best, vote, decoder, free, windows, threshold)
        ask_with_memory(question, source or [], model, memory, judge, options, as_json)
        return
    options = AskOptions(n_best, vote, decoder, free, windows, threshold)
    show_answers(question, source or [], model, options, as_json, explain)


@app.command(rich_help_panel=Panel.TRAIN)
def questions(
    texts: Texts,
    out: Annotated[Path, typer.Option(help="The file to write, in JSON lines for 'train reader'.")],
    count: Annotated[int, typer.Option(help="Number of questions, at most.")] = 10000,
    each: Annotated[int, typer.Option(help="Questions per passage, at most.")] = 4,
    passages: Annotated[int, typer.Option(help="Passages per document, at most.")] = 8,
    length: Annotated[int, typer.Option(help="Characters per passage; a Chinese character counts as two.")] = 900,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
) -> None:
    """Make training questions for a reader from your own texts.

    Half of the answers are words that occur twice in a passage; half are a date, a number or a name in one sentence.

    [dim]masquerade questions corpus.jsonl --count 5000 --out clozes.jsonl[/dim]
    [dim]masquerade train reader reader-en train=clozes.jsonl out=runs/first[/dim]
    """
    from masquerade.cli.show.evaluation import make_questions

    make_questions(texts, out, count, each, passages, length, seed)


@train.command("reader")
def train_reader(recipe: RecipeName, changes: Changes = None, resume: Resume = False) -> None:
    """Train a reader, which answers questions from passages.

    Data: SQuAD, CMRC 2018, WebQA or SogouQA files, JSON lines, or a hub data set.

    [dim]masquerade train reader reader-en start=bert train=squad.json held_out=dev.json[/dim]
    """
    from masquerade.reading.training import Reading, TrainReader
    from masquerade.training.loop import Run
    from masquerade.training.recipe import read_recipe

    Run(TrainReader(read_recipe(recipe_file(recipe), Reading, changes or [])), resume).train()


@evaluate.command("reader")
def evaluate_reader(
    records: Annotated[list[str], typer.Argument(help="Files or hub data sets with questions, passages and answers.")],
    model: ModelName,
    metric: Annotated[str | None, typer.Option(help="squad, cmrc or sogouqa; by default, by the questions.")] = None,
    decoder: Decoder = "parallel",
    vote: Annotated[
        str | None, typer.Option(help="best or all; by default all, if questions have several passages.")
    ] = None,
    accepted: Annotated[Path | None, typer.Option(help="SogouQA's file of accepted answers.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Number of questions to use, from the first on.")] = None,
    predictions: Predictions = None,
    worst: Annotated[int | None, typer.Option(min=1, help="Print this many questions with the lowest scores.")] = None,
    as_json: Json = False,
) -> None:
    """Print the scores of a reader by the metric of SQuAD, CMRC 2018 or SogouQA.

    Data: the formats of 'train reader'.

    [dim]masquerade evaluate reader dev.json --model en --worst 10 --predictions answers.jsonl[/dim]
    [dim]masquerade evaluate reader sogouqa.json --model zh --accepted gold.txt[/dim]
    """
    from masquerade.cli.show.evaluation import Evaluation, score_reader

    evaluation = Evaluation(records, metric, decoder, vote, accepted, limit)
    score_reader(model, evaluation, predictions, worst, as_json)
