"""Commands for models: list, draw, convert, pretrain, train a tokenizer, show the version."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.app import Changes, Json, Panel, RecipeName, Resume, Texts, app, print_version
from masquerade.cli.recipes import describe, recipe_file, shipped_recipes
from masquerade.errors import MasqueradeError


@app.command(rich_help_panel=Panel.LOOK)
def models(
    diagram: Annotated[
        str | None, typer.Option(metavar="NAME", help="Draw the layers of this model, or of the model in this folder.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="With --diagram: a .png or .svg file.")] = None,
    as_json: Json = False,
) -> None:
    """List the models with size, mask, objective and test, or draw one.

    [dim]masquerade models --diagram bert --out bert.svg[/dim]
    """
    from masquerade.cli.show.models import show_models

    show_models(diagram, out, as_json)


@app.command(rich_help_panel=Panel.LOOK)
def draw(
    name: Annotated[str | None, typer.Argument(help="The name of a mask: causal, prefix, two_stream …")] = None,
    text: Annotated[
        str | None,
        typer.Option(help="Your own text, English or Chinese, with | between its parts (source | target)."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A .png or .svg file; with --all, a folder.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Draw every mask.")] = False,
) -> None:
    """Draw an attention mask: the token of a row attends to the tokens of its filled columns.

    [dim]masquerade draw prefix --text "北京是首都 | Beijing is the capital" --out prefix.png[/dim]
    """
    from masquerade.drawing.gallery import show

    show(name, text, out, every)


@app.command(rich_help_panel=Panel.LOOK)
def convert(
    source: Annotated[str, typer.Argument(help="A model's folder, a TensorFlow checkpoint or a hub id.")],
    target: Annotated[
        Path, typer.Argument(help="The folder to write: config.json, model.safetensors and tokenizer files.")
    ],
) -> None:
    """Convert a checkpoint to a folder that transformers and Masquerade load.

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


@app.command(rich_help_panel=Panel.TRAIN)
def vocab(
    texts: Texts,
    out: Annotated[Path, typer.Option(help="The folder for the tokenizer's files.")],
    kind: Annotated[str, typer.Option(help="wordpiece, bpe, unigram or characters.")] = "wordpiece",
    size: Annotated[int, typer.Option(help="Number of tokens, special ones included.")] = 8000,
    lowercase: Annotated[bool, typer.Option(help="Convert to lowercase and remove accents.")] = True,
    sentinels: Annotated[int, typer.Option(min=0, help="Number of reserved tokens for T5's spans, such as 100.")] = 0,
) -> None:
    """Train a tokenizer on your own texts.

    [dim]masquerade vocab corpus.txt --kind wordpiece --size 8000 --out my-vocab[/dim]
    """
    from masquerade.data.corpus import read_documents
    from masquerade.text.training import train_tokenizer

    documents = (document for source in texts for document in read_documents(source))
    tokenizer = train_tokenizer(documents, kind, size, lowercase, sentinels)
    tokenizer.save(out)
    print(f"{out}: {kind}, {len(tokenizer):,} tokens")


@app.command(rich_help_panel=Panel.TRAIN)
def objectives() -> None:
    """List the pretraining objectives."""
    from rich.console import Console
    from rich.table import Table

    from masquerade.objectives.registry import OBJECTIVES

    table = Table("objective", "description")
    for name, entry in OBJECTIVES.items():
        table.add_row(name, entry.about)
    Console(highlight=False).print(table)


@app.command(rich_help_panel=Panel.TRAIN)
def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this recipe.")] = None,
) -> None:
    """List the shipped recipes, or print one.

    [dim]masquerade recipes mlm > my-recipe.toml[/dim]
    """
    if name is not None:
        print(recipe_file(name).read_text(encoding="utf-8"), end="")
        return
    known = shipped_recipes()
    width = max(map(len, known), default=0) + 2
    for each, path in known.items():
        print(f"{each:{width}}{describe(path)}")


@app.command(rich_help_panel=Panel.LOOK)
def version() -> None:
    """Print the version, the processor, and the matrix kernels measured on it."""
    print_version(machine=True)


@app.command(rich_help_panel=Panel.TRAIN)
def pretrain(
    recipe: RecipeName,
    changes: Changes = None,
    resume: Resume = False,
) -> None:
    """Pretrain a model with any objective, as a recipe says.

    With several processes: torchrun --nproc-per-node 2 -m masquerade pretrain RECIPE

    [dim]masquerade pretrain mlm train=corpus.txt tokenizer=my-vocab steps=500 model.layers=4[/dim]
    """
    from masquerade.training.pretraining import pretrain as run_pretraining
    from masquerade.training.recipe import Pretraining, read_recipe

    run_pretraining(read_recipe(recipe_file(recipe), Pretraining, changes or []), resume)
