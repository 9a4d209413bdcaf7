"""What an encoder is trained on: queries with the passages that they should find, and passages that look like them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from masquerade.data.rng import Rng
from masquerade.documents.document import Document
from masquerade.errors import MasqueradeError
from masquerade.files import write_text
from masquerade.memory.retrieval.encoder import Encoder
from masquerade.memory.retrieval.evaluation import has_answer
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.passage_parts import best_parts
from masquerade.memory.retrieval.passages import cut_passages
from masquerade.memory.retrieval.sources import find_files, read_entries
from masquerade.reading.records import QuestionRecord
from masquerade.text.sentences import SENTENCE_END

NOTHING = -1  # where a question has fewer negatives than others
SEARCHED = 4  # times as many passages are searched as negatives are needed, since some hold the answer
TOGETHER = 1024  # queries that are compared with all passages at once


@dataclass(frozen=True)
class Pair:
    """A query, and the number of its passage."""

    query: str
    passage: int
    answers: tuple[str, ...] = ()  # a passage that holds one of them is no negative


@dataclass(frozen=True)
class PairSet:
    """Pairs, and the passages that they are about, as a collection has them."""

    pairs: list[Pair]
    passages: list[str]


def question_pairs(records: Sequence[QuestionRecord], path: Path | None = None) -> PairSet:
    """Questions with the passage that holds their answer. Contexts are cut as a collection cuts documents; with
    ``path`` they are also written there, one a line, in the same order."""
    numbers, contexts = dict[tuple[str, str], int](), list[tuple[str, str]]()
    asked = list[tuple[QuestionRecord, int, int]]()
    for record in records:
        for context, golds in zip(record.passages, record.spans, strict=True):
            if golds:
                key = (record.title.replace("_", " "), context)
                if key not in numbers:
                    numbers[key] = len(contexts)
                    contexts.append(key)
                asked.append((record, numbers[key], golds[0].start))
    if path is not None:
        lines = [json.dumps({"title": title, "text": text}, ensure_ascii=False) for title, text in contexts]
        write_text(path, "\n".join(lines) + "\n")
    passages, places = list[str](), list[list[tuple[int, int]]]()
    for title, text in contexts:
        places.append([])
        for passage in cut_passages(Document("", text, title)):
            places[-1].append((passage.end, len(passages)))
            passages.append(passage.searched(title))
    pairs = list[Pair]()
    for record, own, start in asked:
        number = next((number for end, number in places[own] if start < end), NOTHING)
        if number != NOTHING:
            pairs.append(Pair(record.question, number, record.accepted))
    return PairSet(pairs, passages)


def cloze_passages(sources: Sequence[str], run: Path) -> list[str]:
    """The passages of files, folders and globs that have at least two sentences, without files of the run's folder."""
    found = list[str]()
    for path in find_files(sources, run):
        try:
            entries, _ = read_entries(path)
        except MasqueradeError:  # binary, damaged, empty
            continue
        found += [passage.joined.text for entry in entries for passage in entry.passages]
    kept = [text for text in dict.fromkeys(found) if len(sentences(text)) > 1]
    if not kept:
        raise MasqueradeError(
            f"No passage of {', '.join(sources)} has two sentences; inverse cloze needs longer texts."
        )
    return kept


def sentences(text: str) -> list[tuple[int, int]]:
    """The sentences of a text: (start, end) in characters."""
    stops = [match.end() for match in SENTENCE_END.finditer(text)]
    bounds = [0, *(stop for stop in stops if 0 < stop < len(text)), len(text)]
    return [(start, end) for start, end in pairwise(bounds) if text[start:end].strip()]


def inverse_cloze(text: str, keep: float, rng: Rng) -> tuple[str, str]:
    """A random sentence of a passage, and the passage without it; with the probability ``keep`` it stays in."""
    places = sentences(text)
    start, end = places[int(rng.integers(len(places)))]
    rest = text if rng.random() < keep else f"{text[:start]}{text[end:]}"
    return text[start:end].strip(), rest.strip()


def negatives_by_words(data: PairSet, source: Path, folder: Path, count: int) -> Tensor:
    """The passages that BM25 finds for each query and that neither are its own nor hold an answer: (pairs, count),
    NOTHING where there are fewer. ``source`` has the contexts of the passages; the index of words is in ``folder``."""
    with KnowledgeBase.open(folder, create=True) as kb:
        if not kb.store.count("passages"):
            kb.update([str(source)])
        ids = kb.store.ids()  # ascending: in the order of the file, which is that of the passages
        if len(ids) != len(data.passages):
            raise MasqueradeError(f"The index in '{folder}' is not of these passages; choose another 'out'.")
        number = {int(id): index for index, id in enumerate(ids)}

        def ranked(pair: Pair) -> list[int]:
            return [number[id] for id, _ in kb.words.search(pair.query, SEARCHED * count)]

        return _filled(data, count, ranked)


def negatives_by_vectors(data: PairSet, encoder: Encoder, count: int) -> Tensor:
    """The same by the encoder itself: (pairs, count)"""
    passages = encoder.encode_parts(data.passages)
    most = min(len(passages), SEARCHED * count)
    found = list[list[int]]()
    for start in range(0, len(data.pairs), TOGETHER):
        scores = query_scores(encoder, [pair.query for pair in data.pairs[start : start + TOGETHER]], passages)
        found += scores.topk(most).indices.tolist()
    rankings = iter(found)
    return _filled(data, count, lambda pair: next(rankings))


def query_scores(encoder: Encoder, queries: Sequence[str], passages: Sequence[Tensor]) -> Tensor:
    """The dot product of each query with the best part of each passage, given as vectors of its parts, (parts, width)
    each: (queries, passages)"""
    owner = torch.arange(len(passages)).repeat_interleave(torch.tensor([len(parts) for parts in passages]))
    return best_parts(encoder.encode_queries(queries) @ torch.cat(list(passages)).T, owner, len(passages))


def _filled(data: PairSet, count: int, ranked: Callable[[Pair], list[int]]) -> Tensor:
    """The first passages of each pair's ranking that neither are its own nor hold an answer: (pairs, count)"""
    made = torch.full((len(data.pairs), count), NOTHING)
    for row, pair in enumerate(data.pairs):
        wrong = list[int]()
        for number in ranked(pair):
            if number != pair.passage and not has_answer(data.passages[number], pair.answers):
                wrong.append(number)
            if len(wrong) == count:
                break
        made[row, : len(wrong)] = torch.tensor(wrong, dtype=torch.long)
    return made
