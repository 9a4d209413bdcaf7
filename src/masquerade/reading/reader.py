"""The reader: a question and a text in, the exact answer out, with where it stands and how sure it is."""

from __future__ import annotations

import math
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from masquerade import kernels
from masquerade.checkpoints.folders import load
from masquerade.decoding.spans import SpanChoice, choose_spans
from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.reading.answers import VOTES, Answer, Candidate, Sight, joined, merged
from masquerade.reading.decoders import DRAFTS, METHODS, write_answers
from masquerade.reading.layouts import Sheet, Window
from masquerade.reading.memory import Memory, encode, recall
from masquerade.reading.span_scores import PARTS, mark
from masquerade.text.tokenizer import Tokenizer

DECODERS = tuple(METHODS)
SHIPPED = {"en": "reader-en", "zh": "reader-zh"}  # the readers that come with Masquerade

STORED = {"float16": torch.float16, "float32": torch.float32}
TOKENS = 8192  # tokens that go through the network at once, padding included
TOGETHER = 16  # windows that are remembered at once


@dataclass(frozen=True)
class Settings:
    """What a reader was trained with, kept in its configuration."""

    slots: int  # tokens of an answer that is filled in, at most
    question: int  # tokens of a question at most
    parts: Mapping[str, float]  # who speaks, and how much each counts
    threshold: float = 0.0  # no answer if the best one has a lower probability
    written: Mapping[str, float] = field(default_factory=lambda: {"words": 1.0})  # who speaks where answers are written
    stored: str = "float16"  # the precision of what is remembered; "float32" where half of it changes answers
    reach: int = 0  # tokens of an answer whose end is pointed at, at most; 0: as many as slots

    @staticmethod
    def of(model: Model) -> Settings:
        """The settings of a model that is a reader."""
        said = model.config.get("reading")
        if not isinstance(said, dict) or model.spec.fork is None:
            raise MasqueradeError("This model is no reader; train one with 'masquerade train reader'.")
        parts = said.get("parts") or {}
        if set(parts) - set(PARTS) or not any(parts.values()):
            raise MasqueradeError(
                "Nobody of this reader speaks: 'parts' under 'reading' in its configuration has to be weights of "
                f"{', '.join(PARTS)}, one of them above 0."
            )
        if said.get("stored", "float16") not in STORED:
            raise MasqueradeError(f"A reader remembers passages as {' or '.join(STORED)}, not as '{said['stored']}'.")
        return Settings(**said)

    def put(self, model: Model) -> Model:
        """The model with these settings."""
        model.config["reading"] = asdict(self)
        return model

    def sheet(self, model: Model) -> Sheet:
        """How questions and passages are laid out for the model."""
        longest = model.spec.longest - model.spec.position_offset
        return Sheet.of(model.tokenizer, self.slots, self.question, longest, self.reach)


class Reader:
    """A model with heads that find answers, ready to be asked."""

    def __init__(self, model: Model, memory: int = 512 * 2**20, stored: torch.dtype | None = None) -> None:
        kernels.use()
        self.model, self.settings = model.eval(), Settings.of(model)
        self.sheet, self.tokenizer = self.settings.sheet(model), model.tokenizer
        self.memory = Memory(memory, stored or STORED[self.settings.stored])

    @staticmethod
    def load(source: str | Path) -> Reader:
        """A reader that comes with Masquerade ("en", "zh"), or one in a folder, a run's folder, or under a hub id."""
        return Reader(load(shipped(str(source)) if source in SHIPPED else source))

    def ask(
        self,
        question: str,
        passages: str | Sequence[str],
        n_best: int = 1,
        vote: str = "best",
        decoder: str = "parallel",
        free: bool = False,
    ) -> Answer:
        """The answer to a question from a passage, or from several; the settings are those of ``ask_many``."""
        return self.ask_many([(question, passages)], n_best, vote, decoder, free)[0]

    def ask_many(
        self,
        questions: Sequence[tuple[str, str | Sequence[str]]],
        n_best: int = 1,
        vote: str = "best",
        decoder: str = "parallel",
        free: bool = False,
        done: Callable[[int], None] = lambda count: None,
    ) -> list[Answer]:
        """The answer to each question from its passage or passages, with the next best ones as alternatives.

        ``vote`` says how passages agree on an answer (VOTES): by the "best" span as if they were one text, or "all" of
        them, each of which has answered by itself. ``decoder`` says how it comes about (DECODERS): all at once as
        the best span by all heads, or written, each word from the vocabulary or copied, or as the best of these spans
        when they are read word by word ("rerank"). With ``free`` it may be any words. ``done`` is told how many more
        questions have been asked of a window, for a progress bar.
        """
        _check(n_best, vote, decoder)
        asked = [_checked(text, given) for text, given in questions]
        ids = self.sheet.questions(self.tokenizer, [text for text, _ in asked])
        windows = self._windows(passage for _, given in asked for passage in given)
        jobs = dict[tuple[int, ...], list[Ask]]()
        for index, (_, given) in enumerate(asked):
            for number, passage in enumerate(given):
                for window in windows[passage]:
                    jobs.setdefault(window.ids, []).append(Ask(index, ids[index], number, passage, window))
        candidates, none = list[list[Candidate]]([[] for _ in asked]), [1.0] * len(asked)
        at_once, sights = decoder == "parallel" and not free, defaultdict[tuple[int, int], dict[Hashable, Sight]](dict)
        for batch in self._batches(jobs):
            if at_once:
                for ask, sight in self._pointed(batch, n_best):
                    text = ask.question, ask.passage if vote == "all" else 0
                    sights[text].setdefault((ask.window.ids, ask.window.own), sight)  # said again, it is nothing new
            else:
                for ask, texts, nothing in self._written(batch, n_best, decoder, free):
                    candidates[ask.question] += texts
                    none[ask.question] = min(none[ask.question], nothing)
            done(sum(map(len, batch)))
        for (index, _), seen in sights.items():
            spans, nothing = joined(list(seen.values()))
            candidates[index] += spans
            none[index] = min(none[index], nothing)
        threshold = self.settings.threshold if at_once else 0.0  # a written answer's probability is that of its words
        return [
            merged(found, nothing, VOTES[vote], n_best, threshold)
            for found, nothing in zip(candidates, none, strict=True)
        ]

    def remember(self, passages: str | Sequence[str], done: Callable[[int], None] = lambda count: None) -> None:
        """Read passages as far as they are shared by their questions, and keep that for questions to come; no more of
        them than the memory has room for. ``done`` is told how many more windows have been read."""
        given = [passages] if isinstance(passages, str) else list(passages)
        found = {window.ids: window for held in self._windows(given).values() for window in held}
        windows = sorted(found.values(), key=lambda window: len(window.ids))
        for start in range(0, len(windows), TOGETHER):
            part = windows[start : start + TOGETHER]
            with torch.inference_mode():
                for window, kept in zip(part, encode(self.model, self.sheet, part), strict=True):
                    self.memory.put(window.ids, kept)
            done(len(part))
            if not {windows[0].ids, part[-1].ids} <= self.memory.held.keys():  # what comes now would push out another
                break

    def _windows(self, passages: Iterable[str]) -> dict[str, list[Window]]:
        """The windows of each passage that have words in them."""
        texts = list(dict.fromkeys(passages))
        found = dict[str, list[Window]]({text: [] for text in texts})
        for window in self.sheet.windows(self.tokenizer, texts):
            if window.ids:
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
    def _spans(
        self, batch: Sequence[list[Ask]], n_best: int, longest: int
    ) -> Iterator[tuple[Ask, list[SpanChoice], float]]:
        """The best spans, of up to ``longest`` tokens, that are the windows' own, by all heads, in one pass, with their
        log-odds against the answer being none of these; and those of all such spans together."""
        windows = [asks[0].window for asks in batch]
        held = [self.memory.get(window.ids) for window in windows]
        new = [window for window, kept in zip(windows, held, strict=True) if kept is None]
        fresh = iter(encode(self.model, self.sheet, new))
        kept = [next(fresh) if each is None else each for each in held]
        rows = recall(self.model, self.sheet, kept, [[ask.ids for ask in asks] for asks in batch])
        marks = mark(self.model, rows, self.settings.parts)
        shares, none = (each.cpu().double() for each in marks.shares)
        passage = marks.passage.cpu()
        for row, ask in enumerate(ask for asks in batch for ask in asks):
            n = len(ask.window.ids)
            strange = torch.ones(n, 1, dtype=torch.bool)
            strange[slice(*ask.window.own)] = False
            others = shares[row, :n].masked_fill(~strange, -torch.inf).flatten().logsumexp(0)
            odds = shares[row, :n].masked_fill(strange, -torch.inf) - torch.logaddexp(others, none[row])
            whole = float(odds.flatten().logsumexp(0))
            yield ask, choose_spans(odds[:, :longest], passage[row, :n], n_best), whole

    def _pointed(self, batch: Sequence[list[Ask]], n_best: int) -> Iterator[tuple[Ask, Sight]]:
        """What each window shows."""
        for ask, spans, whole in self._spans(batch, n_best, self.sheet.longest_answer):
            yield ask, Sight([ask.span(each.start, each.length, each.score) for each in spans], whole)

    def _written(
        self, batch: Sequence[list[Ask]], n_best: int, decoder: str, free: bool
    ) -> Iterator[tuple[Ask, list[Candidate], float]]:
        """The best answers that a decoder writes; and how probable it is that there is none."""
        asks, drafts = [ask for asks in batch for ask in asks], list[list[tuple[int, ...]]]()
        if decoder == "rerank" and not free:
            for ask, spans, _ in self._spans(batch, max(DRAFTS, n_best), self.sheet.slots):
                drafts.append([ask.window.ids[each.start : each.start + each.length] for each in spans])
        pairs = [(ask.ids, ask.window.ids) for ask in asks]
        who = self.settings.written
        written = write_answers(self.model, self.sheet, pairs, decoder, who, n_best, free, drafts=drafts)
        for ask, texts in zip(asks, written, strict=True):
            found = [ask.words(tuple(each.ids), math.exp(each.score), self.tokenizer) for each in texts]
            yield ask, found, sum(each.share for each in found if not each.text)


@dataclass(frozen=True)
class Ask:
    """A question asked of a window of one of its passages."""

    question: int  # which of the questions
    ids: list[int]  # … and its ids
    passage: int  # which of its passages
    text: str  # … and its text
    window: Window

    def span(self, start: int, length: int, share: float) -> Candidate:
        """Some tokens of the window, as a candidate."""
        begin, end = self.window.places[start][0], self.window.places[start + length - 1][1]
        while end < len(self.text) and unicodedata.combining(self.text[end]):  # an accent is no token of its own
            end += 1
        return Candidate(self.text[begin:end], share, self.passage, begin, end)

    def words(self, ids: tuple[int, ...], share: float, tokenizer: Tokenizer) -> Candidate:
        """What was written, as the first span of the window that it is, or as words that are not there."""
        for start in range(len(self.window.ids) - len(ids) + 1 if ids else 0):
            if self.window.ids[start : start + len(ids)] == ids:
                return self.span(start, len(ids), share)
        return Candidate(tokenizer.decode(ids), share, self.passage)


def shipped(name: str) -> Path:
    """The folder of a reader that comes with Masquerade: inside of the installed package, or in a clone."""
    package = Path(__file__).parents[1]
    for home in (package / "models", package.parents[1] / "models"):
        if (home / SHIPPED[name] / "config.json").is_file():
            return home / SHIPPED[name]
    raise MasqueradeError(
        f"The reader '{name}' is not part of this installation; take models/{SHIPPED[name]} of its repository, "
        "and give its folder as the model."
    )


def _check(n_best: int, vote: str, decoder: str) -> None:
    """Refuse settings that do not exist."""
    if n_best < 1:
        raise MasqueradeError(f"The best {n_best} answers cannot be listed; ask for at least one.")
    if vote not in VOTES:
        raise MasqueradeError(f"There is no vote '{vote}'; choose from {', '.join(VOTES)}.")
    if decoder not in DECODERS:
        raise MasqueradeError(f"There is no decoder '{decoder}'; choose from {', '.join(DECODERS)}.")


def _checked(question: str, passages: str | Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A question and its passages, some of which have something in them."""
    given = (passages,) if isinstance(passages, str) else tuple(passages)
    if not question.strip():
        raise MasqueradeError("The question is empty; ask something.")
    if not any(passage.strip() for passage in given):
        raise MasqueradeError("There is no text to read the answer from; give a passage with words in it.")
    try:
        "".join((question, *given)).encode()
    except UnicodeEncodeError as error:
        raise MasqueradeError("The question or a passage has half of a character in it; read it as UTF-8.") from error
    return question, given
