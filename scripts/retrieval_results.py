"""Recall of a collection on SQuAD-like files: each passage is a document; words, vectors and both.

python scripts/retrieval_results.py FILE --encoder FOLDER [--questions 200] [--read 0]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from masquerade.documents.document import language
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.search import POOL, combine
from masquerade.reading.reader import Reader
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.reading.scores import METRICS

CUTS = (1, 5, 20)


def main() -> None:
    """Index the passages of a file, ask some of its questions, and print recall at 1, 5 and 20."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--encoder")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--read", type=int, default=0, help="read this many passages and score the answers")
    options = parser.parse_args()
    records = read_questions(options.file)
    passages = list(dict.fromkeys(record.passages[0] for record in records))
    chosen = np.random.default_rng(0).permutation(len(records))[: options.questions]
    asked = [records[index] for index in sorted(chosen)]
    reader = loaded_reader(language(asked[0].question)) if options.read else None
    with (
        tempfile.TemporaryDirectory() as folder,
        KnowledgeBase.open(folder, options.encoder, reader, create=True) as kb,
    ):
        start = time.process_time()
        owner = fill(kb, passages, Path(folder))
        spent = time.process_time() - start
        print(f"{len(passages):,} passages in {len(owner):,} parts, indexed in {spent:.0f} s of CPU")
        report(kb, asked, passages, owner)
        if reader is not None:
            read(kb, reader, asked, options.read)


def fill(kb: KnowledgeBase, passages: list[str], folder: Path) -> dict[int, int]:
    """Index passages as records of one file. Returns the passage that each part of the collection is of."""
    source = folder.parent / f"{folder.name}.jsonl"
    source.write_text("".join(json.dumps({"text": passage}) + "\n" for passage in passages), encoding="utf-8")
    kb.update([str(source)])
    source.unlink()
    stored = kb.store.passages(kb.store.ids().tolist())
    return {id: each.passage.numbers[0] - 1 for id, each in stored.items()}


def report(kb: KnowledgeBase, asked: list[QuestionRecord], passages: list[str], owner: dict[int, int]) -> None:
    """Print recall by words, vectors, and both with several weights."""
    number = {passage: index for index, passage in enumerate(passages)}
    gold = [number[record.passages[0]] for record in asked]
    words = [kb.words.search(record.question, POOL) for record in asked]
    print("words       ", recall([[id for id, _ in ranked] for ranked in words], gold, owner))
    if not kb.dense:
        return
    vectors = kb.encoder.encode_queries([record.question for record in asked]).numpy()
    dense = [kb.vectors.search(vector, POOL) for vector in vectors]
    print("vectors     ", recall([[id for id, _ in ranked] for ranked in dense], gold, owner))
    for weight in (0.2, 0.3, 0.4, 0.5, 0.6):
        both = [[id for id, _ in combine(w, d, weight)] for w, d in zip(words, dense, strict=True)]
        print(f"hybrid {weight:.1f}  ", recall(both, gold, owner))


def recall(rankings: list[list[int]], gold: list[int], owner: dict[int, int]) -> str:
    """Recall at CUTS in percent; several parts of one passage count once."""
    hits = np.zeros(len(CUTS))
    for ranking, right in zip(rankings, gold, strict=True):
        distinct = list(dict.fromkeys(owner[id] for id in ranking))
        hits += [right in distinct[:cut] for cut in CUTS]
    return " / ".join(f"{100 * hit / len(gold):.1f}" for hit in hits)


def read(kb: KnowledgeBase, reader: Reader, asked: list[QuestionRecord], k: int) -> None:
    """Print the scores of the answers from the best passages, and from the right passage alone."""
    metric = METRICS["cmrc" if language(asked[0].question) == "zh" else "squad"]
    alone = reader.ask_many([(record.question, record.passages) for record in asked])
    print("right passage", metric({r.id: a.text for r, a in zip(asked, alone, strict=True)}, asked).total)
    start = time.process_time()
    found = kb.ask_many([record.question for record in asked], k)
    spent = (time.process_time() - start) / len(asked)
    print(f"{k} passages  ", metric({r.id: a.text for r, a in zip(asked, found, strict=True)}, asked).total)
    print(f"{spent:.2f} s of CPU a question")


def loaded_reader(name: str) -> Reader:
    """The shipped reader for a language; every question has an answer, so that it always gives one."""
    reader = Reader.load(name)
    reader.settings = replace(reader.settings, threshold=0.0)
    return reader


if __name__ == "__main__":
    main()
