"""Scores of labels: accuracy and F1 of classes, correlation of numbers, precision and recall of entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.labelling.records import Entity


def class_scores(predicted: Sequence[str], true: Sequence[str]) -> dict[str, float]:
    """The accuracy, and the mean F1 of the classes."""
    right, guessed, there = Counter[str](), Counter(predicted), Counter(true)
    right.update(guess for guess, label in zip(predicted, true, strict=True) if guess == label)
    each = [_f1(right[label], guessed[label], there[label]) for label in sorted({*predicted, *true})]
    return {"accuracy": right.total() / max(len(true), 1), "macro_f1": sum(each) / max(len(each), 1)}


def label_set_scores(predicted: Sequence[Collection[str]], true: Sequence[Collection[str]]) -> dict[str, float]:
    """The share of texts with exactly the right labels, the F1 of all labels together, and the mean F1 of labels."""
    pairs = [(set(guess), set(labels)) for guess, labels in zip(predicted, true, strict=True)]
    right, guessed, there = Counter[str](), Counter[str](), Counter[str]()
    for guess, labels in pairs:
        right.update(guess & labels)
        guessed.update(guess)
        there.update(labels)
    each = [_f1(right[label], guessed[label], there[label]) for label in sorted({*guessed, *there})]
    return {
        "accuracy": sum(guess == labels for guess, labels in pairs) / max(len(pairs), 1),
        "micro_f1": _f1(right.total(), guessed.total(), there.total()),
        "macro_f1": sum(each) / max(len(each), 1),
    }


def number_scores(predicted: Sequence[float], true: Sequence[float]) -> dict[str, float]:
    """The correlation of values (Pearson) and of ranks (Spearman), and the mean absolute error."""
    guess, value = np.asarray(predicted, dtype=float), np.asarray(true, dtype=float)
    return {
        "pearson": _correlation(guess, value),
        "spearman": _correlation(_ranks(guess), _ranks(value)),
        "mean_error": float(np.abs(guess - value).mean()) if len(value) else 0.0,
    }


def entity_scores(
    predicted: Sequence[Sequence[Entity]], true: Sequence[Sequence[Entity]]
) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of exact entities (kind, start and end), by kind and for ``all``."""
    right, guessed, there = Counter[str](), Counter[str](), Counter[str]()
    for guess, truth in zip(predicted, true, strict=True):
        for found, counter in ((set(guess), guessed), (set(truth), there), (set(guess) & set(truth), right)):
            counter.update(each.kind for each in found)
            counter["all"] += len(found)
    return {
        kind: {
            "precision": right[kind] / max(guessed[kind], 1),
            "recall": right[kind] / max(there[kind], 1),
            "f1": _f1(right[kind], guessed[kind], there[kind]),
        }
        for kind in ["all", *sorted({*guessed, *there} - {"all"})]
    }


def _f1(right: int, guessed: int, there: int) -> float:
    return 2 * right / (guessed + there) if guessed + there else 0.0


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rank of each value; equal values have the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: NDArray[np.float64] = (last - (counts - 1) / 2)[inverse]
    return mean
