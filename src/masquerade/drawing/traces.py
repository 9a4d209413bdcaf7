"""Draws the decoding steps of a text: a row for each step and a column for each token, in the terminal or as a file.
One token a step is a staircase, all at once is one row, and blocks are a staircase with broad steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text

from masquerade.drawing.pictures import (
    FAINT,
    FIELD,
    INK,
    LONGEST,
    MARGIN,
    PAPER,
    Box,
    Drawing,
    Label,
    heading,
    measure,
    printed,
    save,
)
from masquerade.drawing.steps import Step, steps
from masquerade.text.tokenizer import Tokenizer
from masquerade.writing.generate import GeneratedText

STATES = {  # state of a token → style in a terminal, colours of box and text in a file
    "written in this step": ("bold white on blue", "#4878b0", PAPER),
    "written again": ("bold black on yellow", "#e0a03c", INK),
    "written before": ("", "#d3e0ef", INK),
    "not yet known": ("dim", FIELD, INK),
}
NEW, AGAIN, OLD, UNKNOWN = STATES
WIDEST, TALLEST = 1600, 1800  # the most pixels of a grid
ROW, SIZE, SMALLEST = 28, 13.0, 6.0  # height of a row; font size, and the smallest readable one

Grid = list[list[tuple[str, int | None]]]  # for each step and token: its state, and its id where it is known


def grid(found: Sequence[Step]) -> Grid:
    """The state of every token at every step."""
    rows: Grid = []
    for step in found:
        before = rows[-1] if rows else [(UNKNOWN, None)] * len(step.ids)
        row: list[tuple[str, int | None]] = []
        for index, (number, (_, past)) in enumerate(zip(step.ids, before, strict=True)):
            fresh = NEW if past is None else AGAIN
            row.append((UNKNOWN if number is None else fresh if index in step.new else OLD, number))
        rows.append(row)
    return rows


def curtain(tokenizer: Tokenizer, written: GeneratedText, width: int) -> Text:
    """The text after each step, with new tokens in colour and unknown ones as ░. A token has the same columns in all
    steps; lines are wrapped to ``width`` columns."""
    rows = grid(steps(written.trace))
    shown = Text(no_wrap=True)
    if not rows:
        return shown
    reads = _readings(tokenizer, rows)
    widths = [max(cell_len(text) for text in column.values()) for column in reads]
    margin = len(str(len(rows)))
    for number, row in enumerate(rows, start=1):
        for place, part in enumerate(_lines(widths, width - margin - 3)):
            shown.append(f"{'' if place else number:>{margin}} │ ", "dim")
            for index in part:
                state, token = row[index]
                text = "░" * widths[index] if token is None else reads[index][token]
                shown.append(text + " " * (widths[index] - cell_len(text)), STATES[state][0])
            shown.append("\n")
    shown.append(summary(written), "dim")
    return shown


def summary(written: GeneratedText) -> str:
    """The numbers of tokens and steps, as text."""
    tokens, taken = len({commit.index for commit in written.trace}), len({commit.step for commit in written.trace})
    return f"{tokens} token{'s' * (tokens != 1)} in {taken} step{'s' * (taken != 1)}"


def draw_traces(tokenizer: Tokenizer, texts: Sequence[tuple[str, GeneratedText]], title: str, path: Path) -> None:
    """Draw the steps of each named text, one below the other, to a .png or .svg file."""
    save(lay_traces(tokenizer, texts, title), path)


def lay_traces(tokenizer: Tokenizer, texts: Sequence[tuple[str, GeneratedText]], title: str) -> Drawing:
    """One drawing with the grids of all texts, in one scale."""
    grids = [grid(steps(written.trace)) for _, written in texts]
    columns = [_widths(tokenizer, rows) for rows in grids]
    scale = min(1.0, WIDEST / max(map(sum, columns)), TALLEST / (ROW * sum(map(len, grids))))
    labelled = SIZE * scale >= SMALLEST
    left = MARGIN + 26
    width = max(460, left + ceil(scale * max(map(sum, columns))) + MARGIN)
    boxes: list[Box] = []
    labels: list[Label] = []
    y = heading(labels, title, "" if labelled else "Tokens are omitted, because there are too many to read.", width)
    for (name, written), rows, wide in zip(texts, grids, columns, strict=True):
        y += 26
        labels.append(Label(MARGIN, y, _cut(printed(name), width - 2 * MARGIN - 150), 13, INK))
        labels.append(Label(width - MARGIN, y, summary(written), 12, FAINT, "end"))
        y += 10
        for number, row in enumerate(rows, start=1):
            top, bottom = y + round((number - 1) * ROW * scale), y + round(number * ROW * scale)
            if labelled:
                labels.append(Label(left - 8, (top + bottom) / 2 + 3, str(number), 9, FAINT, "end"))
            _draw_row(boxes, labels, tokenizer, row, wide, (left, top, bottom), scale)
        y += round(len(rows) * ROW * scale)
    y = _legend(boxes, labels, {state for rows in grids for row in rows for state, _ in row}, y + 18)
    return Drawing(
        width, y + MARGIN, boxes, labels, printed(title), "; ".join(summary(written) for _, written in texts)
    )


def _draw_row(
    boxes: list[Box],
    labels: list[Label],
    tokenizer: Tokenizer,
    row: Sequence[tuple[str, int | None]],
    widths: Sequence[float],
    place: tuple[int, int, int],
    scale: float,
) -> None:
    """One step: a box for each token, from ``left`` on, between ``top`` and ``bottom``."""
    left, top, bottom = place
    size, gap, x = SIZE * scale, 2 if scale > 0.4 else 1 if scale > 0.15 else 0, float(left)
    for (state, token), wide in zip(row, widths, strict=True):
        _, fill, ink = STATES[state]
        start, end = round(x), round(x + wide * scale)
        radius = round(5 * scale) if size >= SMALLEST else 0
        boxes.append(Box(start, top, max(1, end - start - gap), max(1, bottom - top - gap), radius, fill, state))
        if token is not None and size >= SMALLEST:
            middle = (start + end - gap) / 2, (top + bottom - gap) / 2 + size * 0.36
            labels.append(Label(*middle, _word(tokenizer, token), round(size, 2), ink, "middle"))
        x += wide * scale


def _legend(boxes: list[Box], labels: list[Label], shown: set[str], y: int) -> int:
    x = MARGIN
    for state in STATES:
        if state in shown:
            boxes.append(Box(x, y, 12, 12, 3, STATES[state][1], "legend"))
            labels.append(Label(x + 18, y + 10.5, state, 12, INK))
            x += 36 + ceil(measure(state, 12))
    return y + 12


def _widths(tokenizer: Tokenizer, rows: Grid) -> list[float]:
    """The width of each column, for the widest of its tokens."""
    return [
        max(30.0, max(measure(_word(tokenizer, token), SIZE) + 14 for _, token in column if token is not None))
        for column in zip(*rows, strict=True)
    ]


def _word(tokenizer: Tokenizer, token: int) -> str:
    """A token as the label of a box, cut if it is long."""
    word = _visible(tokenizer.word(token))
    while cell_len(word) > LONGEST:
        word = word.removesuffix("…")[:-1] + "…"
    return word


def _cut(text: str, width: float) -> str:
    """A text cut to a width in pixels."""
    while len(text) > 1 and measure(text, 13) > width:
        text = text.removesuffix("…")[:-1] + "…"
    return text


def _readings(tokenizer: Tokenizer, rows: Grid) -> list[dict[int, str]]:
    """For each index of a text, the text of every token it held, decoded after the final tokens before it."""
    last = [token for _, token in rows[-1] if token is not None]
    columns = [{token for _, token in column if token is not None} for column in zip(*rows, strict=True)]
    return [
        {token: _reading(tokenizer, last[:index], token) for token in tokens} for index, tokens in enumerate(columns)
    ]


def _reading(tokenizer: Tokenizer, before: Sequence[int], token: int) -> str:
    """The text that a token adds after others: with its space; a character of several tokens at the last one."""
    if not tokenizer.decode([token]):
        return tokenizer.tokens([token])[0]  # a special token
    opening, whole = (tokenizer.decode(ids).rstrip("\ufffd") for ids in (before, [*before, token]))
    text = whole[len(opening) :] if whole.startswith(opening) else tokenizer.decode([token])
    return _visible(text) or "·"


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() else "⏎" if c == "\n" else "·" for c in text)


def _lines(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """The indices of tokens, line by line."""
    line: list[int] = []
    for index, width in enumerate(widths):
        if line and sum(widths[place] for place in line) + width > room:
            yield line
            line = []
        line.append(index)
    yield line
