"""Draws the assembled stack of a Spec, from the words at the bottom to the heads at the top: for the terminal and,
through the pages of ``draw``, for a file. One placement on a grid of cells serves both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from textwrap import wrap
from typing import NamedTuple

from rich.text import Text

from masquerade.drawing.pictures import INK, MARGIN, Box, Drawing, Label, heading, printed
from masquerade.nn.spec import Spec

PARTS = {  # kind of block → its colour in a file, and in a terminal
    "words": ("#f8e6c3", "yellow"),
    "attention": ("#cfdff1", "blue"),
    "source": ("#e8d3e6", "magenta"),
    "feedforward": ("#c9e8e2", "cyan"),
    "norm": ("#e2e6eb", "bright_black"),
    "head": ("#f4d2cb", "red"),
    "frame": ("#f5f7f9", "bright_black"),
}
ARMS = {(0, -1): 1, (0, 1): 2, (-1, 0): 4, (1, 0): 8}  # up, down, left, right
WIRES = " ╵╷│╴╯╮┤╶╰╭├─┴┬┼"  # the character for each sum of arms
TIPS = {(0, -1): "▲", (0, 1): "▼", (-1, 0): "◀", (1, 0): "▶"}
ACROSS, DOWN = 8, 14  # pixels of a cell
WIRE = "#8a94a2"

Point = tuple[int, int]


class Block(NamedTuple):
    """A box on the grid, with its border; its lines are centred, and the first is its name. A frame surrounds other
    blocks and has its line at the top."""

    x: int
    y: int
    width: int
    height: int
    lines: tuple[str, ...]
    kind: str  # one of PARTS


@dataclass(frozen=True)
class Figure:
    """Blocks, each frame before its contents, and the connections, as lists of corners that end on a border."""

    title: str
    caption: str
    blocks: Sequence[Block]
    ways: Sequence[Sequence[Point]]

    @property
    def size(self) -> Point:
        """The number of cells across and down."""
        return max(each.x + each.width for each in self.blocks), max(each.y + each.height for each in self.blocks)


def _direction(start: Point, end: Point) -> Point:
    """The unit step from one point to another in the same row or column."""
    return (end[0] > start[0]) - (end[0] < start[0]), (end[1] > start[1]) - (end[1] < start[1])


def plan(figure: Figure) -> list[Text]:
    """The figure as lines for a terminal. Wires that meet are joined, because a cell sums its arms."""
    arms: dict[Point, int] = {}
    cells: dict[Point, tuple[str, str]] = {}  # character and style

    def wire(start: Point, end: Point, style: str) -> None:
        (x, y), (dx, dy) = start, _direction(start, end)
        while (x, y) != end:
            for place, arm in (((x, y), (dx, dy)), ((x + dx, y + dy), (-dx, -dy))):
                arms[place] = arms.get(place, 0) | ARMS[arm]
                cells[place] = WIRES[arms[place]], style
            x, y = x + dx, y + dy

    for x, y, width, height, _, kind in figure.blocks:
        right, bottom = x + width - 1, y + height - 1
        for start, end in pairwise([(x, y), (right, y), (right, bottom), (x, bottom), (x, y)]):
            wire(start, end, PARTS[kind][1])
    for way in figure.ways:
        for start, end in pairwise(way):
            dx, dy = _direction(start, end)
            before = end[0] - dx, end[1] - dy
            wire(start, before if end == way[-1] else end, "default")
            if end == way[-1]:
                cells[before] = TIPS[dx, dy], "default"
    for x, y, width, height, lines, kind in figure.blocks:
        top = y + 1 if kind == "frame" else y + (height - len(lines)) // 2
        for row, text in enumerate(lines, top):
            for column, sign in enumerate(text, x + (width - len(text)) // 2):
                cells[column, row] = sign, "default" if row > top else "bold"
    across, down = figure.size
    return [Text.assemble(*(cells.get((x, y), " ") for x in range(across)), no_wrap=True) for y in range(down)]


def lay_figure(figure: Figure) -> Drawing:
    """The figure as a drawing: cells of a fixed size in pixels, lines through the middle of cells."""
    across, down = figure.size
    width = max(2 * MARGIN + across * ACROSS, 400)
    boxes: list[Box] = []
    labels: list[Label] = []
    left, top = (width - across * ACROSS) // 2, heading(labels, figure.title, figure.caption, width) + 14

    def place(x: int, y: int) -> Point:
        return left + x * ACROSS + ACROSS // 2, top + y * DOWN + DOWN // 2

    for column, row, wide, high, lines, kind in figure.blocks:
        (x, y), (w, h), fill = place(column, row), ((wide - 1) * ACROSS, (high - 1) * DOWN), PARTS[kind][0]
        if kind == "frame":
            boxes.append(Box(x, y, w, h, 10, "#c8cfd8", "edge"))
        boxes.append(Box(x + 1, y + 1, w - 2, h - 2, 9 if kind == "frame" else 5, fill, kind))
        baseline = y + DOWN + 4.0 if kind == "frame" else y + h / 2 - 7.5 * (len(lines) - 1) + 4.5
        for number, text in enumerate(lines):
            size = 13 if number == 0 and kind != "frame" else 11
            labels.append(Label(x + w / 2, baseline + 15 * number, text, size, INK, "middle"))
    for way in figure.ways:
        for start, end in pairwise(way):
            (x, y), (u, v), (dx, dy) = place(*start), place(*end), _direction(start, end)
            if end == way[-1]:  # the wire ends inside its arrowhead
                u, v = u - 6 * dx, v - 6 * dy
                labels.append(Label(u + dx, v + dy + 3.0, TIPS[dx, dy], 9, WIRE, "middle"))
            boxes.append(Box(min(x, u) - 1, min(y, v) - 1, abs(u - x) + 2, abs(v - y) + 2, 0, WIRE, "way"))
    height = top + down * DOWN + MARGIN
    return Drawing(width, height, boxes, labels, printed(figure.title), printed(figure.caption))


WIDTH = 38  # cells of a column: the frame, its blocks, and to their right the residual connection
INSIDE = WIDTH - 6  # of a block
ADDED = {
    "learned": "learned positions",
    "inner": "learned places in a blank",
    "sinusoidal": "sinusoidal positions",
    "halves": "sinusoidal positions",
}
NORM = {"layer": "layer norm", "rms": "RMS norm"}


@dataclass
class _Column:
    """A stack that is drawn upwards from row 0; rows above it are negative."""

    x: int
    top: int = 0  # the upper border of the last block
    blocks: list[Block] = field(default_factory=list)
    ways: list[list[Point]] = field(default_factory=list)

    @property
    def middle(self) -> int:
        return self.x + 2 + INSIDE // 2

    def put(self, kind: str, *lines: str, gap: int = 0) -> Block:
        """Add a block: directly above the last one, or above a gap with a connection."""
        bottom = self.top - gap - 1 if gap else self.top
        text = tuple(part for line in lines for part in wrap(line, INSIDE - 4))
        block = Block(self.x + 2, bottom - len(text) - 1, INSIDE, len(text) + 2, text, kind)
        if gap:
            self.ways.append([(self.middle, self.top), (self.middle, bottom)])
        self.blocks.append(block)
        self.top = block.y
        return block

    def sublayer(self, spec: Spec, kind: str, *lines: str, gap: int = 2) -> Block:
        """Add attention or feed-forward, its norm before or after, and its residual connection."""
        branch = self.top - gap + 1
        if spec.norm_first:
            self.put("norm", NORM[spec.norm], gap=gap)
        block = self.put(kind, *lines, gap=0 if spec.norm_first else gap)
        end = self.put("norm", "add" if spec.norm_first else f"add & {NORM[spec.norm]}").y + 1
        lane = self.x + WIDTH - 3
        self.ways.append([(self.middle, branch), (lane, branch), (lane, end), (self.x + WIDTH - 5, end)])
        return block

    def embeddings(self, spec: Spec, shared: bool) -> None:
        """Add the token embeddings, and everything that is added to them before the first layer."""
        narrow = spec.embedding or spec.width
        notes = ["queries: one vector"] * spec.query_vector + [f"scaled by √{spec.width}"] * spec.embedding_scale
        self.put("words", "the encoder's words" if shared else "words", f"{spec.vocab:,} × {narrow}", *notes)
        if spec.project_words:
            self.put("words", f"projection, {spec.embedding} → {spec.width}")
        for name in spec.positions:
            if name in ADDED:
                size = [f"{spec.longest} × {spec.sum_width}"] * (name in ("learned", "inner"))
                self.put("words", f"+ {ADDED[name]}", *size)
        for what, number in (("segments", spec.segments), ("tasks", spec.tasks)):
            if number:
                self.put("words", f"+ {what}, {number} × {spec.sum_width}")
        if spec.embedding_norm:
            self.put("norm", NORM[spec.norm])
        if spec.embedding and not spec.project_words:
            self.put("words", f"projection, {spec.embedding} → {spec.width}")

    def layers(self, spec: Spec, mask: str, name: str) -> Block | None:
        """The layers and their frame; returns the attention to the source, if there is one."""
        bottom, cross = self.top - 2, None
        if spec.recurrent:
            self.put("attention", spec.recurrent.upper(), f"{spec.width:,} → {spec.width:,}", f"mask: {mask}", gap=4)
        else:
            cross = self._sublayers(spec, mask)
        steps, sets = len(spec.order), max(spec.order) + 1
        shared = f"{sets} set{'s' * (sets > 1)} of weights, used {steps} times" if sets < steps else f"× {steps}"
        self.top -= 2
        label = f"{name} {shared}".strip() if sets == steps else shared
        parts = [f"{kind} before layer {layer}" for layer, (kind, _) in spec.between.items()]
        self.blocks.append(
            Block(self.x, self.top, WIDTH, bottom - self.top + 1, (", ".join([label, *parts]),), "frame")
        )
        if spec.final_norm:
            self.put("norm", NORM[spec.norm], gap=1)
        return cross

    def _sublayers(self, spec: Spec, mask: str) -> Block | None:
        """The sublayers of one layer with attention; returns the attention to the source, if there is one."""
        heads = f"{spec.heads} heads of {spec.head_width}" + ("" if spec.scaled else ", unscaled")
        self.sublayer(spec, "attention", "self-attention", heads, f"mask: {mask}", *_relations(spec), gap=4)
        cross = self.sublayer(spec, "source", "attention to the source", heads) if spec.cross else None
        inner = f"{spec.width:,} → {spec.feedforward:,} → {spec.width:,}"
        kind = "gated feed-forward" if spec.gated else "feed-forward"
        self.sublayer(spec, "feedforward", kind, f"{inner}, {spec.activation}")
        return cross


def _relations(spec: Spec) -> list[str]:
    """The relative positions of attention, one line each."""
    known = {
        "rotary": "rotary positions",
        "buckets": f"{spec.buckets} buckets of distance",
        "alibi": "scores fall with distance",
        "nezha": f"fixed distances up to {spec.max_distance}",
        "transformer-xl": "relative distance" + (" and segment" if spec.segment_relation else ""),
        "disentangled": f"distance scored by {' and '.join(spec.position_scores)}",
    }
    return [known[name] for name in spec.positions if name in known]


def _heads(spec: Spec) -> list[str]:
    """The heads, one line each."""
    labels, dense = f"{len(spec.labels)} labels", f"dense, {spec.lm_activation}, norm, " if spec.lm_dense else ""
    table = "adaptive softmax" if spec.cutoffs else "tied" if spec.tied else "own table"
    known = {"lm": dense + table, "boundary": "a span from its edges", "detect": "replaced?", "tag": labels,
             "span": "start and end", "spans": "every span from its edges", "copy": "tokens of the passage",
             "classify": labels, "pair": "two sentences"}  # fmt: skip
    pooler = [f"pooler: dense, {spec.classifier_activation}"] * spec.pooler
    return [f"{name}: {known[name]}" if name in known else name for name in spec.all_heads] + pooler


def diagram(spec: Spec, title: str, caption: str = "", masks: Sequence[str] = ()) -> Figure:
    """The figure of a spec's network, from the embeddings at the bottom to the heads at the top; an encoder–decoder has
    two columns. ``masks`` replace the name of the spec's mask."""
    first, second = _Column(0), spec.decoder
    first.embeddings(spec, shared=False)
    if second is None:
        first.layers(spec, ", ".join(masks) or spec.mask, "")
        last, columns = first, [first]
    else:
        masks = masks if len(masks) == 2 else (spec.mask, second.mask)
        first.layers(spec, masks[0], "encoder")
        last = _Column(WIDTH + 4)
        last.embeddings(second, shared=True)
        cross, lane, out = last.layers(second, masks[1], "decoder"), WIDTH + 1, first.top - 2
        if cross is not None:
            row = cross.y + cross.height // 2
            last.ways.append([(first.middle, first.top), (first.middle, out), (lane, out), (lane, row), (cross.x, row)])
        columns = [first, last]
    heads = _heads(spec)
    last.put("head", "heads" if heads else "hidden states", *heads, gap=1)
    blocks = [block for column in columns for block in column.blocks]
    up = min(block.y for block in blocks)
    blocks = [block._replace(y=block.y - up) for block in sorted(blocks, key=lambda block: block.kind != "frame")]
    ways = [[(x, y - up) for x, y in way] for column in columns for way in column.ways]
    return Figure(title, caption, blocks, ways)
