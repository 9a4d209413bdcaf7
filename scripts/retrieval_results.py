"""Recall of a collection, by words, by the vectors of encoders, and by both; and answers from it.

    python scripts/retrieval_results.py SET KEPT [--asked FILE] [--more FILE:RECORDS …] [--encoder FOLDER …] [--read 10]

SET is a file of questions with their passages, or of HotpotQA; each passage is a document. The questions are some of
FILE about these passages, else of SET. The collections are kept in KEPT, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from masquerade.data.records import read_records
from masquerade.documents.document import language
from masquerade.memory.retrieval import search
from masquerade.memory.retrieval.encoder import Encoder
from masquerade.memory.retrieval.evaluation import has_answer
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.search import DENSE, POOL, combine
from masquerade.memory.retrieval.words import sentence_terms
from masquerade.reading.reader import Reader
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.reading.scores import METRICS

CUTS = (1, 5, 20)
RESAMPLED = 2000  # times, for intervals of 95 %


@dataclass(frozen=True)
class Asked:
    """A question, and the documents of which one has to be found."""

    record: QuestionRecord
    gold: frozenset[int]


def main() -> None:
    """Index the passages, ask the questions, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set")
    parser.add_argument("kept", type=Path)
    parser.add_argument("--asked")
    parser.add_argument("--more", action="append", default=[], help="further passages: a file, and how many records")
    parser.add_argument("--encoder", action="append", default=[])
    parser.add_argument("--documents", type=int, default=0, help="use only so many, those that are asked for first")
    parser.add_argument("--weights", default="0.3,0.4,0.5,0.6", help="of vectors against words")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--part", type=int, help="tokens of a passage's part with a vector of its own; 0: one vector")
    parser.add_argument("--bfloat16", action="store_true", help="encode in bfloat16")
    parser.add_argument("--read", type=int, default=0, help="read this many passages and score the answers")
    options = parser.parse_args()
    documents, asked = hotpot(options.set) if is_hotpot(options.set) else passages(options.set, options.asked)
    for source, _, count in (each.rpartition(":") for each in options.more):
        further = [(str(row.get("title", "")), str(row["text"])) for row in read_records(source)][: int(count)]
        documents += [each for each in dict.fromkeys(further) if each not in set(documents)]
    chosen = np.random.default_rng(0).permutation(len(asked))[: options.questions]
    asked = [asked[index] for index in sorted(chosen)]
    if options.documents:
        documents, asked = fewer(documents, asked, options.documents)
    print(f"{options.set}: {len(asked)} questions, {len(documents):,} documents")
    reader = loaded_reader(language(asked[0].record.question)) if options.read else None
    half = torch.autocast("cpu", torch.bfloat16) if options.bfloat16 else nullcontext()
    words = list[list[int]]()
    for encoder in options.encoder or [None]:
        parts = f"-part{options.part}" if options.part is not None else ""
        folder = options.kept / f"{Path(options.set).stem}-{len(documents)}-{Path(encoder or 'words').name}{parts}"
        loaded = encoder and Encoder.load(encoder, **({"part": options.part} if parts else {}))
        with half, KnowledgeBase.open(folder, loaded, reader, create=True) as kb:
            start = time.process_time()
            owner = fill(kb, documents, folder)
            spent = time.process_time() - start
            print(f"{len(owner):,} passages, {encoder or 'words alone'}, indexed in {spent:.0f} s of CPU")
            words = report(kb, asked, owner, [float(weight) for weight in options.weights.split(",")], words)
            if reader is not None:
                read(kb, reader, asked, options.read, owner)


def is_hotpot(file: str) -> bool:
    """Whether a file has questions with titled paragraphs, of which some are needed."""
    return any("supporting_facts" in record for record in list(read_records(file))[:1])


def hotpot(file: str) -> tuple[list[tuple[str, str]], list[Asked]]:
    """All paragraphs of a HotpotQA file, as (title, text), and its questions."""
    numbers, asked = dict[tuple[str, str], int](), list[Asked]()
    for record in read_records(file):
        needed, gold = {title for title, _ in record["supporting_facts"]}, set[int]()
        for title, sentences in record["context"]:
            number = numbers.setdefault((title, "".join(sentences).strip()), len(numbers))
            gold |= {number} if title in needed else set()
        question = QuestionRecord(record["_id"], record["question"], (), (), (record["answer"],))
        asked.append(Asked(question, frozenset(gold)))
    return list(numbers), asked


def passages(file: str, asked: str | None) -> tuple[list[tuple[str, str]], list[Asked]]:
    """The passages of a file of questions, without titles, and the questions of ``asked`` about them that have an
    answer."""
    records = read_questions(file)
    numbers = {text: number for number, text in enumerate(dict.fromkeys(each.passages[0] for each in records))}
    wanted = records if asked is None else read_questions(asked)
    found = [each for each in wanted if each.accepted and each.passages[0] in numbers]
    return [("", text) for text in numbers], [Asked(each, frozenset({numbers[each.passages[0]]})) for each in found]


def fewer(documents: list[tuple[str, str]], asked: list[Asked], most: int) -> tuple[list[tuple[str, str]], list[Asked]]:
    """Some of the documents, those of the questions first, and the questions with their new numbers."""
    order = list(dict.fromkeys([number for each in asked for number in sorted(each.gold)] + [*range(len(documents))]))
    place = {number: index for index, number in enumerate(order[:most])}
    renumbered = [replace(each, gold=frozenset(place[number] for number in each.gold)) for each in asked]
    return [documents[number] for number in order[:most]], renumbered


def fill(kb: KnowledgeBase, documents: list[tuple[str, str]], folder: Path) -> dict[int, int]:
    """Index documents as records of files. Returns the document that each passage of the collection is of."""
    source = folder.with_name(f"{folder.name}-texts")
    source.mkdir(exist_ok=True)
    for start in range(0, len(documents), 256):  # a file of its own for each commit
        rows = [json.dumps({"title": title, "text": text}) + "\n" for title, text in documents[start : start + 256]]
        (source / f"{start:06d}.jsonl").write_text("".join(rows), encoding="utf-8")
    kb.update([str(source)])
    stored = kb.store.passages(kb.store.ids().tolist())
    return {id: int(Path(each.name).stem) + each.passage.numbers[0] - 1 for id, each in stored.items()}


def report(
    kb: KnowledgeBase, asked: list[Asked], owner: dict[int, int], weights: list[float], before: list[list[int]]
) -> list[list[int]]:
    """Print recall by BM25 alone and by words (unless it was printed before), vectors, vectors with BM25 alone, and
    vectors with words, with several weights. Returns the rankings by BM25."""
    by_words = [kb.words.search(each.record.question, POOL) for each in asked]
    ranked = [[id for id, _ in ranking] for ranking in by_words]
    by_vectors = [list[tuple[int, float]]() for _ in asked]
    if kb.dense:
        vectors = kb.encoder.encode_queries([each.record.question for each in asked]).numpy()
        by_vectors = [kb.vectors.search(vector, POOL) for vector in vectors]
    near = list[dict[int, float]]()
    search.sentence_terms = cache(lambda text, chinese: tuple(sentence_terms(text, chinese)))  # type: ignore[assignment]
    for each, words, dense in zip(asked, by_words, by_vectors, strict=True):
        stored = kb.store.passages(list(dict.fromkeys(id for id, _ in (*words, *dense))))
        near.append(kb.near(each.record.question, stored))

    def combined(weight: float, near: Sequence[dict[int, float] | None] = near) -> list[list[int]]:
        rankings = zip(by_words, by_vectors, near, strict=True)
        return [[id for id, _ in combine(words, dense, weight, nearer)] for words, dense, nearer in rankings]

    if not before:
        show("BM25", kb, ranked, ranked, asked, owner)
        show("words", kb, combined(0.0), ranked, asked, owner)
    if kb.dense:
        show("vectors", kb, [[id for id, _ in ranking] for ranking in by_vectors], ranked, asked, owner)
        show(f"BM25, {DENSE:.1f}", kb, combined(DENSE, [None] * len(asked)), ranked, asked, owner)
        for weight in weights:
            show(f"both, {weight:.1f}", kb, combined(weight), ranked, asked, owner)
    return ranked


def show(
    name: str, kb: KnowledgeBase, found: list[list[int]], words: list[list[int]], asked: list[Asked],
    owner: dict[int, int],
) -> None:  # fmt: skip
    """Print recall at CUTS in percent, with the interval at 1 and that of what it gains over BM25; then how often an
    accepted answer stands in what was found."""
    hits, base = recalled(found, asked, owner), recalled(words, asked, owner)
    low, high = interval(hits[:, 0])
    less, more = interval(hits[:, 0] - base[:, 0])
    held = np.zeros(len(CUTS))
    for ranking, each in zip(found, asked, strict=True):
        texts = [stored.passage.joined.text for stored in kb.store.passages(ranking[: max(CUTS)]).values()]
        held += [any(has_answer(text, each.record.accepted) for text in texts[:cut]) for cut in CUTS]
    print(
        f"{name:10} {slashed(hits.mean(0))}  [{low:.1f}, {high:.1f}]  over BM25 [{less:+.1f}, {more:+.1f}]"
        f"  answer in it {slashed(held / len(asked))}",
        flush=True,
    )


def recalled(found: list[list[int]], asked: list[Asked], owner: dict[int, int]) -> np.ndarray:
    """Whether a right document is among the first of CUTS: (questions, cuts). Passages of one document count once."""
    hits = np.zeros((len(asked), len(CUTS)))
    for row, (ranking, each) in enumerate(zip(found, asked, strict=True)):
        distinct = list(dict.fromkeys(owner[id] for id in ranking))
        hits[row] = [not each.gold.isdisjoint(distinct[:cut]) for cut in CUTS]
    return hits


def interval(values: np.ndarray) -> tuple[float, float]:
    """The interval of 95 % of a mean in percent, by resampling the questions."""
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLED, len(values)))
    low, high = np.percentile(100 * values[drawn].mean(1), [2.5, 97.5])
    return float(low), float(high)


def slashed(shares: np.ndarray) -> str:
    """Shares in percent, as 80.0 / 92.4 / 96.0."""
    return " / ".join(f"{100 * share:.1f}" for share in shares)


def read(kb: KnowledgeBase, reader: Reader, asked: list[Asked], k: int, owner: dict[int, int]) -> None:
    """Print the scores of answers from the right passage alone and from the best passages of the collection, and how
    often these are from the right one."""
    records = [each.record for each in asked]
    score: Any = METRICS["cmrc" if language(records[0].question) == "zh" else "squad"]
    alone = reader.ask_many([(record.question, record.passages) for record in records])
    print("right passage", score({r.id: a.text for r, a in zip(records, alone, strict=True)}, records).total)
    start = time.process_time()
    found = kb.ask_many([record.question for record in records], k)
    spent = (time.process_time() - start) / len(records)
    print(f"{k} passages  ", score({r.id: a.text for r, a in zip(records, found, strict=True)}, records).total)
    right = [
        answer.place is not None and int(Path(answer.file).stem) + answer.place.number - 1 in each.gold
        for answer, each in zip(found, asked, strict=True)
    ]
    low, high = interval(np.array(right, dtype=float))
    print(f"from the right passage {100 * np.mean(right):.1f} [{low:.1f}, {high:.1f}]; {spent:.2f} s of CPU a question")


def loaded_reader(name: str) -> Reader:
    """The shipped reader for a language; every question has an answer, so that it always gives one."""
    reader = Reader.load(name)
    reader.settings = replace(reader.settings, threshold=0.0)
    return reader


if __name__ == "__main__":
    main()
