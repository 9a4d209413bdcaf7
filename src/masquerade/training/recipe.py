"""A recipe: everything that a run depends on, in one short TOML file. Keys have defaults, can be set on the command
line, and are saved with the run."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from masquerade.data.checks import check_types
from masquerade.errors import MasqueradeError

SCHEDULES = ("linear", "cosine", "constant")
PRECISIONS = ("auto", "float32", "bfloat16", "no", "bf16", "fp16")  # the last three are names in older recipes
LEAST: dict[str, float] = {  # the smallest value of a key that has one
    **dict.fromkeys(("row", "micro", "log_every", "save_every", "evaluate_every", "length", "steps", "rows"), 1),
    **dict.fromkeys(("batch", "held_out_rows", "held_out_questions"), 1),
    **dict.fromkeys(("rate", "warmup", "decay", "clip", "seed", "copies", "limit", "dropout", "memory"), 0),
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The keys of every run. Sizes are in tokens, packed rows and optimizer steps."""

    renamed: ClassVar[Mapping[str, str]] = {}  # keys of older recipes → their names now

    train: tuple[str, ...]  # files or hub data sets
    out: str  # the run's folder
    start: str = ""  # a checkpoint to start from; empty for fresh weights
    held_out: tuple[str, ...] = ()
    length: int = 128  # tokens of a piece, special ones included
    row: int = 128  # tokens of a packed row; a longer example gets a row of its own
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
            as_tuple = tuple(value) if isinstance(value, list) else (value,) if isinstance(value, str) else value
            object.__setattr__(self, name, as_tuple)
        check_types(vars(self), type(self), "The recipe's")
        for name, least in LEAST.items():
            value = getattr(self, name, least)
            if isinstance(value, int | float) and value < least:
                raise MasqueradeError(f"The recipe's '{name}' is {value}, but it has to be at least {least}.")
        if self.schedule not in SCHEDULES:
            raise MasqueradeError(f"There is no schedule '{self.schedule}'; choose from {', '.join(SCHEDULES)}.")
        if self.precision not in PRECISIONS:
            raise MasqueradeError(
                f"The recipe's 'precision' is '{self.precision}', but has to be auto, float32 or bfloat16."
            )
        if self.length > self.row:
            raise MasqueradeError(f"Pieces of {self.length} tokens do not fit into rows of {self.row}; raise 'row'.")

    def json(self) -> str:
        """The resolved recipe."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class Pretraining(Recipe):
    """A run over plain text, with one of ``masquerade.objectives.OBJECTIVES``."""

    objective: str
    options: Mapping[str, Any] = field(default_factory=dict)  # settings of the objective
    tokenizer: str = ""  # a folder with tokenizer files; not needed if ``start`` has a tokenizer
    model: Mapping[str, Any] = field(default_factory=dict)  # fields of the Spec, for fresh weights
    text_field: str = "text"  # the field of a record that holds its text
    copies: int = 0  # the number of fixed masks of each piece (BERT: 10); 0: a new mask each epoch (RoBERTa)
    rows: int = 32  # rows of an optimizer step, over all processes
    memory: int = 0  # Transformer-XL, XLNet: earlier tokens that a row remembers while it goes on in its documents
    same_length: bool = False  # with a memory: every token sees exactly ``memory`` tokens, itself included
    steps: int = 1000
    held_out_rows: int = 50  # the number of rows of the held-out text that are scored
    stages: tuple[Mapping[str, Any], ...] = ()  # what each of several runs changes, one from the weights of the other


def in_stages(recipe: Pretraining) -> list[Pretraining]:
    """The runs of a recipe: itself, or one for each of its ``stages``. Every stage starts from the weights of the one
    before it; the last one is in the recipe's folder, the others in folders inside of it."""
    found, start = list[Pretraining](), recipe.start
    for number, changes in enumerate(recipe.stages or ({},), start=1):
        last = number >= len(recipe.stages)
        out = recipe.out if last else str(Path(recipe.out) / f"stage-{number}")
        tables = {key: {**getattr(recipe, key), **changes.get(key, {})} for key in ("options", "model")}
        try:
            found.append(replace(recipe, **{**changes, **tables, "out": out, "start": start, "stages": ()}))
        except TypeError as error:
            raise MasqueradeError(f"Stage {number} of the recipe has an unknown key: {error}.") from error
        start = out
    return found


@dataclass(frozen=True, kw_only=True)
class FineTuning(Recipe):
    """A run over labelled records, from a pretrained encoder."""

    text: str = ""  # the field or column of the text; the usual names, or the first column, if empty
    pair: str = ""  # … of the second text of a pair
    label: str = ""  # … of the label; the usual names, or the last column, if empty
    regression: bool = False  # labels are numbers and are predicted as numbers
    features: str = ""  # a run of objective=elmo, whose mixed states are added to the token embeddings
    several: bool = False  # a text may have several labels, or none
    limit: int = 0  # the number of training records that are used; 0: all
    batch: int = 32  # records of an optimizer step, over all processes
    epochs: float = 3.0
    rate: float = 5e-5
    warmup: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.epochs > 0:
            raise MasqueradeError(f"The recipe's 'epochs' has to be above 0, but it is {self.epochs}.")
        if not self.start:
            raise MasqueradeError("The recipe lacks the checkpoint to fine-tune; add start = '…'.")
        if self.several and self.regression:
            raise MasqueradeError("A recipe predicts several labels or numbers; set 'several' or 'regression'.")


Kind = TypeVar("Kind", bound=Recipe)


def read_recipe(path: Path, kind: type[Kind], changes: Sequence[str] = ()) -> Kind:
    """A recipe from a TOML file, with changes of the form ``key=value`` or ``table.key=value``. A value that is not
    TOML is taken as text."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MasqueradeError(f"The recipe {path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MasqueradeError(f"The recipe {path} is not proper TOML: {error}.") from error
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise MasqueradeError(f"'{change}' is not of the form key=value.")
        table = values
        *outer, last = key.strip().split(".")
        for name in outer:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise MasqueradeError(f"'{change}' sets a key of '{name}', which is not a table.")
        try:
            table[last] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            table[last] = text
    values = {kind.renamed.get(name, name): value for name, value in values.items()}
    known = fields(kind)
    for name in values:
        if name not in {each.name for each in known}:
            names = ", ".join(sorted(each.name for each in known))
            raise MasqueradeError(f"A recipe has no key '{name}'; it has {names}.")
    for each in known:
        if each.default is MISSING and each.default_factory is MISSING and each.name not in values:
            raise MasqueradeError(f"The recipe {path} lacks the key '{each.name}'; add it, or set {each.name}=… .")
    return kind(**values)
