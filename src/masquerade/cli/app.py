"""The command line's application, and the options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Small language models under any mask.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

train = typer.Typer(help="Fine-tune a pretrained encoder, as a recipe says.", no_args_is_help=True)
evaluate = typer.Typer(help="Score a fine-tuned model on labelled records.", no_args_is_help=True)
app.add_typer(train, name="train")
app.add_typer(evaluate, name="evaluate")

RecipeFile = Annotated[Path, typer.Argument(help="A TOML file; recipes/ has examples.")]
Changes = Annotated[list[str] | None, typer.Argument(help="key=value, for any key of the recipe.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")]
ModelName = Annotated[str, typer.Option("--model", "-m", help="A model's or run's folder, or a hub id.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
Predictions = Annotated[Path | None, typer.Option(help="Save what was predicted here, as JSON lines.")]
Decoder = Annotated[
    str, typer.Option(help="parallel (all words at once, by all heads), blocks, autoregressive, rerank or mixture.")
]
InFile = Annotated[str | None, typer.Option("--in", help="A file with a text on each line; - for standard input.")]
