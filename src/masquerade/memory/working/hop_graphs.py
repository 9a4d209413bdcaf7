"""The graphs that system 2 of CogQA learns from: those that system 1 makes of training questions, with the right node
marked."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from masquerade.memory.working.cogqa import CognitiveGraph, CogQA
from masquerade.memory.working.hop_records import HopRecord, answer_kind, answer_spans
from masquerade.memory.working.questions import KINDS, SPAN
from masquerade.memory.working.titles import plain_name
from masquerade.reading.records import QuestionRecord
from masquerade.reading.scores import METRICS
from masquerade.text.chinese import CHINESE

ENOUGH = 0.5  # the least F1 of a candidate that counts as the answer


@dataclass(frozen=True)
class TrainingGraph:
    """A graph for system 2: candidate answers stand last."""

    semantics: Tensor  # (nodes, width)
    edges: list[list[int]]
    target: list[int]  # as of ``GraphNetwork.loss``
    items: list[tuple[str, str]]  # the title and the clues of each node


def training_graph(asked: CogQA, record: HopRecord) -> TrainingGraph | None:
    """The graph of a training question. The right answer is added where system 1 does not find it; None for a question
    whose answer is not in its paragraphs."""
    graph = asked.explore(record.question, record.source)
    named = [node.title for node in graph.nodes if node.named]
    kind, label = answer_kind(record, named)
    if kind != SPAN:
        if len(named) < 2:
            return None
        return _made(graph, [KINDS.index(kind), 0, 1, label], list(range(len(graph.nodes))))
    best = max(graph.answers(), key=lambda n: answer_f1(graph.nodes[n].name, record.answer), default=-1)
    if best < 0 or answer_f1(graph.nodes[best].name, record.answer) < ENOUGH:
        best = _add_answer(asked, graph, record)
    if best < 0:
        return None
    answers = set(graph.answers())
    order = sorted(range(len(graph.nodes)), key=lambda number: (number in answers, number))
    first = len(order) - len(answers)
    return _made(graph, [0, first, 0, order.index(best)], order)


def _add_answer(asked: CogQA, graph: CognitiveGraph, record: HopRecord) -> int:
    """Add the right answer to a graph, after a needed paragraph that has it; returns its number, −1 if none has."""
    for number, node in enumerate(graph.nodes):
        spans = answer_spans(record, node.title) if node.title in record.gold else []
        if spans:
            asked.add_answer(graph, record.source, number, record.answer, 0.0, node.sentences[spans[0][0]])
            asked.read_new(graph)
            found = [n for n in graph.answers() if plain_name(graph.nodes[n].name) == plain_name(record.answer)]
            title = record.source.titles.link(record.answer)
            return found[0] if found else graph.find(record.answer, title or "")
    return -1


def _made(graph: CognitiveGraph, target: list[int], order: list[int]) -> TrainingGraph:
    place = {number: at for at, number in enumerate(order)}
    items = [(graph.nodes[number].title, graph.text_of(number).clues) for number in order]
    edges = [[place[start], place[end]] for start, end in graph.edges]
    return TrainingGraph(graph.semantics()[order].clone(), edges, target, items)


def answer_f1(guess: str, answer: str) -> float:
    """The F1 of the words of an answer, 0 to 1; of Chinese ones, of their characters."""
    record = QuestionRecord("", "", (), (), (answer,))
    metric = METRICS["cmrc" if CHINESE.search(answer) else "squad"]
    return metric({"": guess}, [record]).total["f1"] / 100
