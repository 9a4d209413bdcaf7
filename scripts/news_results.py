"""The figures of long documents in docs/working-memory.md: 20 Newsgroups classified with a window of 128 tokens.

    python scripts/news_results.py OUT --shared SHARED [--encoder CHECKPOINT] [--documents 480] [--test 500]

SHARED has longtext/ (20news-train.jsonl, 20news-test.jsonl). The same documents, epochs and rate for a classifier that
reads the first 128 tokens, and for a judge and a classifier that are trained by intervention (CogLTX); beside them,
linear classifiers. Training resumes, and what is done is not done again. Prints Markdown with 95 % bootstrap
intervals.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC

from masquerade import load
from masquerade.data.records import read_records
from masquerade.data.rng import rng_for
from masquerade.files import write_text
from masquerade.labelling.classifier import Classifier
from masquerade.labelling.training import TrainClassifier
from masquerade.memory.working.judge import Judge
from masquerade.memory.working.reasoners import MemoryClassifier
from masquerade.memory.working.selection import WorkingMemory
from masquerade.memory.working.training import MemoryTraining, TrainMemory
from masquerade.progress import progress_bar
from masquerade.training.loop import Run
from masquerade.training.recipe import FineTuning

WINDOW, BLOCK = 128, 40  # tokens
WORDS = 100  # about as many fit into the window
FIRST, COGLTX = f"first {WINDOW} tokens", "CogLTX, labels by intervention"
SAMPLES = 10_000  # of the bootstrap


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--encoder", default=".cache/checkpoints/minilm-en")
    parser.add_argument("--documents", type=int, default=480, help="training documents")
    parser.add_argument("--test", type=int, default=500, help="test documents")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--layers", type=int, default=3, help="layers of the judge")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    train, test = sampled(options, "train", options.documents, 1), sampled(options, "test", options.test, 2)
    texts, known = [row["text"] for row in test], [row["label"] for row in train]
    labels = np.array([row["label"] for row in test])
    shared: dict[str, Any] = {
        "train": str(options.out / "train.jsonl"),
        "start": options.encoder,
        "epochs": options.epochs,
        "rate": options.rate,
        "batch": 16,
        "warmup": 0.1,
        "length": WINDOW,
        "row": WINDOW,
        "save_every": 20,
    }
    ways: dict[str, Callable[[], list[str]]] = {
        "most frequent label": lambda: [max(set(known), key=known.count)] * len(test),
        f"TF-IDF and a linear SVM, first {WORDS} words": lambda: linear(train, test, WORDS),
        "TF-IDF and a linear SVM, all words": lambda: linear(train, test, 0),
        FIRST: lambda: truncated(options.out, shared, texts),
        COGLTX: lambda: cogltx(options.out, {**shared, "layers": options.layers}, texts),
        "the classifier of CogLTX without the judge": lambda: first_tokens(options.out / "cogltx", texts),
    }
    right = {
        name: np.array(kept(options.out / f"{number}.json", make)) == labels
        for number, (name, make) in enumerate(ways.items())
    }
    columns = {**right, "CogLTX less the first tokens": right[COGLTX].astype(float) - right[FIRST]}
    index = np.random.default_rng(1).integers(len(test), size=(SAMPLES, len(test)))
    print(f"| {len(train)} documents for training, {len(test)} for the test | right, % |\n|---|---|")
    for name, values in columns.items():
        low, high = np.percentile(values[index].mean(1), [2.5, 97.5])
        print(f"| {name} | {100 * values.mean():.1f} ({100 * low:.1f} to {100 * high:.1f}) |")


def sampled(options: argparse.Namespace, part: str, count: int, seed: int) -> list[dict[str, Any]]:
    """Random documents of a part, also written into OUT."""
    rows = list(read_records(str(options.shared / "longtext" / f"20news-{part}.jsonl")))
    order = rng_for(seed, len(rows)).permutation(len(rows))[:count]
    chosen = [dict(rows[int(index)]) for index in order]
    lines = [json.dumps({"text": row["text"], "label": row["label"]}) + "\n" for row in chosen]
    write_text(options.out / f"{part}.jsonl", "".join(lines))
    return chosen


def kept(path: Path, make: Callable[[], list[str]]) -> list[str]:
    """The predicted labels of the test documents; those in the file are not made again."""
    if not path.is_file():
        begun = time.perf_counter()
        values = make()
        write_text(path, json.dumps({"labels": values, "seconds": round(time.perf_counter() - begun, 1)}) + "\n")
    found: list[str] = json.loads(path.read_text())["labels"]
    return found


def linear(train: Sequence[dict[str, Any]], test: Sequence[dict[str, Any]], words: int) -> list[str]:
    """The labels that a linear classifier predicts from the first words, or from all."""
    cut = [[" ".join(row["text"].split()[: words or None]) for row in rows] for rows in (train, test)]
    weights = TfidfVectorizer(sublinear_tf=True, min_df=2)
    classifier = LinearSVC().fit(weights.fit_transform(cut[0]), [row["label"] for row in train])
    return [str(label) for label in classifier.predict(weights.transform(cut[1]))]


def truncated(out: Path, shared: dict[str, Any], texts: Sequence[str]) -> list[str]:
    """The labels that a classifier of the first tokens predicts."""
    Run(TrainClassifier(FineTuning(**shared, out=str(out / "first"))), resume=True).train()
    return first_tokens(out / "first", texts)


def first_tokens(folder: Path, texts: Sequence[str]) -> list[str]:
    """The labels that a trained classifier predicts from the first tokens."""
    return [each.label for each in Classifier(load(folder), WINDOW)(texts)]


def cogltx(out: Path, shared: dict[str, Any], texts: Sequence[str]) -> list[str]:
    """The labels that a classifier predicts from the blocks its judge keeps."""
    recipe = MemoryTraining(**shared, out=str(out / "cogltx"), window=WINDOW, block=BLOCK)
    job = TrainMemory(recipe)
    Run(job, resume=True).train()
    print("labels changed by intervention:", job.kept.get("changed", []))
    memory = WorkingMemory(Judge.load(out / "cogltx"), BLOCK)
    classifier = MemoryClassifier(Classifier(load(out / "cogltx"), WINDOW), memory)
    with progress_bar("documents", len(texts)) as done:
        return [prediction.label for prediction, _ in classifier(texts, done)]


if __name__ == "__main__":
    main()
