"""What answers in the reading benchmark; run by reading.py, one process each.

    python benchmarks/reading_engines.py ours READER FOLDER THREADS
    python benchmarks/reading_engines.py export | transformers | onnxruntime | openvino READER FOLDER THREADS

FOLDER has the reader's encoder and span head as the reference library reads them, and the questions. Only "ours" needs
this package; the other engines may run in another environment.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Pair = tuple[str, str]  # a question and its passage
Answerer = Callable[[Sequence[Pair], str, int], list[str]]  # how questions are answered: way, and tokens of a batch
Network = Callable[[Mapping[str, Tensor]], tuple[Tensor, Tensor]]  # inputs → logits of first and last token, (rows, n)
QUESTIONS, ONNX, TYPES = "questions.json", "model.onnx", "token_type_ids"


def prepare(source: str, data: str, count: int, folder: str) -> list[Pair]:
    """Write a reader's encoder and span head, unless they are there, and the first questions of a file that have one
    passage; returns these questions."""
    from masquerade.checkpoints.folders import save
    from masquerade.nn.model import Model
    from masquerade.reading.reader import Reader
    from masquerade.reading.records import read_questions

    records = [record for record in read_questions(data) if len(record.passages) == 1][:count]
    pairs, file = [(record.question, record.passages[0]) for record in records], Path(folder) / QUESTIONS
    given = {"reader": source, "pairs": [list(pair) for pair in pairs]}
    if file.exists() and json.loads(file.read_text(encoding="utf-8")).items() >= given.items():
        return pairs
    (Path(folder) / ONNX).unlink(missing_ok=True)
    reader = Reader.load(source)
    spec = replace(reader.model.spec, family=family_of(reader.model.spec), between={}, outputs=("span",), spare=())
    encoder, weights = Model(spec, reader.tokenizer), reader.model.state_dict()
    encoder.load_state_dict({name: weights[name] for name in encoder.state_dict()})
    save(encoder, folder)
    given["longest"] = reader.layout.longest_answer
    file.write_text(json.dumps(given, ensure_ascii=False), encoding="utf-8")
    return pairs


def family_of(spec: Any) -> str:
    """The published family of an encoder; that of a reader is found by its parts."""
    if spec.family != "masquerade":
        return str(spec.family)
    if "disentangled" in spec.positions:
        return "deberta-v2"
    return "ernie" if spec.tasks else "roberta" if spec.position_offset else "bert"


def ours(source: str, folder: str) -> Answerer:
    """Masquerade's reader: passages new or remembered, and the answer written token by token by the same weights."""
    from masquerade.reading.memory import Memory
    from masquerade.reading.reader import Reader

    model = Reader.load(source).model
    cold, remembering = Reader(model), Reader(model, memory=2**33)

    @cache
    def remember(passages: tuple[str, ...]) -> None:
        remembering.remember(list(passages))

    def answer(pairs: Sequence[Pair], way: str, tokens: int) -> list[str]:
        if way == "remembered":
            remember(tuple(dict.fromkeys(passage for _, passage in pairs)))
            return [found.text for found in remembering.ask_many(pairs, threshold=0.0)]
        cold.__dict__.pop("cut", None)  # what was kept of the last passages, which are new here
        cold.recent = Memory(cold.recent.size, cold.recent.dtype)
        decoder = "autoregressive" if way == "beam" else "parallel"
        return [found.text for found in cold.ask_many(pairs, decoder=decoder, threshold=0.0)]

    return answer


def extractive(folder: str, network: Network) -> Answerer:
    """The usual way: windows of question and passage in batches of like length, then the best of all spans, found
    without a loop."""
    from transformers import AutoConfig, AutoTokenizer

    tokenizer, config = AutoTokenizer.from_pretrained(folder), AutoConfig.from_pretrained(folder)
    room, longest = config.max_position_embeddings, json.loads((Path(folder) / QUESTIONS).read_text())["longest"]

    def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
            if batch and (len(batch) + 1) * lengths[index] > tokens:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def answer(pairs: Sequence[Pair], way: str, tokens: int) -> list[str]:
        coded = tokenizer(
            [question for question, _ in pairs], [passage for _, passage in pairs], truncation="only_second",
            max_length=room, stride=room // 4, return_overflowing_tokens=True, return_offsets_mapping=True,
            return_token_type_ids=True,
        )  # fmt: skip
        owner, places = coded.pop("overflow_to_sample_mapping"), coded.pop("offset_mapping")
        lengths = [len(ids) for ids in coded["input_ids"]]
        best = [(-math.inf, "")] * len(pairs)
        for batch in batches(lengths, tokens):
            rows = tokenizer.pad({name: [coded[name][i] for i in batch] for name in coded}, return_tensors="pt")
            start, end = network(rows if config.type_vocab_size else {k: rows[k] for k in list(rows) if k != TYPES})
            last = torch.tensor([lengths[index] - 1 for index in batch])[:, None]
            inside = (rows[TYPES] == 1) & (torch.arange(rows["input_ids"].shape[1]) < last)
            start, end = (logits.masked_fill(~inside, -math.inf) for logits in (start, end))
            spans = start[..., None] + F.pad(end, (0, longest - 1), value=-math.inf).unfold(1, longest, 1)
            scores, chosen = spans.flatten(1).max(-1)
            for index, score, span in zip(batch, scores.tolist(), chosen.tolist(), strict=True):
                first, of = span // longest, owner[index]
                if score > best[of][0]:
                    text = pairs[of][1][places[index][first][0] : places[index][first + span % longest][1]]
                    best[of] = (score, text.strip())
        return [text for _, text in best]

    return answer


def reference(folder: str) -> Any:
    """transformers' model, with the attention it chooses by itself."""
    from transformers import AutoModelForQuestionAnswering

    return AutoModelForQuestionAnswering.from_pretrained(folder).eval()


def transformers(source: str, folder: str) -> Answerer:
    """transformers in PyTorch."""
    model = reference(folder)

    def network(rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        with torch.inference_mode():
            said = model(**rows)
        return said.start_logits, said.end_logits

    return extractive(folder, network)


def export(source: str, folder: str) -> Answerer:
    """Write transformers' model for the other engines; nothing answers."""
    model = reference(folder)
    names = ["input_ids", *[TYPES] * bool(model.config.type_vocab_size), "attention_mask"]
    rows = {name: torch.ones(2, 40, dtype=torch.long) for name in names}
    sizes = {0: torch.export.Dim("rows", max=1024), 1: torch.export.Dim("tokens", max=512)}
    torch.onnx.export(
        model, kwargs=rows, f=f"{folder}/{ONNX}", dynamo=True, input_names=names, output_names=["start", "end"],
        dynamic_shapes=dict.fromkeys(names, sizes), external_data=False,
    )  # fmt: skip
    sys.exit()


def onnxruntime(source: str, folder: str) -> Answerer:
    """ONNX Runtime in float32."""
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    session = runtime.InferenceSession(f"{folder}/{ONNX}", options, providers=["CPUExecutionProvider"])

    def network(rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        start, end = session.run(["start", "end"], {name: rows[name].numpy() for name in rows})
        return torch.from_numpy(start), torch.from_numpy(end)

    return extractive(folder, network)


def openvino(source: str, folder: str) -> Answerer:
    """OpenVINO in float32; by itself it would round to bfloat16 where the processor has it."""
    import openvino as runtime

    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": torch.get_num_threads(), "NUM_STREAMS": 1}
    model = runtime.Core().compile_model(f"{folder}/{ONNX}", "CPU", settings)

    def network(rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        said = model({name: rows[name].numpy() for name in rows})
        return torch.from_numpy(said["start"]), torch.from_numpy(said["end"])

    return extractive(folder, network)


ENGINES = {each.__name__: each for each in (ours, transformers, export, onnxruntime, openvino)}


def work(engine: str, source: str, folder: str, threads: str) -> None:
    """A worker: reads what to do, a JSON line each, from stdin, and answers with a JSON line each on stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    torch.set_num_threads(int(threads))
    answer = ENGINES[engine](source, folder)
    pairs = [tuple(pair) for pair in json.loads((Path(folder) / QUESTIONS).read_text(encoding="utf-8"))["pairs"]]
    print(json.dumps(""), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        asked, way, tokens = pairs[: order["count"]], order["way"], order["tokens"]
        parts = [asked] if order["together"] else [[pair] for pair in asked]
        start, busy = time.perf_counter(), time.process_time()
        for _ in range(order.get("times", 1)):
            texts = [text for part in parts for text in answer(part, way, tokens)]
        taken = time.perf_counter() - start, time.process_time() - busy
        if order.get("file"):
            Path(order["file"]).write_text(json.dumps(texts), encoding="utf-8")
        print(json.dumps(taken), file=answers, flush=True)


if __name__ == "__main__":
    work(*sys.argv[1:])
