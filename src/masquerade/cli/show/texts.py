"""What the commands ``fill``, ``generate`` and ``keep`` read and print."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from inspect import signature
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from masquerade.checkpoints.folders import load, save
from masquerade.checkpoints.vocabulary import keep_tokens
from masquerade.cli.show.output import print_json
from masquerade.decoding.constraints import Constraint, SpanOf, TokenSet, Trie
from masquerade.drawing.traces import curtain, draw_traces
from masquerade.errors import MasqueradeError
from masquerade.files import read_text, read_texts
from masquerade.nn.model import Model
from masquerade.text.subset import occurring
from masquerade.text.tokenizer import Tokenizer
from masquerade.writing.fill import fill, infill
from masquerade.writing.generate import DECODING_METHODS, GeneratedText, Rules, one_by_one, stream
from masquerade.writing.prompts import Continue, frame_for

TOGETHER = 128  # prompts that are decoded before their texts are printed
STREAMED = ("greedy", "sample")
FLAGS = {"lengths": "--length", "size": "--block-size"}  # options whose names differ from their settings
DRAWN = 8  # texts in one picture, at most


@dataclass(frozen=True)
class Limits:
    """Files with constraints on the text; at most one of them."""

    span_of: Path | None = None  # a passage; the text has to be a span of it
    one_of: Path | None = None  # strings, one per line; the text has to be one of them
    tokens_of: Path | None = None  # a text; only its tokens are allowed

    def read(self) -> tuple[str, str] | None:
        """The name of the constraint that is set, and the text of its file."""
        given = [(each.name, getattr(self, each.name)) for each in fields(self) if getattr(self, each.name) is not None]
        if len(given) > 1:
            names = " and ".join(_flag(name) for name, _ in given)
            raise MasqueradeError(f"{names} exclude each other; give one of them.")
        return (given[0][0], read_text(str(given[0][1]))) if given else None


@dataclass(frozen=True)
class Output:
    """How the texts are shown."""

    as_json: bool = False
    trace: bool = False  # print each step
    picture: Path | None = None  # a file to draw the steps to


def show_filled(model: str, text: str, top: int, method: str | None, as_json: bool) -> None:
    """Print a text with its [MASK] tokens filled and, without a method, the most probable tokens for each."""
    if method is not None:
        whole = infill(load(model), text, method)
        print_json({"text": whole.text, "ids": whole.ids}) if as_json else print(whole.text)
        return
    filled = fill(load(model), text, top)
    if as_json:
        print_json(asdict(filled))
        return
    console = Console(highlight=False)
    console.print(filled.text, markup=False)
    for number, row in enumerate(filled.guesses, start=1):
        title = Text(f"[MASK] {number} of {len(filled.guesses)}")
        table = Table("word", "probability", "", title=title, title_justify="left")
        for guess in row:
            table.add_row(Text(guess.word), f"{guess.probability:.1%}", "█" * round(guess.probability * 40))
        console.print(table)


def show_texts(
    model: str,
    prompts: Sequence[str],
    source: str | None,
    method: str,
    frame: str | None,
    settings: Mapping[str, Any],
    limits: Limits,
    output: Output,
) -> None:
    """Print the text that a model generates for each prompt. Settings that are None keep their defaults."""
    chosen = _belonging(method, settings)
    given, limit = read_texts(prompts, source, "generate from"), limits.read()
    if output.picture is not None and len(given) > DRAWN:
        raise MasqueradeError(f"A picture has room for the steps of {DRAWN} texts, not of {len(given)}; give fewer.")
    writer = load(model)
    if limit is not None:
        chosen["constraint"] = _constraint(writer.tokenizer, *limit)
    console = Console(highlight=False)
    plain = not (output.as_json or output.trace or output.picture)
    if plain and console.is_terminal and method in STREAMED and len(given) == 1 and chosen.get("copies", 1) == 1:
        _opening(console, writer, frame, given[0])
        for piece in stream(writer, given[0], method, frame=frame, **chosen):
            print(piece, end="", flush=True)
        print()
        return
    drawn: list[tuple[str, GeneratedText]] = []
    written = one_by_one(writer, given, method, frame=frame, together=TOGETHER, **chosen)
    for prompt, text in zip(given, written, strict=True):
        _show(console, writer, frame, prompt, text, output)
        if output.picture is not None:
            drawn.append((prompt, text))
    if output.picture is not None:
        draw_traces(writer.tokenizer, drawn, method, output.picture)
        print(f"drawn: {output.picture}", file=sys.stderr)


def show_keep(model: str, texts: Iterator[str], least: int, out: Path) -> None:
    """Reduce a model's vocabulary to the tokens of texts, save it, and print both sizes."""
    whole = load(model)
    smaller, old = keep_tokens(whole, occurring(whole.tokenizer, texts, least))
    save(smaller, out)
    counts = [sum(weight.numel() for weight in each.parameters()) for each in (whole, smaller)]
    table = Table("", "before", "after", "share")
    for name, before, after in (("tokens", whole.spec.vocab, len(old)), ("weights", counts[0], counts[1])):
        table.add_row(name, f"{before:,}", f"{after:,}", f"{after / before:.1%}")
    table.add_row("in float32", *(f"{count * 4 / 1e6:,.1f} MB" for count in counts), f"{counts[1] / counts[0]:.1%}")
    Console(highlight=False).print(table)
    print(out)


def _belonging(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are given, if the method has all of them."""
    if method not in DECODING_METHODS:
        raise MasqueradeError(f"There is no method '{method}'; choose from {', '.join(DECODING_METHODS)}.")
    own = [*signature(DECODING_METHODS[method]).parameters]
    known = {*own, *(each.name for each in fields(Rules))}
    chosen = {name: value for name, value in settings.items() if value is not None}
    if unknown := [name for name in chosen if name not in known]:
        has = ", ".join(_flag(name) for name in own if name in settings) or "none of its own"
        raise MasqueradeError(f"{_flag(unknown[0])} is no option of the method '{method}'; its options are {has}.")
    return chosen


def _constraint(tokenizer: Tokenizer, name: str, text: str) -> Constraint:
    if name == "span_of":
        return SpanOf.of(tokenizer, text)
    if name == "one_of":
        return Trie.of(tokenizer, [line for line in text.split("\n") if line.strip()])
    return TokenSet(tokenizer.encode(text))


def _show(
    console: Console, model: Model, frame: str | None, prompt: str, written: GeneratedText, output: Output
) -> None:
    """Print the text of one prompt."""
    if output.as_json:
        print_json({"prompt": prompt, **_plain(written, output.trace)})
        return
    if output.trace:
        console.print(Text(prompt, "bold"))
        console.print(curtain(model.tokenizer, written, console.width))
    if written.alternatives:
        table = Table("score", "text", "ends", title=Text(prompt), title_justify="left")
        for text in (written, *written.alternatives):
            table.add_row(f"{text.score:.3f}", Text(text.text.strip()), "yes" if text.ended else "cut off")
        console.print(table)
    elif not output.trace:
        _opening(console, model, frame, prompt)
        print(written.text if console.is_terminal else written.text.strip())


def _opening(console: Console, model: Model, frame: str | None, prompt: str) -> None:
    """On a terminal, print the prompt that the text continues."""
    if console.is_terminal and isinstance(frame_for(model, frame), Continue):
        console.print(Text(prompt, "dim"), end="", soft_wrap=True)


def _plain(written: GeneratedText, trace: bool) -> dict[str, Any]:
    """A text as JSON, on request with its trace."""
    whole = {name: value for name, value in asdict(written).items() if trace or name != "trace"}
    return whole | {"alternatives": [_plain(each, trace) for each in written.alternatives]}


def _flag(name: str) -> str:
    """The name of the option for a setting."""
    return FLAGS.get(name, "--" + name.replace("_", "-"))
