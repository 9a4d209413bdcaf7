"""Draws a graph: cards in columns, and ways between them, such as the cognitive graph of a question."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from masquerade.drawing.pictures import FAINT, INK, MARGIN, Box, Drawing, Label, heading, printed, wrapped

COLOURS = {"title": "#cfdff1", "answer": "#f8e6c3", "best": "#c9e8e2", "nowhere": "#e2e6eb"}  # by the kind of a card
EDGE, BAR = "#b4bdc9", "#2f9e8f"
WIDE, LANE, GAP, PAD = 250, 90, 18, 10  # pixels: a card, the space between columns and between cards, inside of a card
NAME, SMALL, LINE = 13, 10.5, 14
LINES = 4  # lines of each clue


class Card(NamedTuple):
    """A node: its name, a line about it, its clues, its column, its kind (COLOURS), and a share of 0 to 1 as a bar."""

    name: str
    about: str
    clues: Sequence[str]
    column: int
    kind: str
    share: float = 0.0


def lay_graph(title: str, caption: str, cards: Sequence[Card], edges: Sequence[tuple[int, int]]) -> Drawing:
    """A graph as a drawing: edges from left to right where they can be, each in its own lane. Ways lie under cards."""
    columns = max((card.column for card in cards), default=0) + 1
    width = max(2 * MARGIN + columns * WIDE + (columns - 1) * LANE + LANE // 2, 460)
    labels: list[Label] = []
    top = heading(labels, title, caption, width) + 16
    texts = [_lines(card) for card in cards]
    below, places = [top] * columns, list[tuple[int, int, int]]()  # the left and upper edge and the height of a card
    for card, lines in zip(cards, texts, strict=True):
        height = 2 * PAD + LINE * len(lines) + (8 if card.share else 0)
        places.append((MARGIN + card.column * (WIDE + LANE), below[card.column], height))
        below[card.column] += height + GAP
    boxes: list[Box] = []
    for number, (start, end) in enumerate(edges):
        _way(boxes, labels, places[start], places[end], number)
    for card, lines, (x, y, height) in zip(cards, texts, places, strict=True):
        boxes.append(Box(x, y, WIDE, height, 6, EDGE, "edge"))
        boxes.append(Box(x + 1, y + 1, WIDE - 2, height - 2, 5, COLOURS[card.kind], card.kind))
        baseline = y + PAD + LINE - 4
        for text, size, fill in lines:
            labels.append(Label(x + PAD, baseline, text, size, fill))
            baseline += LINE
        if card.share:
            long = max(1, round((WIDE - 2 * PAD) * min(card.share, 1.0)))
            boxes.append(Box(x + PAD, y + height - PAD - 2, long, 5, 2, BAR, "score"))
    return Drawing(width, max(below) - GAP + MARGIN, boxes, labels, printed(title), printed(caption))


def _lines(card: Card) -> list[tuple[str, float, str]]:
    """The lines of a card, each with its size and colour."""
    found = [(line, float(NAME), INK) for line in wrapped(printed(card.name), NAME, WIDE - 2 * PAD)]
    found += [(line, SMALL, FAINT) for line in wrapped(printed(card.about), SMALL, WIDE - 2 * PAD)]
    for clue in card.clues:
        lines = wrapped(printed(clue), SMALL, WIDE - 2 * PAD)
        shown = lines if len(lines) <= LINES else [*lines[: LINES - 1], lines[LINES - 1][:-1] + "…"]
        found += [(line, SMALL, INK) for line in shown]
    return found


def _way(
    boxes: list[Box], labels: list[Label], start: tuple[int, int, int], end: tuple[int, int, int], number: int
) -> None:
    """An edge: out of a card, along a lane beside it, and into the other card; to an earlier column, from the left side
    to the right one, and inside of a column, from the right side to the right one."""
    (x, y, height), (u, v, depth) = start, end
    shift = 6 * (number % 5)
    first, last, beside = y + height // 2 + shift - 12, v + depth // 2 + shift - 12, 20 + 8 * (number % 6)
    ahead, back = u > x, u < x
    tip, out = u if ahead else u + WIDE, x if back else x + WIDE
    lane = out - beside if back else out + beside
    corners = [(out, first), (lane, first), (lane, last), (tip - 6 if ahead else tip + 6, last)]
    for (a, b), (c, d) in pairwise(corners):
        boxes.append(Box(min(a, c) - 1, min(b, d) - 1, abs(c - a) + 2, abs(d - b) + 2, 0, EDGE, "way"))
    labels.append(Label(tip - 5 if ahead else tip + 5, last + 3.5, "▶" if ahead else "◀", 10, FAINT, "middle"))
