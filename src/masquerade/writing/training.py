"""Training of a writer from pairs of source and target."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from masquerade.checkpoints.vocabulary import keep_tokens
from masquerade.data.examples import Example
from masquerade.data.packing import DataCursor, Row, packed
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss, TermLoss, TokenTerm
from masquerade.text.subset import occurring
from masquerade.text.tokenizer import Tokenizer
from masquerade.training.loop import TrainingJob, mean_loss
from masquerade.training.recipe import Recipe
from masquerade.writing.examples import TargetLayouts
from masquerade.writing.mixture import mixture_of, mixture_terms, set_gamma
from masquerade.writing.networks import NetworkChoice
from masquerade.writing.pairs import PairFile, TextPair, continuations, read_pairs
from masquerade.writing.rouge import rouge_l, rouge_units
from masquerade.writing.settings import TRAININGS, WritingSettings
from masquerade.writing.spelling import CASINGS, casing_of
from masquerade.writing.writer import Writer

logger = logging.getLogger(__name__)

GAMMA_EVERY = 10  # steps between two changes of a scheduled γ
HELD_OUT = 200  # held-out pairs of a task whose loss is measured
TOGETHER = 32  # batches that are sorted by length together, so that the rows of a batch have similar lengths
TASK = {"train": list, "held_out": list, "prefix": str, "weight": float, "source": str, "target": str}


@dataclass(frozen=True, kw_only=True)
class Writing(Recipe):
    """The recipe of a writer, trained from a checkpoint or from fresh weights."""

    train: tuple[str, ...] = ()  # files or hub data sets of pairs; empty if there are tasks
    source: str = ""  # the field or column of the source; a usual name if empty
    target: str = ""  # … of the target
    # several tasks, by name: train, held_out, source and target as above, prefix and weight (how often an epoch has it)
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    training: str = ""  # of a single BERT: shifted, masked or both; empty: shifted
    casing: str = ""  # how capitals are restored if the tokenizer has none, one of CASINGS; empty: as in targets
    separator: str = "\n"  # between source and target, for models that continue a text (GPT)
    keep_tokens: bool = True  # cut the vocabulary to the tokens of the training text
    keep_least: int = 1  # … that occur at least this often
    family: str = ""  # of fresh weights, where there is no checkpoint to start from
    tokenizer: str = ""  # the folder of the tokenizer of fresh weights
    model: Mapping[str, Any] = field(default_factory=dict)  # fields of the Spec of fresh weights
    decoder: str = ""  # a fresh recurrent decoder behind the encoder: lstm, gru or mixture
    decoder_layers: int = 1
    source_scores: str = "dot"  # how a recurrent decoder scores its source: dot or additive
    gamma: float = 0.5  # of a mixture: the weight of its parallel half
    gamma_end: float = -1.0  # … at the end of training, to which it goes in a straight line; -1: it stays
    gamma_learned: bool = False  # … is learned, from there on
    continuation: int = 0  # characters of a target, if 'train' are texts and a target continues the text before it
    length: int = 256  # tokens of a source; longer ones are cut
    target_length: int = 32  # tokens of a target, its end included; longer ones are cut
    row: int = 256
    dropout: float = 0.1  # attention has none, which is much faster
    limit: int = 0  # the number of training pairs of a task that are used; 0: all
    held_out_texts: int = 100  # held-out texts that are written for the log, by greedy search
    batch: int = 32  # pairs of an optimizer step, over all processes
    epochs: float = 3.0
    rate: float = 3e-4
    warmup: float = 0.05

    def __post_init__(self) -> None:
        for name in ("source", "target"):  # columns without names are numbered
            if isinstance(getattr(self, name), int):
                object.__setattr__(self, name, str(getattr(self, name)))
        super().__post_init__()
        if self.training and self.training not in TRAININGS:
            raise MasqueradeError(f"There is no training '{self.training}'; choose from {', '.join(TRAININGS)}.")
        if self.casing and self.casing not in CASINGS:
            raise MasqueradeError(f"There is no casing '{self.casing}'; choose from {', '.join(CASINGS)}.")
        self.network()
        for name in ("gamma", "gamma_end"):
            if not (0 <= getattr(self, name) <= 1 or (name == "gamma_end" and self.gamma_end == -1)):
                raise MasqueradeError(f"The recipe's '{name}' is {getattr(self, name)}, but a γ is from 0 to 1.")
        if self.gamma_learned and self.gamma_end != -1:
            raise MasqueradeError("A γ is learned or scheduled; leave 'gamma_learned' or 'gamma_end' out.")
        if not self.epochs > 0:
            raise MasqueradeError(f"The recipe's 'epochs' has to be above 0, but it is {self.epochs}.")
        if self.target_length < 2:
            raise MasqueradeError("The recipe's 'target_length' has to be at least 2: a token and the end.")
        if bool(self.train) == bool(self.tasks):
            raise MasqueradeError("Give the recipe either 'train' or a table of 'tasks'.")
        for name, task in self.tasks.items():
            if wrong := [key for key in task if key not in TASK]:
                raise MasqueradeError(f"The task '{name}' has no key '{wrong[0]}'; it has {', '.join(TASK)}.")
            weight = task.get("weight", 1.0)
            if not isinstance(weight, int | float) or not 0 < weight < math.inf:
                raise MasqueradeError(f"The weight of the task '{name}' is {weight!r}, but has to be above 0.")
            if not task.get("train"):
                raise MasqueradeError(f"The task '{name}' has no files to train on; add train = ['…'].")
        if self.tasks and not self.held_out and any(task.get("held_out") for task in self.tasks.values()):
            held = [source for task in self.tasks.values() for source in _listed(task.get("held_out"))]
            object.__setattr__(self, "held_out", tuple(held))  # the loop evaluates if there are any

    def network(self) -> NetworkChoice:
        """The network to train."""
        return NetworkChoice(**{each.name: getattr(self, each.name) for each in fields(NetworkChoice)})


@dataclass(frozen=True)
class WritingTask:
    """The pairs of one task, with the text before its sources."""

    prefix: str
    weight: float  # how often an epoch has each pair
    train: list[TextPair]
    held_out: list[TextPair]


def read_tasks(recipe: Writing) -> list[WritingTask]:
    """The tasks of a recipe with their pairs; one without a prefix if it names none. What is left out is logged."""
    named: Mapping[str, Mapping[str, Any]] = recipe.tasks or {"": {"train": recipe.train, "held_out": recipe.held_out}}
    found = []
    for task in named.values():
        columns = str(task.get("source", recipe.source)), str(task.get("target", recipe.target))
        if recipe.continuation:
            read: Callable[[str], PairFile] = partial(continuations, size=recipe.continuation)
        else:
            read = partial(read_pairs, source_name=columns[0], target_name=columns[1])
        files = [[read(each) for each in _listed(task.get(part))] for part in ("train", "held_out")]
        for note in (note for part in files for file in part for note in file.notes):
            logger.warning(note)
        train, held_out = ([pair for file in part for pair in file.pairs] for part in files)
        weight = float(task.get("weight", 1.0))
        found.append(WritingTask(str(task.get("prefix", "")), weight, train[: recipe.limit or None], held_out))
    return found


class TrainWriter(TrainingJob):
    """The training of a writer. A step takes pairs of similar length."""

    def __init__(self, recipe: Writing) -> None:
        self.recipe: Writing = recipe
        self.tasks = read_tasks(recipe)
        self.held_out: list[Row] = []

    def begin(self) -> dict[str, Model]:
        recipe = self.recipe
        model = recipe.network().make()
        if mixture_of(model) is not None:
            set_gamma(model, recipe.gamma, recipe.gamma_learned)
        if recipe.keep_tokens:
            model, _ = keep_tokens(model, self._tokens(model.tokenizer))
        single = model.spec.decoder is None and model.spec.mask != "causal" and "inner" not in model.spec.positions
        if recipe.training and not single:
            raise MasqueradeError(
                f"The training '{recipe.training}' is one of a single BERT, and this model is none; leave it out."
            )
        settings = WritingSettings(
            training=(recipe.training or "shifted") if single else "",
            length=recipe.length,
            target_length=recipe.target_length,
            prefixes={name: str(task["prefix"]) for name, task in recipe.tasks.items() if task.get("prefix")},
            casing=self._casing(model.tokenizer),
            separator=recipe.separator if model.spec.mask == "causal" and model.spec.decoder is None else "",
        )
        TargetLayouts.of(model, settings)  # raises an error if the model cannot be trained so
        return {"": settings.put(model)}

    def _casing(self, tokenizer: Tokenizer) -> str:
        """How capitals are restored: not at all if the tokenizer has them."""
        if self.recipe.casing:
            return self.recipe.casing
        cased = tokenizer.encode("A") != tokenizer.encode("a")
        return "none" if cased else casing_of([pair.target for task in self.tasks for pair in task.train[:500]])

    def _tokens(self, tokenizer: Tokenizer) -> list[int]:
        """The tokens of the training text that are kept; those of prefixes and of the separator always are."""
        always = [text for text in (self.recipe.separator, *(task.prefix for task in self.tasks)) if text]
        texts = (text for task in self.tasks for pair in task.train for text in (pair.source, pair.target))
        found = occurring(tokenizer, texts, self.recipe.keep_least)
        return [*found, *(number for text in always for number in tokenizer.encode(text))]

    def read(self, model: Model, folder: Path) -> None:
        self.layouts = TargetLayouts.of(model, WritingSettings.of(model))
        self.sources, self.targets, self.repeats = list[np.ndarray](), list[np.ndarray](), list[float]()
        for task in self.tasks:
            self._encode(model.tokenizer, task, task.train)
            self.repeats += [task.weight] * len(task.train)
        cut = sum(len(target) >= self.layouts.slots for target in self.targets)
        if cut:
            logger.warning(
                f"{cut:,} of {len(self.targets):,} targets are longer than {self.layouts.slots - 1} tokens and are "
                "cut; raise 'target_length' to train on all of them."
            )
        self.epoch = math.ceil(sum(self.repeats) / self.recipe.batch)
        count = len(self.sources)
        for task in self.tasks:
            self._encode(model.tokenizer, task, task.held_out[:HELD_OUT])
        held = range(count, len(self.sources))
        self.held_out = packed([self._example(number, 0) for number in held], self.recipe.row)
        del self.sources[count:], self.targets[count:]

    def _encode(self, tokenizer: Tokenizer, task: WritingTask, pairs: Sequence[TextPair]) -> None:
        """Keep the ids of pairs."""
        room = self.layouts.template.room
        for ids, _ in tokenizer.encode_places([task.prefix + pair.source for pair in pairs]):
            self.sources.append(np.array(ids[:room], dtype=np.int32))
        for ids, _ in tokenizer.encode_places([pair.target for pair in pairs]):
            self.targets.append(np.array(ids[: self.layouts.slots], dtype=np.int32))

    def loss(self, networks: dict[str, Model]) -> Loss:
        mixed = mixture_of(networks[""])
        if mixed is None:
            return TermLoss(networks[""], {"tokens": TokenTerm()})
        mixed.logit.requires_grad_(self.recipe.gamma_learned)  # a resumed run reads it from its files
        self.every = GAMMA_EVERY if self.recipe.gamma_end != -1 else 0
        return TermLoss(networks[""], mixture_terms())

    def refresh(self, model: Model, step: int) -> None:
        """Move a scheduled γ."""
        first, last = self.recipe.gamma, self.recipe.gamma_end
        set_gamma(model, first + (last - first) * step / self.steps, learned=False)

    @property
    def steps(self) -> int:
        return max(1, round(self.recipe.epochs * self.epoch))

    def _cut(self, epoch: int) -> list[list[int]]:
        """The pairs of each step of an epoch, by number, in random order; those of a step have similar lengths."""
        rng, batch = rng_for(self.recipe.seed, epoch, len(self.sources)), self.recipe.batch
        repeats = np.array(self.repeats)
        times = (repeats + rng.random(len(repeats))).astype(int)  # on average as often as the weight says
        order = rng.permutation(np.repeat(np.arange(len(times)), times)).tolist()
        batches = []
        for start in range(0, len(order), TOGETHER * batch):
            pool = sorted(order[start : start + TOGETHER * batch], key=lambda number: len(self.sources[number]))
            batches += [pool[first : first + batch] for first in range(0, len(pool), batch)]
        return [batches[number] for number in rng.permutation(len(batches))]

    def _example(self, number: int, epoch: int) -> Example:
        rng = rng_for(self.recipe.seed, epoch, number)
        return self.layouts.example(self.sources[number].tolist(), self.targets[number].tolist(), rng)

    def batches(self, cursor: DataCursor) -> Iterator[tuple[list[Row], DataCursor]]:
        while True:
            cut = self._cut(cursor.epoch)
            for number in range(cursor.piece, len(cut)):
                examples = [self._example(each, cursor.epoch) for each in cut[number]]
                yield packed(examples, self.recipe.row), DataCursor(cursor.epoch, number + 1)
            cursor = DataCursor(cursor.epoch + 1)

    def evaluate(self, loss: Loss) -> dict[str, float]:
        values, writer = mean_loss(loss, self.held_out, self.recipe.micro), Writer(loss.model)
        pairs = [(task.prefix, pair) for task in self.tasks for pair in task.held_out]
        order = sorted(rng_for(0, len(pairs)).permutation(len(pairs))[: self.recipe.held_out_texts].tolist())
        asked = [pairs[number] for number in order]
        written = writer.write_many([prefix + pair.source for prefix, pair in asked], method="greedy")
        scores = [
            rouge_l(rouge_units(found.text, True), rouge_units(pair.target, True))
            for found, (_, pair) in zip(written, asked, strict=True)
        ]
        return values | {"rouge_l": 100 * sum(scores) / max(len(scores), 1)}


def _listed(sources: Any) -> list[str]:
    """Files as a list, given as one or as several."""
    return [sources] if isinstance(sources, str) else [str(each) for each in sources or ()]
