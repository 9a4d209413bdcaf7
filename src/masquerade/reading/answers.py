"""Answers, and how several passages agree on one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Answer:
    """What a passage answers, where it stands there, and how probable it is. Without an answer the text is empty, and
    the score is how probable it is that there is none."""

    text: str
    score: float
    passage: int = -1  # which of the passages
    start: int = -1  # its characters in that passage
    end: int = -1
    alternatives: tuple[Answer, ...] = ()

    def __bool__(self) -> bool:
        """Is there an answer?"""
        return bool(self.text)


@dataclass(frozen=True)
class Candidate:
    """A span of one of the passages, and its probability there; or other words, which stand nowhere."""

    text: str
    share: float
    passage: int
    start: int = -1
    end: int = -1


class Sight(NamedTuple):
    """What a window shows: the best of its own spans, whose shares are still log-odds, how much more probable each is
    than that the answer is not among them; and the log-odds of all of them together."""

    spans: Sequence[Candidate]
    whole: float


def joined(sights: Sequence[Sight]) -> tuple[list[Candidate], float]:
    """Windows as one text: one span of any of them is the answer, or nothing is. Returns the spans with their
    probabilities, and that of no answer.

    Each window alone has told its spans from there being none, which is the same for all windows, so that is what they
    can be compared by: a span is as probable as its odds are among those of all spans and 1. (Its probability in its
    window is not: where there is no answer, and that is not quite sure, one wrong span may well have all of the rest,
    while a right one shares its window with others that begin or end a word away.)"""
    total = float(np.logaddexp.reduce([0.0, *(sight.whole for sight in sights)]))
    spans = [replace(span, share=math.exp(span.share - total)) for sight in sights for span in sight.spans]
    return spans, math.exp(-total)


Vote = Callable[[Sequence[float]], float]

VOTES: dict[str, Vote] = {  # how the probabilities of one answer in several passages become one score
    "best": max,
    "all": lambda shares: sum(share * share for share in shares) / (sum(shares) + 1),
}


def merged(candidates: Sequence[Candidate], none: float, vote: Vote, n_best: int, threshold: float) -> Answer:
    """The answer that candidates from windows of any passages amount to: the same words count once in each passage,
    whether at two places or in two windows, and are one answer in several. ``none`` is how probable it is that there
    is no answer; there is none either where no candidate reaches the threshold, whatever the vote."""
    texts = dict[str, dict[int, Candidate]]()  # the best place of each text in each passage, the best passage first
    for each in sorted(candidates, key=lambda each: -each.share):
        if each.text:
            texts.setdefault(each.text.casefold(), {}).setdefault(each.passage, each)
    answers = []
    for found in texts.values():
        best = next(iter(found.values()))
        score = vote([each.share for each in found.values()])
        answers.append(Answer(best.text, score, best.passage, best.start, best.end))
    answers.sort(key=lambda answer: -answer.score)
    chosen = answers[:n_best]
    if not chosen or max(each.share for each in candidates if each.text) < threshold:
        return Answer("", none, alternatives=tuple(chosen))
    return replace(chosen[0], alternatives=tuple(chosen[1:]))
