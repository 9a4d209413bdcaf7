"""CogQA: questions of several steps. System 1 reads paragraph after paragraph and extends a graph of titles and
candidate answers; system 2 chooses from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from masquerade.checkpoints.folders import load
from masquerade.errors import MasqueradeError
from masquerade.memory.working.paragraphs import ParagraphSource
from masquerade.memory.working.questions import SPAN, YES_NO, kind_of
from masquerade.memory.working.system1 import NodeReading, NodeText, System1
from masquerade.memory.working.titles import base_name, plain_name
from masquerade.nn.model import Model
from masquerade.text.chinese import CHINESE

STAGES = ("joint", "graph", "spans")  # the folders of a run's stages, the last one first
NODES = 16  # titles of a graph at most
DEPTH = 3  # hops from the question at most
FOUND = 2  # paragraphs that the search for the question begins with, beside those of titles in the question
LOWER = 0.1  # by how much a threshold is lowered below the best answer, where there is none at all
NAMED, REACHED = 2.0, 2.0  # how much it supports a paragraph that the question names it, or that a hop led to it


@dataclass(frozen=True)
class Clue:
    """A sentence of the paragraph of node ``source`` that led to another node."""

    source: int
    sentence: str


@dataclass
class GraphNode:
    """A title, or a candidate answer, or both."""

    name: str
    title: str = ""  # of its paragraph; empty: it has none
    answer: bool = False
    named: bool = False  # whether the question names it
    depth: int = 0  # hops from the question
    clues: list[Clue] = field(default_factory=list)
    sentences: tuple[str, ...] = ()
    reading: NodeReading | None = None
    margin: float = 0.0  # of a candidate answer, the score of its span
    score: float = 0.0  # of system 2, for candidate answers: a probability

    @property
    def support(self) -> float:
        """How likely its paragraph is needed for the answer."""
        own = self.reading.margin if self.reading is not None and self.sentences else -1e9
        return own + NAMED * self.named + REACHED * bool(self.clues)


@dataclass
class CognitiveGraph:
    """The nodes that were visited for a question, the edges between them, and the answer."""

    question: str
    kind: str = SPAN
    nodes: list[GraphNode] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    answer: str = ""
    score: float = 0.0
    best: int = -1  # the number of the node that is the answer; −1 for yes, no and none
    pair: tuple[int, int] | None = None  # the two nodes that a comparison is about

    def connect(self, start: int, end: int, sentence: str) -> bool:
        """Add an edge, and a clue to its end; False if both are known, or the edge would lead back to its start."""
        clue = Clue(start, sentence)
        if start == end or clue in self.nodes[end].clues:
            return False
        if (start, end) not in self.edges:
            self.edges.append((start, end))
        self.nodes[end].clues.append(clue)
        return True

    def find(self, name: str, title: str) -> int:
        """The number of the node of a title, or of a name without one; −1 if there is none."""
        for number, node in enumerate(self.nodes):
            if (title and node.title == title) or (not title and plain_name(node.name) == plain_name(name)):
                return number
        return -1

    def text_of(self, number: int) -> NodeText:
        """What system 1 reads for a node."""
        node = self.nodes[number]
        clues = " ".join(dict.fromkeys(clue.sentence.strip() for clue in node.clues))
        return NodeText(self.question, clues, node.sentences)

    def semantics(self) -> Tensor:
        """The semantics of all nodes: (nodes, width)"""
        return torch.stack([node.reading.semantics for node in self.nodes if node.reading is not None])

    def edge_tensor(self) -> Tensor:
        """The edges as (m, 2), from and to."""
        return torch.tensor(self.edges, dtype=torch.long).reshape(-1, 2)

    def answers(self) -> list[int]:
        """The numbers of the candidate answers."""
        return [number for number, node in enumerate(self.nodes) if node.answer]

    def supporting(self, count: int) -> list[str]:
        """The titles of the paragraphs that are most likely needed, best first."""
        with_text = [node for node in self.nodes if node.sentences]
        return [node.title for node in sorted(with_text, key=lambda node: -node.support)[:count]]


class CogQA:
    """Answers to questions of several steps."""

    def __init__(self, model: Model, nodes: int = NODES, depth: int = DEPTH, found: int = FOUND) -> None:
        self.system1 = System1(model)
        self.nodes, self.depth, self.found = nodes, depth, found

    @staticmethod
    def load(source: str | Path) -> CogQA:
        """The model of a run, of its last stage, or in a folder."""
        stages = [Path(source) / stage for stage in STAGES]
        begun = [stage for stage in stages if any(stage.glob("step-*/state.json"))]
        return CogQA(load(begun[0] if begun else source))

    def ask(self, question: str, source: ParagraphSource) -> CognitiveGraph:
        """The graph of a question, with its answer."""
        graph = self.explore(question, source)
        self.decide(graph)
        return graph

    def explore(self, question: str, source: ParagraphSource) -> CognitiveGraph:
        """The graph of a question: titles that hops lead to and candidate answers, all read by system 1."""
        if not question.strip():
            raise MasqueradeError("The question is empty; ask something.")
        graph, named = CognitiveGraph(question), source.titles.named(question)[: self.nodes // 2]
        for title in dict.fromkeys([*named, *source.search(question, self.found)]):
            self._add(graph, source, title, title, title in named, 0)
        graph.kind = kind_of(question, len(named))
        if graph.kind != SPAN:
            graph.pair = (0, 1)
        frontier = list(range(len(graph.nodes)))
        seen = dict.fromkeys(frontier, 1)  # how often a node was put into the frontier
        while frontier:
            self._read(graph, frontier)
            following = list[int]()
            for number in frontier:
                for changed in self._expand(graph, source, number):
                    if changed not in following and not graph.nodes[changed].answer and seen.get(changed, 0) < 2:
                        following.append(changed)
                        seen[changed] = seen.get(changed, 0) + 1
            frontier = following
        if not graph.answers():
            self._lower(graph, source)
        self.read_new(graph)
        return graph

    def read_new(self, graph: CognitiveGraph) -> None:
        """Read the nodes that were not read, or have a new clue."""
        self._read(graph, [number for number, node in enumerate(graph.nodes) if node.reading is None])

    @torch.inference_mode()
    def decide(self, graph: CognitiveGraph) -> None:
        """Choose the answer by system 2."""
        network, candidates = self.system1.graph, graph.answers()
        if not graph.nodes:
            return
        nodes = graph.semantics().to(self.system1.model.device)
        after = network(nodes, graph.edge_tensor().to(nodes.device))
        if candidates:
            odds = network.answers(after)[candidates].softmax(-1).tolist()
            for number, score in zip(candidates, odds, strict=True):
                graph.nodes[number].score = score
        if graph.pair is not None:
            sure = float(network.compare(nodes, after, graph.pair, graph.kind == YES_NO).sigmoid())
            first, graph.score = sure >= 0.5, max(sure, 1 - sure)
            if graph.kind == YES_NO:
                words = ("是", "否") if CHINESE.search(graph.question) else ("yes", "no")
                graph.answer = words[0] if first else words[1]
            else:
                graph.best = graph.pair[0 if first else 1]
                graph.answer = base_name(graph.nodes[graph.best].name)
        elif candidates:
            graph.best = max(candidates, key=lambda number: graph.nodes[number].score)
            graph.answer, graph.score = graph.nodes[graph.best].name, graph.nodes[graph.best].score

    def _add(
        self, graph: CognitiveGraph, source: ParagraphSource, name: str, title: str, named: bool, depth: int
    ) -> int:
        sentences = source.sentences(title, graph.question) if title else ()
        graph.nodes.append(GraphNode(name, title, named=named, depth=depth, sentences=sentences))
        return len(graph.nodes) - 1

    def _read(self, graph: CognitiveGraph, numbers: Sequence[int]) -> None:
        """Read nodes by system 1."""
        found = self.system1.read([graph.text_of(number) for number in numbers]) if numbers else []
        for number, reading in zip(numbers, found, strict=True):
            graph.nodes[number].reading = reading

    def _expand(self, graph: CognitiveGraph, source: ParagraphSource, number: int) -> list[int]:
        """Add what was found in a node's paragraph to the graph; returns the nodes that have a new clue."""
        node, changed = graph.nodes[number], list[int]()
        if node.reading is None:
            return changed
        for span in node.reading.hops:
            if span.score <= 0 and not source.titles.titles_of(span.text):
                continue
            title = source.titles.link(span.text) or ""
            other = graph.find(span.text, title)
            if other < 0:
                if len(graph.nodes) >= self.nodes or node.depth >= self.depth or not plain_name(span.text):
                    continue
                other = self._add(graph, source, span.text, title, False, node.depth + 1)
            if graph.connect(number, other, node.sentences[span.sentence]):
                changed.append(other)
        for span in node.reading.answers:
            self.add_answer(graph, source, number, span.text, span.score, node.sentences[span.sentence])
        return changed

    def add_answer(
        self, graph: CognitiveGraph, source: ParagraphSource, number: int, text: str, margin: float, sentence: str
    ) -> None:
        """Add a candidate answer to the graph. A node of the same name or title becomes one."""
        if not plain_name(text):
            return
        title = source.titles.link(text) or ""
        other = graph.find(text, title)
        if other < 0:
            other = self._add(graph, source, text, title, False, graph.nodes[number].depth + 1)
        node = graph.nodes[other]
        node.answer, node.margin = True, max(node.margin, margin)
        if graph.connect(number, other, sentence):
            node.reading = None  # it is read again, with its new clue

    def _lower(self, graph: CognitiveGraph, source: ParagraphSource) -> None:
        """Take the answer that lacks least where none is above the threshold."""
        read = [(node.reading.gap, n) for n, node in enumerate(graph.nodes) if node.reading and node.sentences]
        for gap, number in sorted(read):
            node = graph.nodes[number]
            for span in node.reading.again(gap + LOWER) if node.reading else ():
                self.add_answer(graph, source, number, span.text, span.score, node.sentences[span.sentence])
            if graph.answers():
                return
