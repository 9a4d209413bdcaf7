"""Probabilities of spans, of windows of a text, and of no answer.

A reader scores the spans of one window at a time, each against "no answer". A long text has several windows, and a
question may have several passages. All that turns these scores into probabilities is here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from masquerade.reading.answers import Candidate


class WindowScores(NamedTuple):
    """The best spans of a window, with log-odds as their scores, and the log-odds that any span of the window is the
    answer."""

    spans: Sequence[Candidate]
    total: float


def log_probabilities(spans: Tensor, none: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of spans and of no answer, exactly one of which is true in a row: scores (rows, starts,
    lengths) and (rows,) → the same shapes."""
    whole = torch.cat([none[:, None], spans.flatten(1)], dim=1).log_softmax(-1)
    return whole[:, 1:].view_as(spans), whole[:, 0]


def own_odds(spans: Tensor, none: Tensor, own: tuple[int, int]) -> tuple[Tensor, float]:
    """Log-odds of a window's own spans, those that begin at tokens ``own``, against any other outcome; and of all of
    them together. Log-probabilities (starts, lengths) and () → (starts, lengths), −inf for spans that are not own."""
    foreign = torch.ones(len(spans), 1, dtype=torch.bool)
    foreign[slice(*own)] = False
    others = spans.masked_fill(~foreign, -torch.inf).flatten().logsumexp(0)
    odds = spans.masked_fill(foreign, -torch.inf) - torch.logaddexp(others, none)
    return odds, float(odds.flatten().logsumexp(0))


def combined(windows: Sequence[WindowScores]) -> tuple[list[Candidate], float]:
    """The spans of all windows with their probabilities, and the probability of no answer, if the windows are one text.

    A span's probability inside its window cannot be compared with that in another. Its odds can, since every window
    measures them against the same outcome, no answer: a span's probability is its odds divided by 1 plus the odds of
    all spans.
    """
    total = float(np.logaddexp.reduce([0.0, *(window.total for window in windows)]))
    spans = [replace(span, score=math.exp(span.score - total)) for window in windows for span in window.spans]
    return spans, math.exp(-total)
