"""What answers in the reading benchmark; run by reading.py, one process each.

python benchmarks/reading_engines.py ours FOLDER DATA QUESTIONS THREADS
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

Pair = tuple[str, str]  # a question and its passage
Answerer = Callable[[Sequence[Pair], str], list[str]]  # … and how they are answered
SLOTS = 16  # tokens of an answer at most, where the reader does not say so itself


def questions(data: str, count: int) -> list[Pair]:
    """The first questions of a file that have one passage, as they stand there: those of a passage together."""
    from masquerade.reading.records import read_questions

    records = [record for record in read_questions(data) if len(record.passages) == 1]
    return [(record.question, record.passages[0]) for record in records[:count]]


def save_encoder(source: str, folder: str) -> None:
    """The encoder of a reader as a BERT that the reference library reads."""
    from dataclasses import replace

    import masquerade
    from masquerade import checkpoint

    reader = masquerade.load(source)
    spec = replace(reader.spec, family="bert", between={}, outputs=(), spare=())
    encoder = masquerade.Model(spec, reader.tokenizer)
    weights = reader.state_dict()
    encoder.load_state_dict({name: weights[name] for name in encoder.state_dict()})
    checkpoint.save(encoder, folder)


def ours(source: str, folder: str) -> Answerer:
    """Masquerade's reader: in one pass, with passages new or remembered; and the same weights, written word by word."""
    import masquerade
    from masquerade.decoding.autoregressive import Greedy
    from masquerade.decoding.beam import Beam
    from masquerade.decoding.constraints import SpanOf
    from masquerade.decoding.loop import DecodingTask, Session, write
    from masquerade.reading.decoders import BEAMS, CopySession
    from masquerade.reading.reader import Reader

    class Writer(Reader):
        """The reader, whose answers are written by a method, with or without a cache. They are spans, as all are."""

        def writes(self, method: Any, cached: bool) -> Writer:
            self.method, self.cached = method, cached
            return self

        def _written(self, batch: Sequence[list[Any]], n_best: int, decoder: str, free: bool) -> Iterator[Any]:
            asks, words = [ask for part in batch for ask in part], self.settings.written.get("words", 0.0)
            canvas, limits = (
                self.layout.canvas([(ask.ids, ask.window.ids) for ask in asks]),
                [self.layout.slots] * len(asks),
            )
            spans = [SpanOf(ask.window.ids) for ask in asks]
            session = (
                CopySession(self.model, canvas, self.cached, self.layout, words)
                if words < 1
                else Session(self.model, canvas, self.cached)
            )
            task = DecodingTask(session, self.layout.sep, limits, least=1, constraints=spans)
            writing = self.method.start(task)
            for _ in write(task.session, writing):
                pass
            for ask, texts in zip(asks, writing.results(), strict=True):
                yield ask, [ask.text_of(tuple(each.ids), math.exp(each.score), self.tokenizer) for each in texts], 0.0

    model, beam = masquerade.load(source), Beam(BEAMS, length_penalty=0.0)
    readers = {
        "cold": Reader(model),
        "remembered": Reader(model, memory=2**33),
        "greedy": Writer(model).writes(Greedy(), True),
        "beam": Writer(model).writes(beam, True),
        "uncached": Writer(model).writes(beam, False),
    }

    @cache
    def remember(passages: tuple[str, ...]) -> None:
        readers["remembered"].remember(list(passages))

    def answer(pairs: Sequence[Pair], way: str) -> list[str]:
        if way == "remembered":
            remember(tuple(dict.fromkeys(passage for _, passage in pairs)))
        decoder = "autoregressive" if isinstance(readers[way], Writer) else "parallel"
        return [found.text for found in readers[way].ask_many(pairs, decoder=decoder)]

    return answer


def theirs(source: str, folder: str) -> Answerer:
    """transformers' extractive head on the same encoder: a first and a last word, whichever two are best together.

    It gets what ours has: rows of like length in a batch, as many tokens at once, and a search without a loop.
    """
    import transformers

    from masquerade.reading.reader import TOKENS

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.BertForQuestionAnswering.from_pretrained(folder, attn_implementation="sdpa").eval()
    longest = model.config.max_position_embeddings

    def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
            if batch and (len(batch) + 1) * lengths[index] > TOKENS:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def answer(pairs: Sequence[Pair], way: str) -> list[str]:
        coded = tokenizer(
            [question for question, _ in pairs], [passage for _, passage in pairs], truncation="only_second",
            max_length=longest, stride=longest // 4, return_overflowing_tokens=True, return_offsets_mapping=True,
            return_token_type_ids=True,
        )  # fmt: skip
        owner, places = coded.pop("overflow_to_sample_mapping"), coded.pop("offset_mapping")
        lengths = [len(ids) for ids in coded["input_ids"]]
        best = [(-math.inf, "")] * len(pairs)
        for batch in batches(lengths):
            rows = tokenizer.pad({name: [coded[name][i] for i in batch] for name in coded}, return_tensors="pt")
            with torch.inference_mode():
                said = model(**rows)
            end = torch.tensor([lengths[index] - 1 for index in batch])[:, None]
            inside = (rows["token_type_ids"] == 1) & (torch.arange(rows["input_ids"].shape[1]) < end)
            first, last = (logits.masked_fill(~inside, -math.inf) for logits in (said.start_logits, said.end_logits))
            spans = first[..., None] + F.pad(last, (0, SLOTS - 1), value=-math.inf).unfold(1, SLOTS, 1)
            scores, chosen = spans.flatten(1).max(-1)
            for index, score, span in zip(batch, scores.tolist(), chosen.tolist(), strict=True):
                start, of = span // SLOTS, owner[index]
                if score > best[of][0]:
                    text = pairs[of][1][places[index][start][0] : places[index][start + span % SLOTS][1]]
                    best[of] = (score, text)
        return [text for _, text in best]

    return answer


ENGINES = {"ours": ours, "theirs": theirs}


def work(engine: str, source: str, folder: str, data: str, count: str, threads: str) -> None:
    """A worker: reads what to do, a JSON line each, from stdin, and answers with a JSON line each on stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    torch.set_num_threads(int(threads))
    pairs, answer = questions(data, int(count)), ENGINES[engine](source, folder)
    print(json.dumps(""), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        asked, way, together = pairs[: order["count"]], order["way"], order["together"]
        start, busy = time.perf_counter(), time.process_time()
        for _ in range(order.get("times", 1)):
            texts = answer(asked, way) if together else [text for pair in asked for text in answer([pair], way)]
        taken = time.perf_counter() - start, time.process_time() - busy
        if order.get("file"):
            Path(order["file"]).write_text(json.dumps(texts), encoding="utf-8")
        print(json.dumps(taken), file=answers, flush=True)


if __name__ == "__main__":
    work(*sys.argv[1:])
