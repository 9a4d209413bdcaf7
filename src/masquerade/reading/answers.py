"""Answers, and how several passages agree on one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


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
    """A span of one of the passages, and its probability there."""

    passage: int
    start: int
    end: int
    share: float


Vote = Callable[[Sequence[float]], float]

VOTES: dict[str, Vote] = {  # how the probabilities of one answer in several passages become one score
    "best": max,
    "all": lambda shares: sum(share * share for share in shares) / (sum(shares) + 1),
}


def merged(
    passages: Sequence[str], candidates: Sequence[Candidate], none: float, vote: Vote, n_best: int, threshold: float
) -> Answer:
    """The answer that candidates from windows of any passages amount to: a span that two windows share counts once,
    the same words in several passages are one answer. ``none`` is how probable it is that there is no answer."""
    places = dict[tuple[int, int, int], Candidate]()
    for each in candidates:
        place = (each.passage, each.start, each.end)
        if place not in places or places[place].share < each.share:
            places[place] = each
    texts = dict[str, dict[int, Candidate]]()  # the best place of each text in each passage
    for each in sorted(places.values(), key=lambda each: -each.share):
        text = passages[each.passage][each.start : each.end]
        texts.setdefault(text.casefold(), {}).setdefault(each.passage, each)
    answers = []
    for found in texts.values():
        best = next(iter(found.values()))
        text = passages[best.passage][best.start : best.end]
        score = vote([each.share for each in found.values()])
        answers.append(Answer(text, score, best.passage, best.start, best.end))
    answers.sort(key=lambda answer: -answer.score)
    chosen = tuple(answers[:n_best])
    if not chosen or chosen[0].score < threshold:
        return Answer("", none, alternatives=chosen)
    best_one, *others = chosen
    return Answer(best_one.text, best_one.score, best_one.passage, best_one.start, best_one.end, tuple(others))
