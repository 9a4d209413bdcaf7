"""What writes in the decoding benchmark, and what it is given; run by decoding.py, one process each.

python benchmarks/decoding_engines.py ours FOLDER THREADS    # or theirs, tuned, ctranslate2
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from engines import BART_LIKE, FEEDFORWARD, HEADS, LAYERS, LONGEST, SEED, VOCAB, WIDTH

WHOLE, KEPT = 21128, 5000  # tokens of a Chinese BERT, and how many a task may need
PAD, END, START = 0, 2, 3
FIRST = 10  # tokens from here on are words
NAMED = {"vocab_size": VOCAB, "pad_token_id": PAD, "eos_token_id": END}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {  # the reference's class, and its configuration
    "gpt2": (
        "GPT2LMHeadModel",
        {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_inner": FEEDFORWARD, "n_positions": LONGEST},
    ),
    "t5": (
        "T5ForConditionalGeneration",
        {"d_model": WIDTH, "d_kv": WIDTH // HEADS, "num_layers": LAYERS, "num_heads": HEADS, "d_ff": FEEDFORWARD}
        | {"decoder_start_token_id": START},
    ),
    "bart": (
        "BartForConditionalGeneration",
        BART_LIKE | {"decoder_start_token_id": START, "normalize_before": False},  # the last is for CTranslate2
    ),
}


@dataclass(frozen=True)
class Case:
    """A batch of prompts, and how it is written."""

    model: str  # one of FAMILIES, or of ours: "bert", "whole", "kept"
    method: str
    new: int  # tokens to write
    source: int = 256  # tokens of the longest prompt
    shortest: int | None = None  # … and of the shortest, if they are not all alike
    rows: int = 8
    cache: bool = True
    settings: dict[str, Any] = field(default_factory=dict)  # of the method

    def prompts(self) -> list[list[int]]:
        """The same random words for everybody."""
        chance = random.Random(SEED)
        lengths = [chance.randint(self.shortest or self.source, self.source) for _ in range(self.rows)]
        return [[chance.randrange(FIRST, KEPT) for _ in range(length)] for length in lengths]


Writer = Callable[[Case], list[list[int]]]


def ours(folder: str) -> Writer:
    """Masquerade. A BERT writes under the ``prefix`` mask, always as many tokens as are asked for."""
    import masquerade
    from masquerade.checkpoints.vocabulary import keep_tokens
    from masquerade.writing.generate import generate
    from masquerade.writing.prompts import Prefix

    class Endless(Prefix):
        end = None  # type: ignore[assignment]

    @cache
    def model(name: str) -> Any:
        if name in FAMILIES:
            return masquerade.load(Path(folder) / name)
        torch.manual_seed(SEED)
        size = {"vocab": VOCAB if name == "bert" else WHOLE, "width": WIDTH, "layers": LAYERS, "heads": HEADS}
        whole = masquerade.build(masquerade.Spec(**size, feedforward=FEEDFORWARD, longest=LONGEST, outputs=("lm",)))
        if name == "kept":
            whole.tokenizer = words(WHOLE)
            return keep_tokens(whole, range(KEPT))[0].eval()
        return whole.eval()

    def write(case: Case) -> list[list[int]]:
        frame = None if case.model in FAMILIES else Endless(cls=START, sep=END, mask=4)
        written = generate(
            model(case.model), case.prompts(), case.method, frame=frame, cache=case.cache, max_new=case.new,
            **case.settings,
        )  # fmt: skip
        return [text.ids for text in written]

    return write


def words(count: int) -> Any:
    """A tokenizer with so many made-up words."""
    from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer

    from masquerade.text.tokenizer import Tokenizer

    named = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate([*named, *(f"word{n}" for n in range(5, count))])}
    return Tokenizer(BertWordPieceTokenizer(vocabulary)._tokenizer)


def theirs(folder: str) -> Writer:
    """The reference, with the attention and the cache that it chooses by itself."""
    import transformers

    @cache
    def model(name: str) -> Any:
        return getattr(transformers, FAMILIES[name][0]).from_pretrained(Path(folder) / name).eval()

    def write(case: Case) -> list[list[int]]:
        prompts, continues = case.prompts(), case.model == "gpt2"
        gaps = [case.source - len(prompt) for prompt in prompts]
        sides = [(gap, 0) if continues else (0, gap) for gap in gaps]
        rows = [[PAD] * before + ids + [PAD] * behind for (before, behind), ids in zip(sides, prompts, strict=True)]
        masks = [
            [0] * before + [1] * len(ids) + [0] * behind for (before, behind), ids in zip(sides, prompts, strict=True)
        ]
        said = model(case.model).generate(
            input_ids=torch.tensor(rows), attention_mask=torch.tensor(masks), do_sample=False,
            max_new_tokens=case.new, num_beams=case.settings["beams"],
        )  # fmt: skip
        texts = said[:, case.source if continues else 1 :].tolist()
        return [text[: text.index(END)] if END in text else text for text in texts]

    return write


def tuned(folder: str) -> Writer:
    """The reference with the matrix kernel that is fastest on this machine, and with memory that is used again."""
    from masquerade import kernels

    kernels.use()
    return theirs(folder)


def ctranslate2(folder: str) -> Writer:
    """CTranslate2 in float32, from the same folders. It always writes as many tokens as are asked for."""
    import ctranslate2 as package

    names = [f"word{number}" for number in range(VOCAB)]

    @cache
    def model(name: str) -> Any:
        converted = str(Path(folder) / f"{name}-ctranslate2")
        package.converters.TransformersConverter(str(Path(folder) / name)).convert(converted, force=True)
        return package.Translator(converted, intra_threads=torch.get_num_threads(), compute_type="float32")

    def write(case: Case) -> list[list[int]]:
        prompts = [[names[number] for number in ids] for ids in case.prompts()]
        found = model(case.model).translate_batch(
            prompts, beam_size=case.settings["beams"], min_decoding_length=case.new, max_decoding_length=case.new
        )
        return [[int(word.removeprefix("word")) for word in each.hypotheses[0]] for each in found]

    return write


ENGINES = {"ours": ours, "theirs": theirs, "tuned": tuned, "ctranslate2": ctranslate2}


def save_references(folder: str, names: list[str]) -> None:
    """Reference models of random weights, saved for all engines to load; large ones, so that words differ clearly. And
    a tokenizer of made-up words, which CTranslate2 asks for."""
    import transformers
    from tokenizers import Tokenizer, models

    vocabulary = {f"word{number}": number for number in range(VOCAB)}
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocabulary, "word1")), pad_token=f"word{PAD}", unk_token="word1",
        eos_token=f"word{END}", bos_token=f"word{START}",
    )  # fmt: skip

    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    for name in names:
        made, config = getattr(transformers, FAMILIES[name][0]), FAMILIES[name][1]
        torch.manual_seed(SEED)
        model = made(made.config_class(**config | NAMED))
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.normal_(std=0.08)
        model.save_pretrained(Path(folder) / name)
        words.save_pretrained(Path(folder) / name)


def work(engine: str, folder: str, threads: str) -> None:
    """A worker: reads what to do, a JSON line each, from stdin, and answers with a JSON line each on stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    torch.set_num_threads(int(threads))
    write = ENGINES[engine](folder)
    print(json.dumps(""), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        case, times, file = Case(**order["case"]), order.get("times", 1), order.get("file")
        start, busy = time.perf_counter(), time.process_time()
        for _ in range(times):
            texts = write(case)
        taken = time.perf_counter() - start, time.process_time() - busy
        if file:
            Path(file).write_text(json.dumps(texts))
        print(json.dumps(taken), file=answers, flush=True)


if __name__ == "__main__":
    work(*sys.argv[1:])
