"""Fine-tuning: labelled records in, a classifier or a tagger out, by the loop that pretrains."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

from torch import Tensor
from torch.nn import functional as F

from masquerade.checkpoints.folders import load
from masquerade.data.examples import Example
from masquerade.data.packing import Batch, Place, first_fit
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.labelling.classifier import Classifier, lay_out, numbers
from masquerade.labelling.records import Classified, Tagged, read_classified, read_tagged
from masquerade.labelling.tagger import Tagger, cut, labelled, tag_names
from masquerade.layout import IGNORE
from masquerade.nn.model import Model
from masquerade.training.loop import Job, mean_loss
from masquerade.training.loss import Loss
from masquerade.training.recipe import FineTuning


class LabelLoss(Loss):
    """The cost of wrong labels: classes of whole sequences, numbers, or tags of tokens."""

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        model, layout = self.model, batch.layout
        if batch.verdict is None:
            asked = layout.label != IGNORE
            scores = model.scores(layout, "tag", at=asked).float()
            return {"words": F.cross_entropy(scores, layout.label[asked], reduction="sum")}
        scores = model.scores(layout, "classify").float()
        if len(model.spec.labels) == 1:
            return {"verdicts": F.mse_loss(scores.squeeze(-1), batch.verdict.float(), reduction="sum")}
        return {"verdicts": F.cross_entropy(scores, batch.verdict, reduction="sum")}


class FineTune(Job):
    """A fine-tuning recipe at work. A step takes a batch of records in a new order each epoch, and packs them."""

    recipe: FineTuning
    examples: list[Example]  # one for each training sequence
    held_out: list[Example]

    def loss(self, networks: dict[str, Model]) -> Loss:
        return LabelLoss(networks[""])

    @property
    def steps(self) -> int:
        return max(1, round(self.recipe.epochs * math.ceil(len(self.examples) / self.recipe.batch)))

    def batches(self, place: Place) -> Iterator[tuple[list[list[Example]], Place]]:
        while True:
            order = rng_for(self.recipe.seed, place.epoch, len(self.examples)).permutation(len(self.examples)).tolist()
            for start in range(place.piece, len(order), self.recipe.batch):
                chosen = [self.examples[index] for index in order[start : start + self.recipe.batch]]
                yield self._packed(chosen), Place(place.epoch, start + self.recipe.batch)
            place = Place(place.epoch + 1, 0)

    def evaluate(self, loss: Loss) -> dict[str, float]:
        return mean_loss(loss, self._packed(self.held_out), self.recipe.micro) | self.scores(loss.model)

    @abstractmethod
    def scores(self, model: Model) -> dict[str, float]:
        """How good the labels of what is held out are."""

    def _packed(self, examples: Sequence[Example]) -> list[list[Example]]:
        shelves = first_fit([len(example.layout) for example in examples], self.recipe.row)
        return [[examples[index] for index in shelf] for shelf in shelves]


class TrainClassifier(FineTune):
    """Sentences or pairs of them, with a class or a number each."""

    def __init__(self, recipe: FineTuning) -> None:
        self.recipe = recipe
        names = (recipe.text, recipe.pair, recipe.label)
        train = [record for source in recipe.train for record in read_classified(source, *names)]
        self.train = train[: recipe.limit or None]
        self.test = [record for source in recipe.held_out for record in read_classified(source, *names)]
        if any(record.label is None for record in [*self.train, *self.test]):
            raise MasqueradeError("Some records have no label; name the field that holds it: label = '…'.")

    def begin(self) -> dict[str, Model]:
        labels = sorted({str(record.label) for record in self.train})
        if self.recipe.regression:
            labels = ["score"]
        elif len(labels) < 2:
            raise MasqueradeError(f"All training records have the label '{labels[0]}'; there have to be two or more.")
        return {"": load(self.recipe.start).with_heads(("classify",), tuple(labels))}

    def read(self, model: Model, folder: Path) -> None:
        self.examples, self.held_out = (self._examples(model, records) for records in (self.train, self.test))

    def scores(self, model: Model) -> dict[str, float]:
        return Classifier(model, self.recipe.length).evaluate(self.test)[0]

    def _examples(self, model: Model, records: Sequence[Classified]) -> list[Example]:
        layouts = lay_out(model.tokenizer, [(record.text, record.pair) for record in records], self.recipe.length)
        labels, known = [str(record.label) for record in records], model.spec.labels
        strange = set(labels) - set(known)
        if strange and not self.recipe.regression:
            raise MasqueradeError(
                f"The label '{min(strange)}' does not occur in training; there are {', '.join(known)}."
            )
        verdicts = numbers(labels) if self.recipe.regression else [known.index(label) for label in labels]
        return [Example(layout, verdict=verdict) for layout, verdict in zip(layouts, verdicts, strict=True)]


class TrainTagger(FineTune):
    """Texts with the entities in them."""

    def __init__(self, recipe: FineTuning) -> None:
        self.recipe = recipe
        train = [record for source in recipe.train for record in read_tagged(source)]
        self.train = train[: recipe.limit or None]
        self.test = [record for source in recipe.held_out for record in read_tagged(source)]

    def begin(self) -> dict[str, Model]:
        kinds = sorted({entity.kind for record in self.train for entity in record.entities})
        if not kinds:
            raise MasqueradeError("There is no entity in the training records, so there is nothing to learn.")
        return {"": load(self.recipe.start).with_heads(("tag",), tag_names(kinds))}

    def read(self, model: Model, folder: Path) -> None:
        self.examples, self.held_out = (self._examples(model, records) for records in (self.train, self.test))

    def scores(self, model: Model) -> dict[str, float]:
        return Tagger(model, self.recipe.length).evaluate(self.test)[0]["all"]

    def _examples(self, model: Model, records: Sequence[Tagged]) -> list[Example]:
        windows = cut(model.tokenizer, [record.text for record in records], self.recipe.length)
        known = set(model.spec.labels)
        strange = {each.kind for record in records for each in record.entities if f"B-{each.kind}" not in known}
        if strange:
            raise MasqueradeError(f"The entity '{min(strange)}' does not occur in training; take it out, or train it.")
        return [Example(labelled(each, records[each.text].entities, model.spec.labels)) for each in windows]
