"""Draws which entities and facts a [MASK] was filled with: a bar for each link, answer and fact."""

from __future__ import annotations

from math import ceil
from pathlib import Path

from masquerade.drawing.pictures import FAINT, FIELD, INK, MARGIN, Box, Drawing, Label, heading, measure, printed, save
from masquerade.memory.entity.recall import Recalled

ROW, SIZE, BAR = 22, 13, 160  # height of a row, font size, length of a whole bar, in pixels
COLOURS = {"link": "#57a06f", "answer": "#4878b0", "fact": "#e0a03c", "no fact": "#b9bec6"}

Bars = list[tuple[str, str, float]]  # what a bar is of (a key of COLOURS), its text, and its length from 0 to 1


def draw_recalled(found: Recalled, title: str, path: Path) -> None:
    """Draw the links, answers and facts of a filled text to a .png or .svg file."""
    save(lay_recalled(found, title), path)


def sections(found: Recalled) -> list[tuple[str, Bars]]:
    """The headings of the drawing with their bars: the mentions, then each blank."""
    links: Bars = [("link", f"{each.text} → {each.label} ({each.key})", each.probability) for each in found.links]
    shown = [("Mentions", links)] if links else []
    for number, blank in enumerate(found.blanks, start=1):
        bars: Bars = [("answer", answer.text, answer.probability) for answer in blank.answers]
        bars += [("fact", used.fact, used.weight) for used in blank.facts]
        if blank.facts or blank.no_fact < 1.0:
            bars.append(("no fact", "no fact", blank.no_fact))
        subject = f", read with '{blank.subject}'" if blank.subject else ""
        shown.append((f"[MASK] {number}{subject}", bars))
    return shown


def lay_recalled(found: Recalled, title: str) -> Drawing:
    """The drawing: under each heading a row a bar, its length the probability or weight."""
    shown = sections(found)
    widest = max((measure(printed(text), SIZE) for _, bars in shown for _, text, _ in bars), default=0.0)
    left = MARGIN + BAR + 62
    width = max(460, left + ceil(widest) + MARGIN)
    boxes: list[Box] = []
    labels: list[Label] = []
    y = heading(labels, title, found.text, width)
    for name, bars in shown:
        y += ROW + 6
        labels.append(Label(MARGIN, y, printed(name), SIZE, FAINT))
        y += 8
        for kind, text, share in bars:
            boxes.append(Box(MARGIN, y + 3, BAR, ROW - 8, 3, FIELD, "whole"))
            boxes.append(Box(MARGIN, y + 3, max(1, round(BAR * share)), ROW - 8, 3, COLOURS[kind], kind))
            labels.append(Label(left - 10, y + 14.5, f"{share:.1%}", 11, FAINT, "end"))
            labels.append(Label(left, y + 14.5, printed(text), SIZE, INK))
            y += ROW
    x, y = MARGIN, y + 16
    for kind in (kind for kind in COLOURS if any(kind == each for _, bars in shown for each, _, _ in bars)):
        boxes.append(Box(x, y, 12, 12, 3, COLOURS[kind], "legend"))
        labels.append(Label(x + 18, y + 10.5, kind, 12, INK))
        x += 36 + ceil(measure(kind, 12))
    return Drawing(width, y + 12 + MARGIN, boxes, labels, printed(title), printed(found.text))
