"""What a reader looked at, for people: the parts of a text that it read, and which decoder wrote which token when."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from math import exp

import torch

from masquerade.reading.decoders import write_answers
from masquerade.reading.memory import Memory
from masquerade.reading.reader import WINDOWS, Reader


@dataclass(frozen=True)
class ReadPart:
    """Characters of a passage that were read for a question."""

    passage: int
    start: int
    end: int


@dataclass(frozen=True)
class TracedToken:
    """A token of an answer, and the pass of the network that wrote it, from 1 on."""

    text: str
    step: int


@dataclass(frozen=True)
class TracedAnswer:
    """An answer by one decoder, with its time and its tokens."""

    decoder: str
    text: str
    score: float
    seconds: float
    passes: int  # of the network, for the answer alone
    tokens: tuple[TracedToken, ...]


def parts_read(reader: Reader, question: str, passages: Sequence[str], windows: int = WINDOWS) -> list[ReadPart]:
    """The parts of passages that are read for a question, in order; those that touch are one."""
    ids = reader.layout.questions(reader.tokenizer, [question])[0]
    found = list[ReadPart]()
    for window, tokens, _ in reader._to_read(reader.cut(tuple(passages)), ids, windows, True):
        for token in range(len(window.ids)) if tokens is None else tokens:
            start, end = window.places[token]
            last = found[-1] if found else None
            near = last is not None and last.passage == window.passage and start <= last.end + 2 and start >= last.start
            if last is not None and near:
                found[-1] = ReadPart(last.passage, last.start, max(last.end, end))
            else:
                found.append(ReadPart(window.passage, start, end))
    return _joined(found)


def _joined(parts: Sequence[ReadPart]) -> list[ReadPart]:
    """Parts in order, with those that overlap as one."""
    found = list[ReadPart]()
    for part in sorted(parts, key=lambda each: (each.passage, each.start)):
        if found and found[-1].passage == part.passage and part.start <= found[-1].end:
            found[-1] = ReadPart(part.passage, found[-1].start, max(found[-1].end, part.end))
        else:
            found.append(part)
    return found


def traced_answers(reader: Reader, question: str, passage: str, decoders: Sequence[str]) -> list[TracedAnswer]:
    """The answers of several decoders to a question, from the window of the passage that has the parallel answer. All
    of them read that window anew, so that their times can be compared."""
    fresh = copy(reader)  # the same network, without what is remembered
    fresh.memory = fresh.recent = Memory(0, torch.float32)
    best = reader.ask(question, passage, threshold=0.0)
    windows = reader.cut((passage,)).windows
    window = next(
        (
            each
            for each in windows
            if each.places[each.own[0]][0] <= best.start and best.end <= each.places[each.own[1] - 1][1]
        ),
        windows[0],
    )
    text = passage[window.places[0][0] : window.places[-1][1]]
    ids, found = reader.layout.questions(reader.tokenizer, [question])[0], list[TracedAnswer]()
    for decoder in decoders:
        start = time.perf_counter()
        if decoder == "parallel":
            answer = fresh.ask(question, text, threshold=0.0)
            seconds = time.perf_counter() - start
            words = reader.tokenizer.encode_places([answer.text])[0][1]
            tokens = tuple(TracedToken(answer.text[first:last], 1) for first, last in words)
            found.append(TracedAnswer(decoder, answer.text, answer.score, seconds, 1, tokens))
            continue
        pair = [(ids, window.ids)]
        written = write_answers(reader.model, reader.layout, pair, decoder, reader.settings.written)[0][0]
        seconds = time.perf_counter() - start
        steps = {commit.index: commit.step + 1 for commit in written.trace}
        tokens = tuple(
            TracedToken(reader.tokenizer.word(token), steps.get(index, 1)) for index, token in enumerate(written.ids)
        )
        passes = max(steps.values(), default=1)
        answer_text = reader.tokenizer.decode(written.ids)
        found.append(TracedAnswer(decoder, answer_text, exp(written.score), seconds, passes, tokens))
    return found
