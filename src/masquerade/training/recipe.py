"""A recipe: everything a run depends on, in one short TOML file. What is not said has a default; every key can be set
on the command line; what was resolved is saved with the run."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from masquerade.errors import MasqueradeError

SCHEDULES = ("linear", "cosine", "constant")


@dataclass(frozen=True)
class Recipe:
    """A pretraining run. Sizes are in tokens, packed rows and optimizer steps."""

    objective: str  # one of masquerade.objectives.OBJECTIVES
    train: tuple[str, ...]  # files or hub data sets
    out: str  # the run's folder
    tokenizer: str = ""  # a folder with tokenizer files; none if ``start`` has one
    start: str = ""  # a checkpoint to go on from; none for fresh weights
    held_out: tuple[str, ...] = ()
    text_field: str = "text"  # where records keep their text
    options: Mapping[str, Any] = field(default_factory=dict)  # settings of the objective
    model: Mapping[str, Any] = field(default_factory=dict)  # fields of the Spec, for fresh weights
    encoder_decoder: bool = False  # … with a decoder like the encoder, for objectives that write
    length: int = 128  # tokens of a piece, special ones included
    row: int = 512  # tokens of a packed row
    rows: int = 8  # rows of an optimizer step, over all processes
    micro: int = 8  # rows that go through the network at once
    steps: int = 1000
    rate: float = 5e-4
    warmup: int = 100
    schedule: str = "linear"
    decay: float = 0.01
    clip: float = 1.0
    seed: int = 1
    precision: str = "no"  # no, bf16 or fp16, where the device has it
    recompute: bool = False  # gradient checkpointing: less memory, more time
    log_every: int = 10
    save_every: int = 200
    evaluate_every: int = 200
    held_out_rows: int = 50  # how many rows of the held-out text are scored

    def __post_init__(self) -> None:
        for name in ("train", "held_out"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        for name in ("length", "row", "rows", "micro", "steps", "log_every", "save_every", "evaluate_every"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise MasqueradeError(f"The recipe's '{name}' has to be a whole number of at least 1.")
        if self.schedule not in SCHEDULES:
            raise MasqueradeError(f"There is no schedule '{self.schedule}'; choose from {', '.join(SCHEDULES)}.")
        if self.length > self.row:
            raise MasqueradeError(f"Pieces of {self.length} tokens do not fit into rows of {self.row}; lengthen 'row'.")

    def json(self) -> str:
        """The resolved recipe."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def read_recipe(path: Path, changes: Sequence[str] = ()) -> Recipe:
    """A recipe from a TOML file, with changes of the form ``key=value`` or ``table.key=value``; values are TOML too,
    and what is no TOML value is taken as text."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MasqueradeError(f"The recipe {path} cannot be read: {error.strerror}.") from error
    except tomllib.TOMLDecodeError as error:
        raise MasqueradeError(f"The recipe {path} is not proper TOML: {error}.") from error
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise MasqueradeError(f"'{change}' changes nothing; write key=value.")
        table = values
        *outer, last = key.strip().split(".")
        for name in outer:
            table = table.setdefault(name, {})
        try:
            table[last] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            table[last] = text
    known = {each.name for each in fields(Recipe)}
    for name in values:
        if name not in known:
            raise MasqueradeError(f"A recipe has no '{name}'; it has {', '.join(sorted(known))}.")
    for name in ("objective", "train", "out"):
        if name not in values:
            raise MasqueradeError(f"The recipe {path} does not say '{name}'; add it, or set it as {name}=… .")
    return Recipe(**values)
