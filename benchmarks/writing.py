"""How fast are titles written: with and without a cache, with a whole and with a cut vocabulary, beside CTranslate2?

    python benchmarks/writing.py [--rounds 5] [--texts 16] [--threads 2] [--only cache,vocabulary,ctranslate2]

  cache        a single BERT under the ``prefix`` mask, beam 4: with the exact cache, and running everything again for
               each token, as the origin of this idea does
  vocabulary   the same writer with 30,522 tokens and with the 8,000 that occur in a task (``keep_tokens``)
  ctranslate2  BART, beam 4, 1 text and all texts at once, beside CTranslate2 in float32; skipped if it is not installed

Networks have 6 layers of 384 and random weights: what they write means nothing, but costs what writing costs. They take
turns; a ratio is the median over the rounds. Beam search beside ``transformers.generate`` for GPT-2, T5 and BART
shapes, checked to write the same tokens: ``python benchmarks/decoding.py --only a,b --rows 16``.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from machine import machine

from masquerade import Spec, build, load
from masquerade.nn.model import Model
from masquerade.writing.generate import generate
from masquerade.writing.prompts import Prefix

WHOLE, KEPT = 30522, 8000
SOURCE, NEW, BEAMS = 160, 16, 4
SHAPE: dict[str, Any] = {"width": 384, "layers": 6, "heads": 12, "feedforward": 1536, "outputs": ("lm",)}
BART = {
    "d_model": 384, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12,
    "decoder_attention_heads": 12, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536, "max_position_embeddings": 512,
    "vocab_size": KEPT, "forced_eos_token_id": None,
}  # fmt: skip
Contender = Callable[[], object]


class Endless(Prefix):
    """A frame without an end token, so that all contenders write equally many."""

    @property
    def end(self) -> None:  # type: ignore[override]
        return None


def bert(vocab: int) -> Model:
    torch.manual_seed(0)
    return build(Spec(vocab=vocab, **SHAPE)).eval()


def texts(count: int) -> list[list[int]]:
    rng = random.Random(0)
    return [[2, *(rng.randrange(10, KEPT) for _ in range(SOURCE)), 3] for _ in range(count)]


def titles(model: Model, prompts: list[list[int]], cache: bool = True) -> Contender:
    frame = Endless(cls=2, sep=3, mask=4)
    return lambda: generate(model, prompts, "beam", beams=BEAMS, frame=frame, cache=cache, max_new=NEW, batch=16)


def contest(name: str, first: Contender, second: Contender, rounds: int, tokens: int) -> None:
    """Print how much faster the second contender is than the first."""
    times: list[tuple[float, float]] = []
    first(), second()  # warm up
    for _ in range(rounds):
        taken = []
        for contender in (first, second):
            begun = time.perf_counter()
            contender()
            taken.append(time.perf_counter() - begun)
        times.append((taken[0], taken[1]))
    ratio = median(one / other for one, other in times)
    speeds = [tokens / median(pair[side] for pair in times) for side in (0, 1)]
    print(f"{name:<58}{speeds[0]:>9,.0f}{speeds[1]:>9,.0f} tokens/s{ratio:>7.2f}×", flush=True)


def beside_ctranslate2(count: int, rounds: int, threads: int) -> None:
    """Our BART against CTranslate2's, with the same weights."""
    try:
        import ctranslate2
        import transformers
    except ImportError as error:
        print(f"ctranslate2: skipped, {error.name} is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        config = transformers.BartConfig(**BART)
        transformers.BartForConditionalGeneration(config).save_pretrained(folder)
        names = [f"w{number}" for number in range(KEPT)]
        spec = ctranslate2.converters.TransformersConverter(folder)
        spec.convert(str(Path(folder) / "ct2"), force=True)
        other = ctranslate2.Translator(str(Path(folder) / "ct2"), intra_threads=threads, compute_type="float32")
        model = load(folder)
        for together in sorted({1, count}):
            ids = texts(together)
            words = [[names[number] for number in row] for row in ids]

            def theirs(words: list[list[str]] = words) -> object:
                return other.translate_batch(words, beam_size=BEAMS, max_decoding_length=NEW, min_decoding_length=NEW)

            def ours(ids: list[list[int]] = ids) -> object:
                return generate(model, ids, "beam", beams=BEAMS, max_new=NEW, min_new=NEW, batch=16)

            contest(f"BART, {together} at once: CTranslate2 → here", theirs, ours, rounds, NEW * together)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=16, help="texts at once")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="cache,vocabulary,ctranslate2")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    print(machine())
    tokens, prompts = NEW * chosen.texts, texts(chosen.texts)
    if "cache" in chosen.only:
        model = bert(KEPT)
        name = f"single BERT, beam {BEAMS}: everything again → cached"
        contest(name, titles(model, prompts, cache=False), titles(model, prompts), chosen.rounds, tokens)
    if "vocabulary" in chosen.only:
        name = f"single BERT, beam {BEAMS}: {WHOLE:,} tokens → {KEPT:,}"
        contest(name, titles(bert(WHOLE), prompts), titles(bert(KEPT), prompts), chosen.rounds, tokens)
    if "ctranslate2" in chosen.only:
        beside_ctranslate2(chosen.texts, chosen.rounds, chosen.threads)


if __name__ == "__main__":
    main()
