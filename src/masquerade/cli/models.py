"""Commands for models: list, draw, convert, pretrain, and make vocabularies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.app import app
from masquerade.errors import MasqueradeError


@app.command()
def models(
    diagram: Annotated[
        str | None, typer.Option(metavar="NAME", help="Draw this model, or the model in this folder, instead.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="With --diagram: a .png or .svg file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """List every model with its size, mask, objective and test, or draw one.

    [dim]masquerade models --diagram bert --out bert.svg[/dim]
    """
    from masquerade.cli.show.models import show_models

    show_models(diagram, out, as_json)


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
    from masquerade.drawing.gallery import show

    show(name, text, out, every)


@app.command()
def convert(
    source: Annotated[str, typer.Argument(help="A model's folder, TensorFlow checkpoint or hub id.")],
    target: Annotated[Path, typer.Argument(help="The folder to write: config.json, model.safetensors, tokenizer.")],
) -> None:
    """Read any checkpoint and write it as a folder that the reference library and this one can load.

    [dim]masquerade convert chinese_bert/bert_model.ckpt bert-zh[/dim]
    """
    from masquerade.checkpoints.folders import load, save

    if Path(source).exists() and target.exists() and Path(source).resolve() == target.resolve():
        raise MasqueradeError(f"'{source}' cannot be converted onto itself; give another folder.")
    model = load(source)
    save(model, target)
    count = sum(weight.numel() for weight in model.state_dict().values())
    size = f"{model.spec.layers} layers of {model.spec.width}, {count:,} weights"
    print(f"{source} → {target}: {model.spec.family}, {size}")


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
    from masquerade.data.corpus import read_documents
    from masquerade.text.training import train_tokenizer

    documents = (document for source in texts for document in read_documents(source))
    tokenizer = train_tokenizer(documents, kind, size, lowercase)
    tokenizer.save(out)
    print(f"{out}: {kind}, {len(tokenizer):,} tokens")


@app.command()
def objectives() -> None:
    """List what a network can be pretrained to do."""
    from rich.console import Console
    from rich.table import Table

    from masquerade.objectives.registry import OBJECTIVES

    table = Table("objective", "what it is")
    for name, entry in OBJECTIVES.items():
        table.add_row(name, entry.about)
    Console(highlight=False).print(table)


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
