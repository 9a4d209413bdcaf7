"""The reader: answers to questions from texts, with their probabilities and places."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from masquerade import kernels
from masquerade.checkpoints.folders import load
from masquerade.decoding.spans import choose_spans
from masquerade.documents.line_ends import JoinedText, join_line_ends
from masquerade.errors import MasqueradeError
from masquerade.nn.model import Model
from masquerade.reading.answers import VOTES, Answer, Candidate, merged
from masquerade.reading.blocks import choose_blocks, own_range, unbroken
from masquerade.reading.calibration import calibrated, check_maps
from masquerade.reading.decoders import DRAFTS, write_answers
from masquerade.reading.layouts import ReaderLayout, Window
from masquerade.reading.lexical import WindowIndex
from masquerade.reading.memory import (
    EncodedPassage,
    Memory,
    block_scorer,
    encode_apart,
    encode_passages,
    encode_questions,
)
from masquerade.reading.nbest import SPARE, best_spans
from masquerade.reading.odds import WindowScores, combined, log_probabilities, own_odds
from masquerade.reading.questions import Question, WindowQuestion, check_options, checked, checked_texts
from masquerade.reading.shipped import SHIPPED, shipped
from masquerade.reading.span_scores import PARTS, score_spans

STORED = {"float16": torch.float16, "float32": torch.float32}
WINDOWS = 16  # windows of a long text that are read for a question
PART = 256  # tokens of a window of a text that does not fit into one; in larger ones, wrong answers win more often
FIT = 0.1  # how much of the BM25 score by which a window is behind the best one is taken from its log-odds
KEPT = 4  # texts whose windows are kept from one call to the next
RECENT = 4  # of the memory for encoded passages, one part in this many more is for windows that were read lately
TOGETHER = 16  # windows that are encoded together by ``remember``


@dataclass(frozen=True)
class Settings:
    """The settings of a reader, kept in its configuration."""

    slots: int  # the greatest number of tokens of an answer in slots
    question: int  # the greatest number of tokens of a question
    parts: Mapping[str, float]  # the weights of the parts of a span's score
    threshold: float = 0.0  # there is no answer if the best one has a lower probability …
    written: Mapping[str, float] = field(default_factory=lambda: {"words": 1.0})  # … of a generated token's score
    stored: str = "float16"  # the precision of encoded passages; "float32" where half precision changes answers
    reach: int = 0  # the greatest number of tokens of an answer by pointers; 0: that of slots
    calibration: Mapping[str, Sequence[float]] = field(default_factory=dict)  # maps of probabilities, by MAPS
    apart: bool = False  # whether a question sees its passage only after the fork
    segment: int = 0  # the token type of a passage; that of a question is 0
    refuse: float = 1.0  # … or if no answer has a higher probability than this

    @staticmethod
    def of(model: Model) -> Settings:
        """The settings of a model that is a reader."""
        said = model.config.get("reading")
        if not isinstance(said, dict) or model.spec.fork is None:
            raise MasqueradeError("This model is no reader; train one with 'masquerade train reader'.")
        parts, names = said.get("parts") or {}, ", ".join(PARTS)
        if set(parts) - set(PARTS):
            wrong = min(set(parts) - set(PARTS))
            raise MasqueradeError(f"There is no '{wrong}' for a weight under 'reading.parts'; there are {names}.")
        if not any(parts.values()):
            raise MasqueradeError(
                f"All weights under 'reading.parts' are 0; give at least one of {names} a positive weight."
            )
        if said.get("stored", "float16") not in STORED:
            raise MasqueradeError(f"'reading.stored' has to be {' or '.join(STORED)}, not '{said['stored']}'.")
        check_maps(said.get("calibration") or {})
        return Settings(**said)

    def put(self, model: Model) -> Model:
        """The model with these settings in its configuration."""
        model.config["reading"] = asdict(self)
        return model

    def layout(self, model: Model) -> ReaderLayout:
        """The layouts of questions and passages for the model."""
        longest = model.spec.longest - model.spec.position_offset
        sizes = self.slots, self.question, longest, self.reach, self.apart, self.segment
        return ReaderLayout.of(model.tokenizer, *sizes)


class Reader:
    """A model that answers questions from texts. It may be used from several threads."""

    part: ClassVar[int] = PART
    fit: ClassVar[float] = FIT

    def __init__(self, model: Model, memory: int = 512 * 2**20, stored: torch.dtype | None = None) -> None:
        kernels.use()
        self.model, self.settings = model.eval(), Settings.of(model)
        self.layout, self.tokenizer = self.settings.layout(model), model.tokenizer
        self.memory = Memory(memory, stored or STORED[self.settings.stored])
        self.recent = Memory(memory // RECENT, torch.float32)
        self.scorer = block_scorer(model) if self.settings.apart else None

    @staticmethod
    def load(source: str | Path) -> Reader:
        """A reader that comes with Masquerade ("en", "zh"), or one in a folder, a run's folder, or under a hub id; also
        any checkpoint with a span head, as published for question answering."""
        model = load(shipped(str(source)) if source in SHIPPED else source)
        if "reading" in model.config or "span" not in model.spec.all_heads:
            return Reader(model)
        from masquerade.reading.pointer_reader import PointerReader  # which is a Reader, so it imports this module

        return PointerReader(model)

    def ask(
        self,
        question: str,
        passages: str | Sequence[str],
        n_best: int = 1,
        vote: str = "best",
        decoder: str = "parallel",
        free: bool = False,
        windows: int = WINDOWS,
        threshold: float | None = None,
    ) -> Answer:
        """The answer to a question from one passage or several; the options are those of ``ask_many``."""
        return self.ask_many([(question, passages)], n_best, vote, decoder, free, windows, threshold)[0]

    def ask_many(
        self,
        questions: Sequence[Question],
        n_best: int = 1,
        vote: str = "best",
        decoder: str = "parallel",
        free: bool = False,
        windows: int = WINDOWS,
        threshold: float | None = None,
        done: Callable[[int], None] = lambda count: None,
        priors: Sequence[Sequence[float]] | None = None,
    ) -> list[Answer]:
        """The answer to each question, with up to ``n_best`` − 1 alternatives. A question is a pair of its text and its
        passage or passages, or a dict with ``question`` and ``context`` (or ``passages``). Answers are whole words; no
        two overlap, and none repeats the words of the question unless there is no other.

        ``vote`` (VOTES) combines passages: "best" searches them as one text; "all" searches each alone and adds up what
        they agree on. ``decoder`` (DECODERS) finds answers: "parallel" is the best span by all heads; the others
        generate it, or score the best spans token by token ("rerank"). With ``free`` an answer need not be a span.
        Of texts with more than twice as many ``windows``, only the ``windows`` that share most words with the question,
        and those that are remembered, are looked at; 0 reads all. A reader that scores blocks reads only the best
        blocks of them (``masquerade.reading.blocks``).
        There is no answer if the best one has a lower probability than ``threshold``; None: by the reader's own
        settings.
        ``done`` is called with the number of questions of windows that have been answered, for a progress bar.
        ``priors`` says of each passage of each question how well it fits, as what is added to its log-odds; None: by
        the words that its windows share with the question, if ``vote`` is "best".
        """
        check_options(n_best, vote, decoder, threshold)
        self._check_decoder(decoder, free)
        asked = [checked(each) for each in questions]
        ids = self.layout.questions(self.tokenizer, [text for text, _ in asked])
        jobs = dict[tuple[int, ...], list[WindowQuestion]]()
        texts = {given: self.cut(given) for given in dict.fromkeys(given for _, given in asked)}
        spans_only = decoder == "parallel" and not free
        for index, (_, given) in enumerate(asked):
            for window, tokens, fit in self._to_read(texts[given], ids[index], windows, spans_only):
                passage = window.passage
                by_words = self.fit * fit if vote == "best" else 0.0
                prior = by_words if priors is None else priors[index][passage]
                job = WindowQuestion(index, ids[index], passage, given[passage], window, tokens, prior)
                jobs.setdefault((*window.ids, -1, *(tokens or ())), []).append(job)
        candidates, none = list[list[Candidate]]([[] for _ in asked]), [1.0] * len(asked)
        scored = defaultdict[tuple[int, int], dict[Hashable, WindowScores]](dict)
        for batch in self._batches(jobs):
            if spans_only:
                for job, odds, total in self._odds(batch):
                    spans = best_spans(odds, job.text, job.places, n_best + SPARE, asked[job.question][0])
                    found = [job.span(each.start, each.length, each.score + job.prior) for each in spans]
                    text = job.question, job.passage if vote == "all" else 0
                    # a window that occurs twice counts once
                    scored[text].setdefault((job.window.ids, job.window.own), WindowScores(found, total + job.prior))
            else:
                for job, found, nothing in self._written(batch, n_best, decoder, free):
                    candidates[job.question] += found
                    none[job.question] = min(none[job.question], nothing)
            done(sum(map(len, batch)))
        for (index, _), by_window in scored.items():
            found, nothing = combined(list(by_window.values()))
            maps = self.settings.calibration
            candidates[index] += [replace(each, score=calibrated(each.score, maps.get("answer"))) for each in found]
            none[index] = min(none[index], calibrated(nothing, maps.get("none")))
        answers = []
        for found, nothing, (question, _) in zip(candidates, none, asked, strict=True):
            # the reader's own threshold is tuned for the probabilities of spans
            least = threshold if threshold is not None else self._threshold(nothing) if spans_only else 0.0
            answers.append(merged(found, nothing, VOTES[vote], int(n_best), least, question))
        return answers

    def windows(self, passages: Sequence[str]) -> int:
        """The number of windows of some texts."""
        return len(self.cut(tuple(passages)).windows)

    def remember(self, passages: str | Sequence[str], done: Callable[[int], None] = lambda count: None) -> None:
        """Encode passages up to the fork and keep them for later questions, until the memory is full. ``done`` is
        called with the number of windows that have been encoded."""
        found = {window.ids: window for window in self.cut(checked_texts(passages)).windows}
        windows = sorted(found.values(), key=lambda window: len(window.ids))
        for start in range(0, len(windows), TOGETHER):
            part = windows[start : start + TOGETHER]
            with torch.inference_mode():
                for window, encoded in zip(part, encode_passages(self.model, self.layout, part), strict=True):
                    self.memory.put(window.ids, encoded)
            done(len(part))
            if windows[0].ids not in self.memory or part[-1].ids not in self.memory:  # full: more would drop others
                break

    @torch.inference_mode()
    def _to_read(
        self, text: WindowIndex, question: list[int], most: int, spans_only: bool
    ) -> list[tuple[Window, tuple[int, ...] | None, float]]:
        """The windows to read for a question, each with the tokens of its best blocks, None for all its tokens, and
        with how well it fits, 0 for the best one and less for others."""
        scorer, fits = self.scorer, text.fits(question)
        best = text.best(fits, most)
        if scorer is None or not (spans_only and most):
            return [(text.windows[index], None, float(fits[index])) for index in best]
        if len(best) < len(fits):
            chosen = set(best)
            best = [i for i, each in enumerate(text.windows) if i in chosen or each.ids in self.memory]
        windows = [text.windows[index] for index in best]
        state = encode_apart(self.model, self.layout, [question])[0][0]
        tokens = choose_blocks(scorer, state, windows, self._encoded(windows))
        read = zip(windows, tokens, fits[best].tolist(), strict=True)
        return [(window, each, fit) for window, each, fit in read if each != ()]

    def _encoded(self, windows: Sequence[Window]) -> list[EncodedPassage]:
        """Windows up to the fork: remembered ones, those that were read lately, and others, which are then kept."""
        found = {window.ids: self.memory.get(window.ids) or self.recent.get(window.ids) for window in windows}
        new = [window for window in {each.ids: each for each in windows}.values() if found[window.ids] is None]
        for start in range(0, len(new), TOGETHER):
            part = new[start : start + TOGETHER]
            for window, encoded in zip(part, encode_passages(self.model, self.layout, part), strict=True):
                found[window.ids] = encoded
                self.recent.put(window.ids, encoded)
        return [each for window in windows if (each := found[window.ids]) is not None]

    def _check_decoder(self, decoder: str, free: bool) -> None:
        """An error for a decoder that this reader cannot use."""

    def _threshold(self, none: float) -> float:
        """The least probability of an answer, where that of no answer is ``none``."""
        return self.settings.threshold if none <= self.settings.refuse else math.inf

    @functools.cached_property
    def cut(self) -> Callable[[tuple[str, ...]], WindowIndex]:
        """The windows of passages, without empty ones; those of the last few texts are kept."""

        def windows(passages: tuple[str, ...]) -> WindowIndex:
            joined = [join_line_ends(passage) for passage in passages]  # words divided by a hyphen are read as one
            found = self.layout.windows(self.tokenizer, [each.text for each in joined], part=self.part)
            found = [each for each in found if each.ids]
            found = [_with_places(window, joined[window.passage]) for window in found]
            return WindowIndex(found, self.tokenizer.small_letters)

        return functools.lru_cache(maxsize=KEPT)(windows)

    def _batches(self, jobs: Mapping[tuple[int, ...], list[WindowQuestion]]) -> Iterator[list[list[WindowQuestion]]]:
        """Batches of the size that suits the device: the questions of each window, similar windows together."""
        batch, rows, most = list[list[WindowQuestion]](), 0, kernels.batch_tokens(self.model.device)
        for some in sorted(jobs.values(), key=lambda some: some[0].length):
            fit = max(1, most // (self.layout.start + 1 + some[0].length))
            for start in range(0, len(some), fit):
                part = some[start : start + fit]
                if batch and rows + len(part) > fit:
                    yield batch
                    batch, rows = [], 0
                batch.append(part)
                rows += len(part)
        if batch:
            yield batch

    @torch.inference_mode()
    def _odds(self, batch: Sequence[list[WindowQuestion]]) -> Iterator[tuple[WindowQuestion, Tensor, float]]:
        """For each question of a window the log-odds of its own spans, (tokens, longest answer), and of all of them."""
        passages = self._encoded([jobs[0].window for jobs in batch])
        chosen = [jobs[0].tokens for jobs in batch]
        passages = [each if some is None else each.part(some) for each, some in zip(passages, chosen, strict=True)]
        rows = encode_questions(self.model, self.layout, passages, [[job.ids for job in jobs] for jobs in batch])
        scores = score_spans(self.model, rows, self.settings.parts)
        logs, none = (each.cpu().double() for each in log_probabilities(scores.spans, scores.none))
        for row, job in enumerate(job for jobs in batch for job in jobs):
            n, own, spans = job.length, job.window.own, logs[row]
            if job.tokens is not None:
                spans = spans[:n].masked_fill(~unbroken(job.tokens, spans.shape[-1]), -torch.inf)
                own = own_range(job.tokens, own)
            odds, total = own_odds(spans[:n], none[row], own)
            yield job, odds, total

    def _written(
        self, batch: Sequence[list[WindowQuestion]], n_best: int, decoder: str, free: bool
    ) -> Iterator[tuple[WindowQuestion, list[Candidate], float]]:
        """For each question of a window the best answers that a decoder generates, and the probability of none."""
        jobs, drafts = [job for some in batch for job in some], list[list[tuple[int, ...]]]()
        if decoder == "rerank" and not free:
            for job, odds, _ in self._odds(batch):
                spans = choose_spans(odds[:, : self.layout.slots], torch.tensor(job.window.ids), max(DRAFTS, n_best))
                drafts.append([job.window.ids[each.start : each.start + each.length] for each in spans])
        pairs = [(job.ids, job.window.ids) for job in jobs]
        weights = self.settings.written
        written = write_answers(self.model, self.layout, pairs, decoder, weights, n_best, free, drafts=drafts)
        for job, texts in zip(jobs, written, strict=True):
            found = [job.text_of(tuple(each.ids), math.exp(each.score), self.tokenizer) for each in texts]
            yield job, found, sum(each.score for each in found if not each.text)


def _with_places(window: Window, joined: JoinedText) -> Window:
    """A window of a joined text with its places in the original one."""
    if not joined.cuts:
        return window
    return replace(window, places=tuple(joined.original(*place) for place in window.places))
