"""The command line: one short function a command. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from masquerade.errors import MasqueradeError

app = typer.Typer(
    help="Small language models under any mask.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run a command; what went wrong for a reason the user can act on is told in one sentence."""
    try:
        app()
    except MasqueradeError as error:
        print(f"masquerade: {error}", file=sys.stderr)
        sys.exit(1)


@app.command()
def draw(
    name: Annotated[str | None, typer.Argument(help="The mask: causal, prefix, two_stream … (all: see --all).")] = None,
    text: Annotated[
        str | None,
        typer.Option(help="Your own text, English or Chinese; | between the parts of a mask that has parts."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A .png or .svg file; with --all, a folder.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Draw every mask there is.")] = False,
) -> None:
    """Draw who sees whom: a row looks at its filled columns.

    [dim]masquerade draw prefix --text "北京是首都 | Beijing is the capital" --out prefix.png[/dim]
    """
    from rich.console import Console
    from rich.markup import escape

    from masquerade.draw import save, terminal
    from masquerade.gallery import EXAMPLES, picture

    if name is None and not every:
        raise MasqueradeError(f"Name a mask to draw, or --all of them: {', '.join(EXAMPLES)}.")
    if every and out is not None and out.suffix:
        raise MasqueradeError(f"--all draws many files, so --out has to be a folder, not the file '{out}'.")
    console = Console(highlight=False)
    for each in EXAMPLES if every else [str(name)]:
        drawn = picture(each, text)
        if out is None:
            console.print(terminal(drawn, colour=console.is_terminal))
            continue
        for path in [out / f"{each}.svg", out / f"{each}.png"] if every else [out]:
            save(drawn, path)
            console.print(f"drawn: {escape(str(path))}")


@app.command()
def fill(
    text: Annotated[str, typer.Argument(help="A text with one [MASK] or several.")],
    model: Annotated[str, typer.Option("--model", "-m", help="A model's folder, TensorFlow checkpoint or hub id.")],
    top: Annotated[int, typer.Option("--top", "-k", help="How many words to list for each [MASK].")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Fill the [MASK]s of a text, all of them in one step.

    [dim]masquerade fill "巴黎是[MASK]国的首都。" --model path/to/bert[/dim]
    """
    from masquerade.checkpoint import load
    from masquerade.decoding.fill import fill as complete

    filled = complete(load(model), text, top)
    if as_json:
        print(json.dumps(asdict(filled), ensure_ascii=False))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    console.print(filled.text, markup=False)
    for number, row in enumerate(filled.guesses, start=1):
        title = escape(f"[MASK] {number} of {len(filled.guesses)}")
        table = Table("word", "probability", "", title=title, title_justify="left")
        for guess in row:
            table.add_row(escape(guess.word), f"{guess.probability:.1%}", "█" * round(guess.probability * 40))
        console.print(table)


@app.command()
def models(
    diagram: Annotated[str | None, typer.Option(metavar="NAME", help="Draw this model's stack instead.")] = None,
    out: Annotated[Path | None, typer.Option(help="With --diagram: a .png or .svg file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """List every model with its size, mask, objective and test, or draw one.

    [dim]masquerade models --diagram bert --out bert.svg[/dim]
    """
    from masquerade.catalogue import models as show

    show(diagram, out, as_json)


@app.command()
def pretrain(
    recipe: Annotated[Path, typer.Argument(help="A TOML file; recipes/ has examples.")],
    changes: Annotated[list[str] | None, typer.Argument(help="key=value, for any key of the recipe.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
) -> None:
    """Pretrain a model with any objective, as a recipe says.

    Several processes: torchrun --nproc-per-node 2 -m masquerade pretrain RECIPE

    [dim]masquerade pretrain recipes/mlm.toml steps=500 model.layers=4[/dim]
    """
    from masquerade.training.loop import Run
    from masquerade.training.pretraining import Pretrain
    from masquerade.training.recipe import Pretraining, read_recipe

    Run(Pretrain(read_recipe(recipe, Pretraining, changes or [])), resume).train()


@app.command()
def vocab(
    texts: Annotated[list[str], typer.Argument(help="Text, JSON lines or Parquet files, or hub data sets.")],
    out: Annotated[Path, typer.Option(help="The folder for the tokenizer's files.")],
    kind: Annotated[str, typer.Option(help="wordpiece, bpe, unigram or characters.")] = "wordpiece",
    size: Annotated[int, typer.Option(help="How many tokens, special ones included.")] = 8000,
    lowercase: Annotated[bool, typer.Option(help="Fold capitals and accents.")] = True,
) -> None:
    """Train a tokenizer on your own texts.

    [dim]masquerade vocab corpus.txt --kind wordpiece --size 8000 --out my-vocab[/dim]
    """
    from masquerade.data.tokens import read_documents
    from masquerade.text.training import train_tokenizer

    documents = (document for source in texts for document in read_documents(source))
    tokenizer = train_tokenizer(documents, kind, size, lowercase)
    tokenizer.save(out)
    print(f"{out}: {kind}, {len(tokenizer):,} tokens")


@app.command()
def convert(
    source: Annotated[str, typer.Argument(help="A model's folder, TensorFlow checkpoint or hub id.")],
    target: Annotated[Path, typer.Argument(help="The folder to write: config.json, model.safetensors, tokenizer.")],
) -> None:
    """Read any checkpoint and write it as a folder that the reference library and this one can load.

    [dim]masquerade convert chinese_bert/bert_model.ckpt bert-zh[/dim]
    """
    from masquerade.checkpoint import load, save

    if Path(source).exists() and target.exists() and Path(source).resolve() == target.resolve():
        raise MasqueradeError(f"'{source}' cannot be converted onto itself; give another folder.")
    model = load(source)
    save(model, target)
    count = sum(weight.numel() for weight in model.state_dict().values())
    print(
        f"{source} → {target}: {model.spec.family}, {model.spec.layers} layers of {model.spec.width}, {count:,} weights"
    )
