"""The two engines of the benchmark, and what they are given; run by families.py, one process each.

python benchmarks/engines.py ours bert FOLDER THREADS
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

VOCAB, SEED, IGNORE = 8000, 7, -100
LAYERS, WIDTH, HEADS, FEEDFORWARD, LONGEST = 6, 384, 12, 1536, 512
SETTINGS = {"8×128": (8, 128), "4×256": (4, 256)}  # rows and tokens of full batches; targets are a quarter as long
MIXED = "mixed"  # the setting of sequences of many lengths
SEQUENCES, ROOM, TOGETHER = 64, 256, 8  # of them: how many, the longest, how many go into a padded batch
PACKED_ROWS = 6  # … and how many packed rows into one of ours: about as many places as a padded batch has

BERT_LIKE = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": FEEDFORWARD,
    "max_position_embeddings": LONGEST,
}
BART_LIKE = {"d_model": WIDTH, "max_position_embeddings": LONGEST} | {
    f"{stack}_{what}": number
    for stack in ("encoder", "decoder")
    for what, number in (("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", FEEDFORWARD))
}


@dataclass(frozen=True, eq=False)
class Family:
    """How the reference calls a family, and what its users give it."""

    config: str
    model: str
    size: dict[str, Any] = field(default_factory=lambda: BERT_LIKE)
    segments: bool = False  # its tokenizer makes token types, so they are given
    decoder: bool = False  # it needs a target too
    extra: dict[str, Any] = field(default_factory=dict)  # spares the reference work that ours does not do either
    mixed: bool = False  # measured on mixed lengths too


FAMILIES = {
    "bert": Family("BertConfig", "BertForMaskedLM", segments=True, mixed=True),
    "roberta": Family("RobertaConfig", "RobertaForMaskedLM", BERT_LIKE | {"type_vocab_size": 1}),
    "albert": Family("AlbertConfig", "AlbertForMaskedLM", BERT_LIKE | {"embedding_size": 128}, segments=True),
    "electra": Family("ElectraConfig", "ElectraForMaskedLM", BERT_LIKE | {"embedding_size": 128}, segments=True),
    "ernie": Family("ErnieConfig", "ErnieForMaskedLM", segments=True),
    "roformer": Family("RoFormerConfig", "RoFormerForMaskedLM", segments=True),
    "mpnet": Family("MPNetConfig", "MPNetForMaskedLM"),
    "xlnet": Family(
        "XLNetConfig",
        "XLNetLMHeadModel",
        {"d_model": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "d_inner": FEEDFORWARD},
        segments=True,
        extra={"use_mems": False},
    ),
    "gpt2": Family(
        "GPT2Config",
        "GPT2LMHeadModel",
        {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_inner": FEEDFORWARD, "n_positions": LONGEST},
        extra={"use_cache": False},
        mixed=True,
    ),
    "t5": Family(
        "T5Config",
        "T5ForConditionalGeneration",
        {"d_model": WIDTH, "d_kv": WIDTH // HEADS, "num_layers": LAYERS, "num_heads": HEADS, "d_ff": FEEDFORWARD},
        decoder=True,
        extra={"use_cache": False},
    ),
    "bart": Family("BartConfig", "BartForConditionalGeneration", BART_LIKE, decoder=True, extra={"use_cache": False}),
    "pegasus": Family(
        "PegasusConfig", "PegasusForConditionalGeneration", BART_LIKE, decoder=True, extra={"use_cache": False}
    ),
}

Batch = tuple[Tensor, Tensor, list[int]]  # logits, labels, and which sequences they are of, in the order they stand


@cache
def full(family: Family, setting: str) -> dict[str, Tensor]:
    """A batch without padding, as the family's users have it."""
    rows, n = SETTINGS[setting]
    draw = torch.Generator().manual_seed(SEED)
    ids = torch.randint(10, VOCAB, (rows, n), generator=draw)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if family.segments:
        inputs["token_type_ids"] = (torch.arange(n) >= n // 2).long().expand(rows, n).contiguous()
    if family.decoder:
        inputs["decoder_input_ids"] = torch.randint(10, VOCAB, (rows, n // 4), generator=draw)
    return inputs


@cache
def sentences() -> list[list[int]]:
    """Sequences of lengths as real texts have them: log-normal, most of them short, a few as long as allowed."""
    draw = random.Random(SEED)
    lengths = [min(max(round(draw.lognormvariate(4.3, 0.65)), 16), ROOM) for _ in range(SEQUENCES)]
    return [[draw.randrange(10, VOCAB) for _ in range(length)] for length in lengths]


@cache
def tokens(family: Family, setting: str) -> int:
    """How many real tokens a pass reads."""
    if setting == MIXED:
        return sum(map(len, sentences()))
    inputs = full(family, setting)
    return sum(ids.numel() for name, ids in inputs.items() if name.endswith("input_ids"))


def first_fit(lengths: list[int]) -> list[list[int]]:
    """Which sequences share a row: each goes into the first row that has room for it."""
    rows: list[list[int]] = []
    for index, length in enumerate(lengths):
        for row in rows:
            if sum(lengths[other] for other in row) + length <= ROOM:
                row.append(index)
                break
        else:
            rows.append([index])
    return rows


def theirs(family: Family, folder: str) -> tuple[Any, Callable[[str], Iterator[Batch]]]:
    """The reference, with the attention it chooses by itself."""
    import transformers

    model = getattr(transformers, family.model).from_pretrained(folder).eval()

    def batches(setting: str) -> Iterator[Batch]:
        if setting != MIXED:
            inputs = full(family, setting)
            yield model(**inputs, **family.extra).logits, labels(inputs), list(range(len(inputs["input_ids"])))
            return
        texts = sentences()
        for start in range(0, len(texts), TOGETHER):
            rows = [torch.tensor(text) for text in texts[start : start + TOGETHER]]
            ids = pad_sequence(rows, batch_first=True)
            mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
            logits = model(input_ids=ids, attention_mask=mask, **family.extra).logits
            yield logits, ids.masked_fill(mask == 0, IGNORE), list(range(start, start + len(rows)))

    return model, batches


def ours(family: Family, folder: str) -> tuple[Any, Callable[[str], Iterator[Batch]]]:
    """Masquerade, which packs where lengths are mixed."""
    import masquerade
    from masquerade.layout import batch
    from masquerade.masks import bidirectional, causal, pack

    model = masquerade.load(folder).eval()
    lay_out = causal if model.spec.mask == "causal" else bidirectional

    def batches(setting: str) -> Iterator[Batch]:
        if setting != MIXED:
            inputs = full(family, setting)
            yield model.logits(**inputs), labels(inputs), list(range(len(inputs["input_ids"])))
            return
        texts = sentences()
        rows = first_fit(list(map(len, texts)))
        for start in range(0, len(rows), PACKED_ROWS):
            chosen = rows[start : start + PACKED_ROWS]
            layout = batch([pack([lay_out(texts[index]) for index in row]) for row in chosen])
            labelled = layout.ids.masked_fill(~layout.real, IGNORE)
            yield model.scores(layout), labelled, [index for row in chosen for index in row]

    return model, batches


def labels(inputs: dict[str, Tensor]) -> Tensor:
    """What a full batch is to predict; which words they are makes no difference to the work."""
    return inputs.get("decoder_input_ids", inputs["input_ids"])


ENGINES = {"ours": ours, "theirs": theirs}


def work(engine: str, name: str, folder: str, threads: str) -> None:
    """A worker: reads what to do, a JSON line each, from stdin, and answers with a JSON line each on stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    torch.set_num_threads(int(threads))
    for setting in SETTINGS:
        full(FAMILIES[name], setting)  # made once, and not in inference mode
    model, batches = ENGINES[engine](FAMILIES[name], folder)
    print(json.dumps(getattr(model.config, "_attn_implementation", "")), file=answers, flush=True)

    def forward(setting: str) -> None:
        with torch.inference_mode():
            for _ in batches(setting):
                pass

    def backward(setting: str) -> None:
        model.zero_grad(set_to_none=True)
        total = tokens(FAMILIES[name], setting)
        for logits, wanted, _ in batches(setting):
            loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORE, reduction="sum")
            (loss / total).backward()

    def check(setting: str, file: str) -> None:
        parts: dict[int, Tensor] = {}
        with torch.inference_mode():
            for logits, wanted, order in batches(setting):
                lengths = [len(sentences()[index]) if setting == MIXED else logits.shape[1] for index in order]
                parts |= zip(order, logits[wanted != IGNORE].split(lengths), strict=True)
        torch.save(torch.cat([parts[index] for index in sorted(parts)]), file)

    acts: dict[str, Callable[..., None]] = {"forward": forward, "backward": backward, "check": check}
    for line in sys.stdin:
        order = json.loads(line)
        act, times = acts[order.pop("do")], order.pop("times", 1)
        start, busy = time.perf_counter(), time.process_time()
        for _ in range(times):
            act(**order)
        print(json.dumps([time.perf_counter() - start, time.process_time() - busy]), file=answers, flush=True)


if __name__ == "__main__":
    work(*sys.argv[1:])
