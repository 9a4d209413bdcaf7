"""A recipe: everything a run depends on, in one short TOML file. What is not said has a default; every key can be set
on the command line; what was resolved is saved with the run."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from masquerade.errors import MasqueradeError

SCHEDULES = ("linear", "cosine", "constant")
PRECISIONS = ("auto", "float32", "bfloat16", "no", "bf16", "fp16")  # the last three are names in older recipes
WHOLE = ("row", "micro", "log_every", "save_every", "evaluate_every", "length", "steps", "rows", "batch")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What every run has. Sizes are in tokens, packed rows and optimizer steps."""

    renamed: ClassVar[Mapping[str, str]] = {}  # keys of older recipes → their names now

    train: tuple[str, ...]  # files or hub data sets
    out: str  # the run's folder
    start: str = ""  # a checkpoint to go on from; none for fresh weights
    held_out: tuple[str, ...] = ()
    length: int = 128  # tokens of a piece, special ones included
    row: int = 128  # tokens of a packed row; an example that is longer has a row of its own
    micro: int = 32  # rows that go through the network at once
    rate: float = 5e-4
    warmup: float = 100  # steps; a share of all steps if below 1
    schedule: str = "linear"
    decay: float = 0.01
    clip: float = 1.0
    seed: int = 1
    precision: str = "auto"  # float32, bfloat16, or auto: bfloat16 where it is native and measured faster
    recompute: bool = False  # gradient checkpointing: less memory, more time
    log_every: int = 10
    save_every: int = 200
    evaluate_every: int = 200

    def __post_init__(self) -> None:
        for name in ("train", "held_out"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        for name in WHOLE:
            value = getattr(self, name, 1)
            if not isinstance(value, int) or value < 1:
                raise MasqueradeError(f"The recipe's '{name}' has to be a whole number of at least 1.")
        if self.schedule not in SCHEDULES:
            raise MasqueradeError(f"There is no schedule '{self.schedule}'; choose from {', '.join(SCHEDULES)}.")
        if self.precision not in PRECISIONS:
            raise MasqueradeError(
                f"The recipe's 'precision' is '{self.precision}', but has to be auto, float32 or bfloat16."
            )
        if self.length > self.row:
            raise MasqueradeError(f"Pieces of {self.length} tokens do not fit into rows of {self.row}; lengthen 'row'.")

    def json(self) -> str:
        """The resolved recipe."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class Pretraining(Recipe):
    """A run over plain text, with one of ``masquerade.objectives.OBJECTIVES``."""

    objective: str
    options: Mapping[str, Any] = field(default_factory=dict)  # settings of the objective
    tokenizer: str = ""  # a folder with tokenizer files; none if ``start`` has one
    model: Mapping[str, Any] = field(default_factory=dict)  # fields of the Spec, for fresh weights
    text_field: str = "text"  # where records keep their text
    copies: int = 0  # in how many fixed ways each piece is masked (BERT: 10); 0: a new one each epoch (RoBERTa)
    rows: int = 32  # rows of an optimizer step, over all processes
    steps: int = 1000
    held_out_rows: int = 50  # how many rows of the held-out text are scored


@dataclass(frozen=True, kw_only=True)
class FineTuning(Recipe):
    """A run over labelled records, from a pretrained encoder."""

    text: str = ""  # the field or column of the text; where there is no name for it, the first
    pair: str = ""  # … of the second text, where there are two
    label: str = ""  # … of the label; where there is no name for it, the last
    regression: bool = False  # labels are numbers, to be predicted as such
    limit: int = 0  # how many of the training records are used; 0: all
    batch: int = 32  # records of an optimizer step, over all processes
    epochs: float = 3.0
    rate: float = 5e-5
    warmup: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.epochs > 0:
            raise MasqueradeError(f"The recipe's 'epochs' has to be above 0, but it is {self.epochs}.")
        if not self.start:
            raise MasqueradeError("The recipe does not say which checkpoint to fine-tune; add start = '…'.")


Kind = TypeVar("Kind", bound=Recipe)


def read_recipe(path: Path, kind: type[Kind], changes: Sequence[str] = ()) -> Kind:
    """A recipe from a TOML file, with changes of the form ``key=value`` or ``table.key=value``; values are TOML too,
    and what is no TOML value is taken as text."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MasqueradeError(f"The recipe {path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
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
    values = {kind.renamed.get(name, name): value for name, value in values.items()}
    known = fields(kind)
    for name in values:
        if name not in {each.name for each in known}:
            names = ", ".join(sorted(each.name for each in known))
            raise MasqueradeError(f"A recipe has no '{name}'; it has {names}.")
    for each in known:
        if each.default is MISSING and each.default_factory is MISSING and each.name not in values:
            raise MasqueradeError(f"The recipe {path} does not say '{each.name}'; add it, or set {each.name}=… .")
    return kind(**values)
