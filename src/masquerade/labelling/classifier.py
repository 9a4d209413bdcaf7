"""Classes and numbers for texts and pairs of texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from masquerade.checkpoints.folders import load
from masquerade.errors import MasqueradeError
from masquerade.labelling.predict import predict, under_own_mask
from masquerade.labelling.records import SEPARATOR, Classified
from masquerade.labelling.scores import class_scores, label_set_scores, number_scores
from masquerade.layout import Layout
from masquerade.nn.model import Model

PROBLEM, SEVERAL = "problem_type", "multi_label_classification"  # how published configurations say it
PRESENT = 0.5  # the least probability of a label, where a text may have several


@dataclass(frozen=True)
class Prediction:
    """The label of a text with its probability, and those of all labels; or a number. Several labels are joined by
    '|', with the probability of the least probable."""

    label: str
    score: float
    scores: dict[str, float]


class Classifier:
    """A model with a ``classify`` head. A model with a single label predicts numbers."""

    def __init__(self, model: Model, length: int | None = None) -> None:
        if "classify" not in model.spec.all_heads:
            raise MasqueradeError("This model has no 'classify' head; train one with 'masquerade train classifier'.")
        self.model, self.tokenizer = model, model.tokenizer
        self.length = min(length or model.spec.longest, model.spec.longest)

    @staticmethod
    def load(source: str | Path) -> Classifier:
        """The classifier in a folder, a run's folder, or under a hub id."""
        return Classifier(load(source))

    def __call__(
        self, texts: Sequence[str | tuple[str, str | None]], done: Callable[[int], None] = lambda count: None
    ) -> list[Prediction]:
        """The prediction for each text or pair of texts."""
        pairs = [(text, None) if isinstance(text, str) else text for text in texts]
        if not all(text.strip() for text, _ in pairs):
            raise MasqueradeError("An empty text cannot be classified; give one with words in it.")
        found = predict(self.model, lay_out(self.model, pairs, self.length), "classify", done)
        return [self.prediction(scores) for scores in found]

    @property
    def several(self) -> bool:
        """Whether a text may have several labels, or none."""
        return bool(self.model.config.get(PROBLEM) == SEVERAL)

    def prediction(self, scores: Tensor) -> Prediction:
        """The prediction of scores (labels,)."""
        labels = self.model.spec.labels
        if self.several:
            odds = dict(zip(labels, scores.sigmoid().tolist(), strict=True))
            found = [label for label in labels if odds[label] >= PRESENT]
            sure = min(odds[label] for label in found) if found else 1.0 - max(odds.values())
            return Prediction(SEPARATOR.join(found), sure, odds)
        if len(labels) == 1:
            value = float(scores[0])
            return Prediction(f"{value:.4g}", value, {labels[0]: value})
        shares = dict(zip(labels, scores.softmax(-1).tolist(), strict=True))
        best = max(shares, key=lambda label: shares[label])
        return Prediction(best, shares[best], shares)

    def evaluate(
        self, records: Sequence[Classified], done: Callable[[int], None] = lambda count: None
    ) -> tuple[dict[str, float], list[Prediction]]:
        """The scores of the predictions for labelled records, and the predictions."""
        if not self.several and any(record.label is None for record in records):
            raise MasqueradeError("Some records have no label, so predictions cannot be scored; add the labels.")
        predictions = self([(record.text, record.pair) for record in records], done)
        return self.scored(predictions, records), predictions

    def scored(self, predictions: Sequence[Prediction], records: Sequence[Classified]) -> dict[str, float]:
        """The scores of predictions for labelled records."""
        if self.several:
            guessed = [Classified("", label=each.label).labels for each in predictions]
            return label_set_scores(guessed, [record.labels for record in records])
        true = [str(record.label) for record in records]
        if len(self.model.spec.labels) == 1:
            return number_scores([each.score for each in predictions], numbers(true))
        return class_scores([each.label for each in predictions], true)


def lay_out(model: Model, texts: Sequence[tuple[str, str | None]], length: int) -> list[Layout]:
    """The layouts of texts or pairs of texts, under the model's mask."""
    encoded = model.tokenizer.encode_pairs(texts, length)
    return [under_own_mask(model, ids).replace(segment=segments) for ids, segments in encoded]


def numbers(labels: Sequence[str]) -> list[float]:
    """Labels as numbers."""
    try:
        return [float(label) for label in labels]
    except ValueError as error:
        raise MasqueradeError(f"A label is not a number ({error}); regression needs numbers.") from error
