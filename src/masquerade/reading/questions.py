"""Questions as users give them, checked; and a question for one window of a text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from masquerade.errors import MasqueradeError
from masquerade.reading.answers import VOTES, Candidate
from masquerade.reading.decoders import DECODERS
from masquerade.reading.layouts import Window
from masquerade.text.tokenizer import Tokenizer

Question = tuple[str, str | Sequence[str]] | Mapping[str, Any]


@dataclass(frozen=True)
class WindowQuestion:
    """A question for one window of one of its passages."""

    question: int  # the number of the question
    ids: list[int]  # … and its ids
    passage: int  # the number of the passage
    text: str  # … and its text
    window: Window
    tokens: tuple[int, ...] | None = None  # the window's tokens that are read, by their indices; None for all
    prior: float = 0.0  # what is added to the log-odds of its spans

    @property
    def length(self) -> int:
        """The number of tokens that are read."""
        return len(self.window.ids) if self.tokens is None else len(self.tokens)

    @property
    def places(self) -> Sequence[tuple[int, int]]:
        """The characters of the tokens that are read."""
        return self.window.places if self.tokens is None else [self.window.places[token] for token in self.tokens]

    def span(self, start: int, length: int, score: float) -> Candidate:
        """A span of the tokens that are read as a candidate."""
        start = start if self.tokens is None else self.tokens[start]
        begin, end = self.window.places[start][0], self.window.places[start + length - 1][1]
        while end < len(self.text) and unicodedata.combining(self.text[end]):  # a combining accent is no token
            end += 1
        while begin < end and self.text[begin].isspace():  # in some vocabularies a token includes a blank
            begin += 1
        while end > begin and self.text[end - 1].isspace():
            end -= 1
        return Candidate(self.text[begin:end], score, self.passage, begin, end)

    def text_of(self, ids: tuple[int, ...], score: float, tokenizer: Tokenizer) -> Candidate:
        """Generated ids as a candidate: the first span of the window that equals them, or else their text."""
        for start in range(len(self.window.ids) - len(ids) + 1 if ids else 0):
            if self.window.ids[start : start + len(ids)] == ids:
                return self.span(start, len(ids), score)
        return Candidate(tokenizer.decode(ids), score, self.passage)


def check_options(n_best: int, vote: str, decoder: str, threshold: float | None) -> None:
    """An error for options that do not exist."""
    if isinstance(n_best, bool) or not isinstance(n_best, Integral) or n_best < 1:
        raise MasqueradeError(f"'n_best' has to be a whole number of at least 1, not {n_best!r}.")
    if vote not in VOTES:
        raise MasqueradeError(f"There is no vote '{vote}'; choose from {', '.join(VOTES)}.")
    if decoder not in DECODERS:
        raise MasqueradeError(f"There is no decoder '{decoder}'; choose from {', '.join(DECODERS)}.")
    if threshold is not None and (isinstance(threshold, bool) or not isinstance(threshold, int | float)):
        raise MasqueradeError(f"'threshold' has to be a number from 0 to 1, not {threshold!r}.")


def checked(given: Question) -> tuple[str, tuple[str, ...]]:
    """A question and its passages; an error if one of them is missing, empty or no text."""
    if isinstance(given, Mapping):
        key = "context" if "context" in given else "passages"
        if "question" not in given or key not in given:
            raise MasqueradeError("A question as a dict needs 'question', and 'context' or 'passages'.")
        question, passages = given["question"], checked_texts(given[key])
    elif isinstance(given, tuple | list) and len(given) == 2:
        question, passages = given[0], checked_texts(given[1])
    else:
        raise MasqueradeError("A question has to be a pair (question, passages) or a dict with both.")
    if not isinstance(question, str):
        raise MasqueradeError(f"A question has to be text (str), not {type(question).__name__}.")
    if not question.strip():
        raise MasqueradeError("The question is empty; ask something.")
    if not any(passage.strip() for passage in passages):
        raise MasqueradeError("There is no text to read the answer from; give a passage with words in it.")
    try:
        "".join((question, *passages)).encode()
    except UnicodeEncodeError as error:
        raise MasqueradeError("The question or a passage has half of a character in it; read it as UTF-8.") from error
    return question, passages


def checked_texts(passages: str | Iterable[str]) -> tuple[str, ...]:
    """One passage or several as a tuple; an error if one of them is no text."""
    given = (passages,) if isinstance(passages, str | bytes) or not isinstance(passages, Iterable) else tuple(passages)
    for each in given:
        if not isinstance(each, str):
            raise MasqueradeError(f"A passage has to be text (str), not {type(each).__name__}; decode bytes first.")
    return given
