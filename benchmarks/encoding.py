"""Sentence vectors: ours against sentence-transformers, the same weights, one core, separate processes in turn.

python benchmarks/encoding.py CHECKPOINT SQUAD.json   # CHECKPOINT: a folder that sentence-transformers loads
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROUNDS, PASSAGES, QUESTIONS = 3, 64, 256


def main() -> None:
    """Time both engines in turn and print their rates and ratios; with --engine, time one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("file")
    parser.add_argument("--engine", choices=("ours", "theirs"))
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(timed(options.engine, options.checkpoint, texts(options.file))))
        return
    spent: dict[str, dict[str, list[float]]] = {"ours": {}, "theirs": {}}
    command = [sys.executable, __file__, options.checkpoint, options.file, "--engine"]
    for _ in range(ROUNDS):
        for engine, times in spent.items():
            made = subprocess.run([*command, engine], capture_output=True, text=True, check=True)
            for name, seconds in json.loads(made.stdout.splitlines()[-1]).items():
                times.setdefault(name, []).append(seconds)
    for name, count in (("passages", PASSAGES), ("questions", QUESTIONS)):
        ours, theirs = median(spent["ours"][name]), median(spent["theirs"][name])
        print(f"{name}: ours {count / ours:.1f}/s, sentence-transformers {count / theirs:.1f}/s, {theirs / ours:.2f}×")


def texts(file: str) -> dict[str, list[str]]:
    """The first passages of a SQuAD file, and the first questions of several of its passages."""
    paragraphs = [
        part for article in json.loads(Path(file).read_text("utf-8"))["data"] for part in article["paragraphs"]
    ]
    questions = [asked["question"] for part in paragraphs for asked in part["qas"]]
    return {"passages": [part["context"] for part in paragraphs[:PASSAGES]], "questions": questions[:QUESTIONS]}


def timed(engine: str, checkpoint: str, given: dict[str, list[str]]) -> dict[str, float]:
    """Seconds of CPU for each kind of texts."""
    encode = _ours(checkpoint) if engine == "ours" else _theirs(checkpoint)
    encode(given["passages"][:4])
    spent = {}
    for name, each in given.items():
        start = time.process_time()
        encode(each)
        spent[name] = time.process_time() - start
    return spent


def _ours(checkpoint: str) -> Callable[[list[str]], Any]:
    import torch

    from masquerade import Encoder

    torch.set_num_threads(1)
    return Encoder.load(checkpoint).encode


def _theirs(checkpoint: str) -> Callable[[list[str]], Any]:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    model = SentenceTransformer(checkpoint, device="cpu")
    return lambda given: model.encode(given, show_progress_bar=False)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
