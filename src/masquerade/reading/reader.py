"""The reader: a question and a text in, the exact answer out, with where it stands and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from masquerade.checkpoint import load
from masquerade.decoding.spans import choose_spans
from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.reading.answers import VOTES, Answer, Candidate, merged
from masquerade.reading.layouts import Sheet, Window
from masquerade.reading.marks import Marks, mark
from masquerade.reading.memory import Memory, encode, recall

TOKENS = 8192  # tokens that go through the network at once, padding included
TOGETHER = 16  # windows that are remembered at once


@dataclass(frozen=True)
class Settings:
    """What a reader was trained with, kept in its configuration."""

    slots: int  # tokens of an answer at most
    question: int  # tokens of a question at most
    parts: Mapping[str, float] = field(default_factory=dict)  # who speaks, and how much each counts
    threshold: float = 0.0  # no answer if the best one has a lower probability

    @staticmethod
    def of(model: Model) -> Settings:
        """The settings of a model that is a reader."""
        said = model.config.get("reading")
        if not isinstance(said, dict):
            raise MasqueradeError("This model is no reader; train one with 'masquerade train reader'.")
        return Settings(**said)

    def put(self, model: Model) -> Model:
        """The model with these settings."""
        model.config["reading"] = asdict(self)
        return model

    def sheet(self, model: Model) -> Sheet:
        """How questions and passages are laid out for the model."""
        return Sheet.of(model.reader, self.slots, self.question, model.spec.longest)


class Reader:
    """A model with heads that find answers, ready to be asked."""

    def __init__(self, model: Model, memory: int = 512 * 2**20, stored: torch.dtype = torch.float16) -> None:
        self.model, self.settings = model.eval(), Settings.of(model)
        self.sheet, self.tokenizer = self.settings.sheet(model), model.reader
        self.memory = Memory(memory, stored)

    @staticmethod
    def load(source: str | Path) -> Reader:
        """A reader that comes with Masquerade ("en", "zh"), or one in a folder, a run's folder, or under a hub id."""
        return Reader(load(source))

    def ask(self, question: str, passages: str | Sequence[str], n_best: int = 1, vote: str = "best") -> Answer:
        """The answer to a question from a passage, or from several."""
        return self.ask_many([(question, passages)], n_best, vote)[0]

    def ask_many(
        self,
        questions: Sequence[tuple[str, str | Sequence[str]]],
        n_best: int = 1,
        vote: str = "best",
        done: Callable[[int], None] = lambda count: None,
    ) -> list[Answer]:
        """The answer to each question from its passage or passages. ``vote`` says how passages agree (``VOTES``);
        ``done`` is told how many more windows have been asked, for a progress bar."""
        asked = [_checked(text, given) for text, given in questions]
        ids = self.sheet.questions(self.tokenizer, [text for text, _ in asked])
        jobs, windows = (
            dict[tuple[int, ...], list[Ask]](),
            self._windows(passage for _, given in asked for passage in given),
        )
        for index, (_, given) in enumerate(asked):
            for number, passage in enumerate(given):
                for window in windows[passage]:
                    jobs.setdefault(window.ids, []).append(Ask(index, number, window))
        candidates, none = list[list[Candidate]]([[] for _ in asked]), [1.0] * len(asked)
        for batch in self._batches(jobs):
            marks = self._mark([([ids[ask.question] for ask in asks], asks[0].window) for asks in batch])
            spans, nothing = marks.shares
            for row, ask in enumerate(ask for asks in batch for ask in asks):
                candidates[ask.question] += ask.candidates(spans[row], marks.passage[row], max(n_best, 3))
                none[ask.question] = min(none[ask.question], float(nothing[row].exp()))
            done(sum(map(len, batch)))
        return [
            merged(given, found, nothing, VOTES[vote], n_best, self.settings.threshold)
            for (_, given), found, nothing in zip(asked, candidates, none, strict=True)
        ]

    def remember(self, passages: str | Sequence[str]) -> None:
        """Read passages as far as they are shared by their questions, and keep that for questions to come."""
        given = [passages] if isinstance(passages, str) else list(passages)
        windows = [window for found in self._windows(given).values() for window in found]
        windows.sort(key=lambda window: len(window.ids))
        for start in range(0, len(windows), TOGETHER):
            part = windows[start : start + TOGETHER]
            with torch.inference_mode():
                for window, kept in zip(part, encode(self.model, self.sheet, part), strict=True):
                    self.memory.put(window.ids, kept)

    def _windows(self, passages: Iterable[str]) -> dict[str, list[Window]]:
        """The windows of each passage."""
        texts = list(dict.fromkeys(passages))
        found = dict[str, list[Window]]({text: [] for text in texts})
        for window in self.sheet.windows(self.tokenizer, texts):
            found[texts[window.passage]].append(window)
        return found

    def _batches(self, jobs: Mapping[tuple[int, ...], list[Ask]]) -> Iterator[list[list[Ask]]]:
        """What is asked of each window; windows of like length together, as many as go through the network at once."""
        batch, rows = list[list[Ask]](), 0
        for ids in sorted(jobs, key=len):
            fit = max(1, TOKENS // (self.sheet.start + 1 + len(ids)))
            for start in range(0, len(jobs[ids]), fit):
                part = jobs[ids][start : start + fit]
                if batch and rows + len(part) > fit:
                    yield batch
                    batch, rows = [], 0
                batch.append(part)
                rows += len(part)
        if batch:
            yield batch

    @torch.inference_mode()
    def _mark(self, batch: Sequence[tuple[list[list[int]], Window]]) -> Marks:
        """What the heads say of every span, a row for each question of each window."""
        held = [self.memory.get(window.ids) for _, window in batch]
        fresh = iter(
            encode(self.model, self.sheet, [window for (_, window), kept in zip(batch, held, strict=True) if not kept])
        )
        rows = recall(self.model, self.sheet, [kept or next(fresh) for kept in held], [asks for asks, _ in batch])
        return mark(self.model, rows, self.settings.parts)


@dataclass(frozen=True)
class Ask:
    """A question asked of a window of one of its passages."""

    question: int
    passage: int
    window: Window

    def candidates(self, spans: Tensor, passage: Tensor, n_best: int) -> list[Candidate]:
        """The best spans by their log-probabilities (longest, slots), placed in the text; the passage's ids
        (longest,)."""
        n, places = len(self.window.ids), self.window.places
        found = choose_spans(spans[:n], passage[:n], n_best)
        return [
            Candidate(
                self.passage, places[each.start][0], places[each.start + each.length - 1][1], math.exp(each.score)
            )
            for each in found
        ]


def _checked(question: str, passages: str | Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A question and its passages, each with something in it."""
    given = (passages,) if isinstance(passages, str) else tuple(passages)
    if not question.strip():
        raise MasqueradeError("The question is empty; ask something.")
    if not any(passage.strip() for passage in given):
        raise MasqueradeError("There is no text to read the answer from; give a passage with words in it.")
    return question, given
