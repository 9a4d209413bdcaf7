"""Fine-tuning of classifiers and taggers on labelled records."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from masquerade.checkpoints.folders import load
from masquerade.data.examples import Example, PerExample, TokenIndex
from masquerade.data.packing import DataCursor, Row, packed
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.labelling.classifier import PROBLEM, SEVERAL, Classifier, lay_out, numbers
from masquerade.labelling.predict import sentence_tokens
from masquerade.labelling.records import Classified, Tagged, read_classified, read_tagged
from masquerade.labelling.tagger import Tagger, cut, labelled, tag_names
from masquerade.layout import Layout
from masquerade.nn.features import with_features
from masquerade.nn.model import Model
from masquerade.objectives.loss import LabelSetTerm, Loss, SentenceTerm, Term, TermLoss, TokenTerm
from masquerade.objectives.networks import savable
from masquerade.training.checkpoints import Store
from masquerade.training.loop import TrainingJob, mean_loss
from masquerade.training.recipe import FineTuning


def begun(recipe: FineTuning) -> Model:
    """The network that a recipe starts from, with ELMo's features if it names some."""
    model = load(recipe.start)
    if not recipe.features:
        return model
    folder = Path(recipe.features).expanduser()
    found = folder if (folder / "backward").is_dir() else Store(folder).latest()
    if found is None or not (found / "backward").is_dir():
        raise MasqueradeError(f"'{recipe.features}' is no run of ELMo's; pretrain one with objective=elmo.")
    return with_features(model, load(found), load(found / "backward"))


def with_labels(model: Model, head: str, labels: tuple[str, ...]) -> Model:
    """The model with one head, in our own format if its family does not have that head."""
    found = model.with_heads((head,), labels)
    found.spec = savable(found.spec)
    return found


class FineTune(TrainingJob):
    """The job of a fine-tuning recipe. A step packs a batch of records, which come in a new order each epoch."""

    recipe: FineTuning
    terms: ClassVar[Mapping[str, Term]]  # of the loss
    examples: list[Example]  # one for each training sequence
    held_out: list[Example]

    def loss(self, networks: dict[str, Model]) -> Loss:
        return TermLoss(networks[""], self.terms)

    @property
    def steps(self) -> int:
        return max(1, round(self.recipe.epochs * math.ceil(len(self.examples) / self.recipe.batch)))

    def batches(self, cursor: DataCursor) -> Iterator[tuple[list[Row], DataCursor]]:
        recipe, count = self.recipe, len(self.examples)
        while True:
            order = rng_for(recipe.seed, cursor.epoch, count).permutation(count).tolist()
            for start in range(cursor.piece, count, recipe.batch):
                chosen = [self.examples[index] for index in order[start : start + recipe.batch]]
                yield packed(chosen, recipe.row), DataCursor(cursor.epoch, start + recipe.batch)
            cursor = DataCursor(cursor.epoch + 1)

    def evaluate(self, loss: Loss) -> dict[str, float]:
        rows = packed(self.held_out, self.recipe.row)
        return mean_loss(loss, rows, self.recipe.micro) | self.scores(loss.model)

    @abstractmethod
    def scores(self, model: Model) -> dict[str, float]:
        """The scores of the predicted labels on the held-out records."""


class TrainClassifier(FineTune):
    """Texts or pairs of texts, each with a class, a number, or any number of labels."""

    def __init__(self, recipe: FineTuning) -> None:
        self.recipe = recipe
        names = (recipe.text, recipe.pair, recipe.label)
        train = [record for source in recipe.train for record in read_classified(source, *names)]
        self.train = train[: recipe.limit or None]
        self.test = [record for source in recipe.held_out for record in read_classified(source, *names)]
        check_labels(recipe, [*self.train, *self.test])

    def begin(self) -> dict[str, Model]:
        return {"": new_classifier(begun(self.recipe), self.recipe, self.train)}

    def loss(self, networks: dict[str, Model]) -> Loss:
        term = LabelSetTerm("classify") if self.recipe.several else SentenceTerm("classify")
        return TermLoss(networks[""], {"classes": term})

    def read(self, model: Model, folder: Path) -> None:
        self.examples, self.held_out = (self._examples(model, records) for records in (self.train, self.test))

    def scores(self, model: Model) -> dict[str, float]:
        return Classifier(model, self.recipe.length).evaluate(self.test)[0]

    def _examples(self, model: Model, records: Sequence[Classified]) -> list[Example]:
        layouts = lay_out(model, [(record.text, record.pair) for record in records], self.recipe.length)
        targets = class_targets(model, self.recipe, records)
        return [class_example(model, layout, target) for layout, target in zip(layouts, targets, strict=True)]


def check_labels(recipe: FineTuning, records: Sequence[Classified]) -> None:
    """An error for records without a label."""
    if not recipe.several and any(record.label is None for record in records):
        raise MasqueradeError("Some records have no label; name the field that holds it: label = '…'.")


def new_classifier(model: Model, recipe: FineTuning, records: Sequence[Classified]) -> Model:
    """An encoder with a fresh head for the labels of the training records."""
    if recipe.several:
        labels = sorted({label for record in records for label in record.labels})
        if not labels:
            raise MasqueradeError("No training record has a label; a classifier needs some to learn from.")
        made = with_labels(model, "classify", tuple(labels))
        made.config = {**made.config, PROBLEM: SEVERAL}
        return made
    labels = sorted({str(record.label) for record in records})
    if recipe.regression:
        labels = ["score"]
    elif len(labels) < 2:
        raise MasqueradeError(f"All training records have the label '{labels[0]}'; a classifier needs two labels.")
    return with_labels(model, "classify", tuple(labels))


def class_targets(model: Model, recipe: FineTuning, records: Sequence[Classified]) -> list[PerExample]:
    """What a classifier predicts for each record: the number of its class, its number, or a 0 or 1 for each label."""
    known = model.spec.labels
    names = [record.labels if recipe.several else (str(record.label),) for record in records]
    unknown = {name for some in names for name in some} - set(known)
    if unknown and not recipe.regression:
        raise MasqueradeError(f"The label '{min(unknown)}' does not occur in training; there are {', '.join(known)}.")
    if recipe.several:
        return [PerExample([[int(label in some) for label in known]]) for some in names]
    labels = [some[0] for some in names]
    return [PerExample(each) for each in (numbers(labels) if recipe.regression else map(known.index, labels))]


def class_example(model: Model, layout: Layout, target: PerExample) -> Example:
    """A text, laid out, with what a classifier predicts for it."""
    first = TokenIndex(sentence_tokens(model, layout).nonzero()[:, 0])
    return Example(layout, extra={"sentence_label": target, "sentence_token": first})


class TrainTagger(FineTune):
    """Texts with their entities."""

    terms: ClassVar = {"tags": TokenTerm("tag")}

    def __init__(self, recipe: FineTuning) -> None:
        self.recipe = recipe
        train = [record for source in recipe.train for record in read_tagged(source)]
        self.train = train[: recipe.limit or None]
        self.test = [record for source in recipe.held_out for record in read_tagged(source)]

    def begin(self) -> dict[str, Model]:
        kinds = sorted({entity.kind for record in self.train for entity in record.entities})
        if not kinds:
            raise MasqueradeError("There is no entity in the training records; a tagger needs some to learn from.")
        return {"": with_labels(begun(self.recipe), "tag", tag_names(kinds))}

    def read(self, model: Model, folder: Path) -> None:
        self.examples, self.held_out = (self._examples(model, records) for records in (self.train, self.test))

    def scores(self, model: Model) -> dict[str, float]:
        return Tagger(model, self.recipe.length).evaluate(self.test)[0]["all"]

    def _examples(self, model: Model, records: Sequence[Tagged]) -> list[Example]:
        windows = cut(model, [record.text for record in records], self.recipe.length)
        known = set(model.spec.labels)
        unknown = {each.kind for record in records for each in record.entities if f"B-{each.kind}" not in known}
        if unknown:
            raise MasqueradeError(f"The entity '{min(unknown)}' does not occur in training; remove it, or train on it.")
        return [Example(labelled(each, records[each.text].entities, model.spec.labels)) for each in windows]
