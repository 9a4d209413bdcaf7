"""How well questions of several steps are answered: whether the needed paragraphs are found, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from masquerade.memory.working.cogqa import CognitiveGraph, CogQA
from masquerade.memory.working.hop_graphs import answer_f1
from masquerade.memory.working.hop_records import HopRecord
from masquerade.memory.working.titles import plain_name


def hop_scores(
    asked: CogQA, records: Sequence[HopRecord], done: Callable[[int], None] = lambda count: None
) -> dict[str, float]:
    """The means of ``question_scores``, in percent; ``held_out`` is the F1 of answers."""
    if not records:
        return {}
    rows = []
    for record in records:
        rows.append(question_scores(asked.ask(record.question, record.source), record))
        done(1)
    means = {name: 100 * sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    means["read"] /= 100
    return {"held_out": means["f1"], **means, "questions": float(len(rows))}


def question_scores(graph: CognitiveGraph, record: HopRecord) -> dict[str, float]:
    """Of a question: whether the answer is exact, its F1, whether as many best paragraphs as are needed are those that
    are (``found``), whether all needed ones were read at all (``reached``), and how many were read."""
    gold, read = set(record.gold), [node.title for node in graph.nodes if node.sentences]
    return {
        "exact": float(plain_name(graph.answer) == plain_name(record.answer)),
        "f1": answer_f1(graph.answer, record.answer) if graph.answer else 0.0,
        "found": float(bool(gold) and gold == set(graph.supporting(len(gold)))),
        "reached": float(gold <= set(read)),
        "read": float(len(read)),
    }
