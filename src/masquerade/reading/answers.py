"""Answers, and one answer from the candidates of several passages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from masquerade.reading.nbest import repeats


@dataclass(frozen=True)
class Answer:
    """An answer, its probability, and its place in a passage. If there is no answer, the text is empty and the score is
    the probability of no answer."""

    text: str
    score: float
    passage: int = -1  # the number of the passage
    start: int = -1  # the first character in the passage
    end: int = -1  # the character after the last
    alternatives: tuple[Answer, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is an answer."""
        return bool(self.text)


@dataclass(frozen=True)
class Candidate:
    """A span of a passage with its probability; or a generated text, which need not be in the passage."""

    text: str
    score: float
    passage: int
    start: int = -1
    end: int = -1


Vote = Callable[[Sequence[float]], float]

VOTES: dict[str, Vote] = {  # the score of an answer from its probabilities in several passages
    "best": max,
    "all": lambda scores: sum(score * score for score in scores) / (sum(scores) + 1),
}


def merged(
    candidates: Sequence[Candidate], none: float, vote: Vote, n_best: int, threshold: float, question: str = ""
) -> Answer:
    """The best answer of all candidates, with the next best as alternatives. Candidates of equal text are one answer,
    and count once for each passage. Answers that overlap a better one, or have only words of the question, are left
    out; one of the latter is the answer where there is no other. If no candidate reaches the threshold, whatever the
    vote, there is no answer, with the probability ``none``."""
    texts = dict[str, dict[int, Candidate]]()  # the best candidate of each text in each passage, best passage first
    for each in sorted(candidates, key=lambda each: -each.score):
        if each.text:
            texts.setdefault(each.text.casefold(), {}).setdefault(each.passage, each)
    answers = []
    for found in texts.values():
        best = next(iter(found.values()))
        score = vote([each.score for each in found.values()])
        answers.append(Answer(best.text, score, best.passage, best.start, best.end))
    answers.sort(key=lambda answer: -answer.score)
    chosen = _apart([each for each in answers if not repeats(each.text, question)], n_best) or answers[:1]
    reached = max((each.score for answer in chosen[:1] for each in texts[answer.text.casefold()].values()), default=0.0)
    if not chosen or reached < threshold:
        return Answer("", none, alternatives=tuple(chosen))
    return replace(chosen[0], alternatives=tuple(chosen[1:]))


def _apart(answers: Sequence[Answer], most: int) -> list[Answer]:
    """The first ``most`` answers that overlap no earlier one."""
    found = list[Answer]()
    for each in answers:
        if len(found) == most:
            break
        if each.start < 0 or not any(
            other.passage == each.passage and other.start < each.end and each.start < other.end for other in found
        ):
            found.append(each)
    return found
