"""Texts in several languages: each is read by the shipped reader of its language."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from masquerade.documents.document import language
from masquerade.reading.answers import Answer
from masquerade.reading.reader import Reader


class LanguageReaders:
    """The shipped readers as one: a question is read with each text by the reader of their language, and the answers
    are compared by their probabilities. A Chinese question about an English text is one for the Chinese reader."""

    def __init__(self, load: Callable[[str], Reader] = Reader.load) -> None:
        self.reader = cache(load)

    def windows(self, passages: Sequence[str]) -> int:
        """The number of windows of some texts."""
        groups = self._groups("", passages).items()
        return sum(len(self.reader(name).cut(_chosen(passages, numbers)).windows) for name, numbers in groups)

    def remember(self, passages: Sequence[str], done: Callable[[int], None] = lambda count: None) -> None:
        """Encode texts for later questions, each by the reader of its language."""
        for name, numbers in self._groups("", passages).items():
            self.reader(name).remember(_chosen(passages, numbers), done)

    def ask_many(self, questions: Sequence[tuple[str, Sequence[str]]], n_best: int = 1, **options: Any) -> list[Answer]:
        """The answer to each question from its texts; the options are those of ``Reader.ask_many``."""
        found = []
        for question, passages in questions:
            answers = list[Answer]()
            for name, numbers in self._groups(question, passages).items():
                asked = [(question, _chosen(passages, numbers))]
                answer = self.reader(name).ask_many(asked, n_best, **options)[0]
                others = tuple(_moved(each, numbers) for each in answer.alternatives)
                answers.append(replace(_moved(answer, numbers), alternatives=others))
            found.append(best_of(answers, n_best))
        return found

    def _groups(self, question: str, passages: Sequence[str]) -> dict[str, list[int]]:
        """The numbers of the texts by the language that they are read in."""
        groups = defaultdict[str, list[int]](list)
        for number, passage in enumerate(passages):
            groups[language(question, passage)].append(number)
        return groups


def best_of(answers: Sequence[Answer], n_best: int) -> Answer:
    """The best of several answers to one question, with the next best as alternatives. No answer is the best only if
    all of them are none."""
    if not answers:
        return Answer("", 1.0)
    found = [each for each in answers if each]
    if not found:
        none = min(answers, key=lambda answer: answer.score)
        return replace(none, alternatives=_sorted(answers)[:n_best])
    several = _sorted(found)
    return replace(several[0], alternatives=several[1:n_best])


def _sorted(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """All answers and alternatives with a text, the most probable first."""
    every = [replace(each, alternatives=()) for answer in answers for each in (answer, *answer.alternatives) if each]
    return tuple(sorted(every, key=lambda each: -each.score))


def _chosen(passages: Sequence[str], numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(passages[number] for number in numbers)


def _moved(answer: Answer, numbers: Sequence[int]) -> Answer:
    """An answer from some of the texts with its number among all of them."""
    return answer if answer.passage < 0 else replace(answer, passage=numbers[answer.passage])
