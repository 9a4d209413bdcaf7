"""What ``ask --hops`` reads and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from masquerade.cli.show.collections import asked_or_typed
from masquerade.cli.show.output import print_json
from masquerade.drawing.graphs import Card, lay_graph
from masquerade.drawing.pictures import Drawing, save
from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.working.cogqa import CognitiveGraph, CogQA
from masquerade.memory.working.graph_text import about, graph_lines, shortened
from masquerade.memory.working.paragraphs import CollectionParagraphs


def ask_in_steps(question: str | None, folder: Path, model: str | None, picture: Path | None, as_json: bool) -> None:
    """Print the answer to a question of several steps from a collection, and the graph of what was read."""
    if model is None:
        raise MasqueradeError("Questions of several steps need a model of 'train cogqa'; give it by --model.")
    if picture is not None and question is None:
        raise MasqueradeError("--graph draws the graph of one question; give the question.")
    if picture is not None and picture.suffix.lower() not in (".svg", ".png"):
        raise MasqueradeError(f"A graph is saved as .svg or .png, but '{picture.name}' ends in neither.")
    asked = CogQA.load(model)
    with KnowledgeBase.open(folder) as kb:
        source = CollectionParagraphs(kb)
        if not source.titles.titles:
            raise MasqueradeError(f"The collection in '{folder}' is empty; add files with 'masquerade index'.")
        for each in asked_or_typed(question):
            graph = asked.ask(each, source)
            if as_json:
                print_json(plain_graph(graph))
            else:
                _print(graph)
            if picture is not None:
                save(graph_drawing(graph), picture)


def _print(graph: CognitiveGraph) -> None:
    console = Console(highlight=False)
    if graph.answer:
        console.print(Text.assemble((graph.answer, "bold"), (f"  {graph.score:.1%}", "dim")), soft_wrap=True)
    else:
        console.print("No answer was found.")
    for line in graph_lines(graph):
        console.print(Text(line), soft_wrap=True)


def plain_graph(graph: CognitiveGraph) -> dict[str, Any]:
    """A graph as JSON."""
    nodes = [
        {
            "name": node.name, "title": node.title or None, "candidate": node.answer, "named": node.named,
            "score": node.score if node.answer else None,
            "clues": [{"from": clue.source, "sentence": clue.sentence} for clue in node.clues],
        }
        for node in graph.nodes
    ]  # fmt: skip
    return {
        "question": graph.question, "answer": graph.answer, "score": graph.score, "kind": graph.kind, "nodes": nodes,
        "edges": [list(edge) for edge in graph.edges], "best": graph.best if graph.best >= 0 else None,
    }  # fmt: skip


def graph_drawing(graph: CognitiveGraph) -> Drawing:
    """A graph as a drawing, with the question as its title and the answer as its caption."""
    cards = []
    for number, node in enumerate(graph.nodes):
        kind = "best" if number == graph.best else "answer" if node.answer else "title" if node.sentences else "nowhere"
        clues = [f"{graph.nodes[clue.source].name}: {shortened(clue.sentence)}" for clue in node.clues]
        cards.append(Card(node.name, about(node), clues, node.depth, kind, node.score if node.answer else 0.0))
    said = f"Answer: {graph.answer} ({graph.score:.0%})" if graph.answer else "No answer was found."
    return lay_graph(graph.question, said, cards, graph.edges)
