"""A cognitive graph as lines of text."""

from __future__ import annotations

from masquerade.memory.working.cogqa import CognitiveGraph, GraphNode

SHOWN = 160  # characters of a clue


def graph_lines(graph: CognitiveGraph) -> list[str]:
    """The nodes in the order in which they were found, each with the clues that led to it, then the answer."""
    lines = list[str]()
    for number, node in enumerate(graph.nodes):
        mark = "* " if number == graph.best else "  "
        lines.append(f"{mark}{number}  {node.name}  ({about(node)})")
        for clue in node.clues:
            lines.append(f"        {clue.source} → {number}: {shortened(clue.sentence)}")
    return lines


def about(node: GraphNode) -> str:
    """What a node is, in a few words."""
    parts = ["in the question"] if node.named else []
    if node.answer:
        parts.append(f"candidate answer {node.score:.0%}")
    if not node.title:
        parts.append("no paragraph")
    elif node.title != node.name:
        parts.append(f"paragraph of {node.title}")
    if not parts:
        parts.append("hop" if node.clues else "found by its words")
    return ", ".join(parts)


def shortened(text: str, most: int = SHOWN) -> str:
    """A text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
