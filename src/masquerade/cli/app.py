"""The command line's application, and the options that several commands share."""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Panel(StrEnum):
    """The parts of the list of commands, in their order."""

    ASK = "Ask documents"
    WRITE = "Write texts"
    LABEL = "Labels, vectors, entities"
    TRAIN = "Train and measure"
    LOOK = "Models and masks"


app = typer.Typer(
    help="Small language models under any mask.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

train = typer.Typer(help="Fine-tune a pretrained encoder, as a recipe says.", no_args_is_help=True)
evaluate = typer.Typer(help="Score a fine-tuned model on labelled data.", no_args_is_help=True)
app.add_typer(train, name="train", rich_help_panel=Panel.TRAIN)
app.add_typer(evaluate, name="evaluate", rich_help_panel=Panel.TRAIN)

RecipeName = Annotated[str, typer.Argument(help="A TOML file, or the name of a shipped recipe ('masquerade recipes').")]
Changes = Annotated[list[str] | None, typer.Argument(help="key=value, for any key of the recipe.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint.")]
ModelName = Annotated[str, typer.Option("--model", "-m", help="The folder of a model or run, or a hub id.")]
AnyModel = Annotated[str, typer.Option("--model", "-m", help="A model's folder, a TensorFlow checkpoint or a hub id.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Predictions = Annotated[Path | None, typer.Option(help="Save the predictions to this file, as JSON lines.")]
Texts = Annotated[list[str], typer.Argument(help="Text, JSON lines or Parquet files, or hub data sets.")]
Decoder = Annotated[
    str,
    typer.Option(help="parallel (the best span by all heads, in one pass), blocks, autoregressive, rerank or mixture."),
]
MemoryName = Annotated[
    str | None, typer.Option(help="cogltx: of a text longer than the window, read the blocks that a judge keeps.")
]
JudgeName = Annotated[
    str | None, typer.Option(help="With --memory: the folder of the judge, if it is not in the model's.")
]
InFile = Annotated[str | None, typer.Option("--in", help="A file with one text per line; - for standard input.")]


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Print log messages: kernel, reader … With --version: the machine too."),
    ] = False,
) -> None:
    if verbose:
        logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
        logging.getLogger("masquerade").setLevel(logging.INFO)
    if version:
        print_version(verbose)
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def print_version(machine: bool) -> None:
    """Print the version, and with ``machine`` what decides the speed here: processor, flags, measured kernels."""
    from masquerade import __version__

    print(f"masquerade {__version__}")
    if machine:
        from masquerade.kernels import about

        for name, value in about().items():
            print(f"{name + ':':16}{value}")
