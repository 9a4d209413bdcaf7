"""Calibrated scores: maps that keep the order of scores and say how often such answers are right."""

from __future__ import annotations

import random

import pytest

from masquerade.errors import MasqueradeError
from masquerade.reading.calibration import calibrated, calibration_error, check_maps, fit_map, reliability


def drawn(count: int, share: float) -> tuple[list[float], list[bool]]:
    """Scores, and whether each answer is right: a share of the probability that its score says."""
    rng = random.Random(0)
    scores = [rng.random() for _ in range(count)]
    return scores, [rng.random() < share * score for score in scores]


def test_scores_that_say_too_much_are_mapped_to_the_shares_of_right_answers() -> None:
    scores, right = drawn(4000, 0.6)
    values = fit_map(scores, right)
    mapped = [calibrated(score, values) for score in scores]
    assert sorted(scores) == sorted(scores, key=lambda score: calibrated(score, values))
    assert calibration_error(reliability(scores, right)) > 0.15
    assert calibration_error(reliability(mapped, right)) < 0.05


def test_a_weight_counts_like_as_many_answers() -> None:
    scores, right = drawn(200, 0.8)
    weights = [1.0 if each else 3.0 for each in right]
    several = [index for index, weight in enumerate(weights) for _ in range(int(weight))]
    wanted = fit_map([scores[index] for index in several], [right[index] for index in several])
    assert fit_map(scores, right, weights) == pytest.approx(wanted, abs=1e-6)
    assert fit_map(scores, right, weights) != pytest.approx(fit_map(scores, right), abs=1e-2)


def test_without_answers_scores_stay_as_they_are() -> None:
    assert fit_map([], []) == (1.0, 0.0) and calibrated(0.3, fit_map([], [])) == pytest.approx(0.3)
    assert calibrated(0.3, None) == 0.3


@pytest.mark.parametrize("maps", [{"answer": (0.0, 1.0)}, {"none": (1.0,)}, {"other": (1.0, 0.0)}])
def test_wrong_maps_are_refused(maps: dict[str, tuple[float, ...]]) -> None:
    with pytest.raises(MasqueradeError, match="two numbers"):
        check_maps(maps)
