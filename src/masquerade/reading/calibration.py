"""Calibrated probabilities: a map from a reader's score to the share of such answers that are right.

The map is σ(a · logit(p) + b) with a > 0, so it keeps the order of scores. It is fitted on questions that the reader
was not trained on, and stored with the reader's settings: one for answers, and one for no answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from masquerade.errors import MasqueradeError

MAPS = ("answer", "none")
EDGE = 1e-6  # scores are kept this far from 0 and 1
PULL = 1.0  # how strongly a map is pulled to the identity, in questions: with few of them it hardly changes scores
LEAST = 0.05  # of a


class ReliabilityRow(NamedTuple):
    """Answers with a score between two bounds: how many, their mean score, and the share that is right."""

    low: float
    high: float
    answers: int
    score: float
    right: float


def check_maps(maps: Mapping[str, Sequence[float]]) -> None:
    """An error for maps that do not exist, or are none."""
    for name, values in maps.items():
        if name not in MAPS or len(values) != 2 or values[0] <= 0:
            raise MasqueradeError(
                f"'reading.calibration' needs two numbers, the first above 0, for each of {' and '.join(MAPS)}; "
                f"'{name}' is {list(values)}."
            )


def calibrated(score: float, values: Sequence[float] | None) -> float:
    """A score under a map; unchanged if there is none."""
    if values is None:
        return score
    slope, shift = values
    return 1 / (1 + math.exp(-slope * _logit(score) - shift))


def fit_map(
    scores: Sequence[float], right: Sequence[bool], weights: Sequence[float] | None = None
) -> tuple[float, float]:
    """The map (a, b) under which the scores of answers are most likely, given which of them are right, and how much
    each counts (1 by default); by Newton's method."""
    if not scores:
        return 1.0, 0.0
    counts = np.ones(len(scores)) if weights is None else np.asarray(weights, dtype=float)
    inputs = np.stack([[_logit(score) for score in scores], np.ones(len(scores))], axis=1)  # (questions, 2)
    wanted, start = np.asarray(right, dtype=float), np.array([1.0, 0.0])
    values = start.copy()
    for _ in range(50):
        chances = 1 / (1 + np.exp(-np.clip(inputs @ values, -30, 30)))
        slope = inputs.T @ (counts * (chances - wanted)) + PULL * (values - start)
        curve = (inputs * (counts * chances * (1 - chances))[:, None]).T @ inputs + PULL * np.eye(2)
        step = np.linalg.solve(curve, slope)
        values = values - step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-12))  # never more than 1 at once
        if float(np.abs(step).max()) < 1e-8:
            break
    return max(float(values[0]), LEAST), float(values[1])


def reliability(scores: Sequence[float], right: Sequence[bool], bins: int = 10) -> list[ReliabilityRow]:
    """The answers by their scores in equal steps from 0 to 1, those without answers left out."""
    rows = []
    place = [min(int(score * bins), bins - 1) for score in scores]
    for number in range(bins):
        chosen = [index for index, each in enumerate(place) if each == number]
        if chosen:
            mean = sum(scores[index] for index in chosen) / len(chosen)
            share = sum(right[index] for index in chosen) / len(chosen)
            rows.append(ReliabilityRow(number / bins, (number + 1) / bins, len(chosen), mean, share))
    return rows


def calibration_error(rows: Sequence[ReliabilityRow]) -> float:
    """The expected calibration error (ECE): the mean difference between score and share right, over all answers."""
    return sum(row.answers * abs(row.score - row.right) for row in rows) / max(sum(row.answers for row in rows), 1)


def _logit(score: float) -> float:
    inside = min(max(score, EDGE), 1 - EDGE)
    return math.log(inside / (1 - inside))
