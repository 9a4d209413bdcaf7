"""Draws who sees whom: a mask as a picture, in the terminal, as SVG and as PNG.

A mask is the one thing that tells the language models of this toolkit apart, so it must be easy to look at.
All three drawings read one small `Picture`, which knows nothing of tensors. SVG and PNG share one drawing
(boxes and labels with coordinates) and differ only in how a box and a label reach the file. The PNG is drawn
with fonts that ship with the package, because a machine without Chinese fonts is the usual machine.

A network is drawn too (``catalogue.diagram``), as a `Figure`: blocks and ways between them on a grid of terminal
cells, so that one placement serves the terminal and, each cell a few pixels wide, the drawing.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from math import ceil, cos, radians, sin
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from PIL import Image, ImageDraw, ImageFont
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from masquerade.errors import MasqueradeError
from masquerade.files import write_whole

KINDS = {  # kind of token → its colour in a file
    "content": "#4878b0",
    "placeholder": "#e0a03c",
    "query": "#2f9e8f",
    "peer": "#a65a9c",
    "padding": "#9aa3af",
}
STYLES = dict(zip(KINDS, ("blue", "yellow", "cyan", "magenta", "bright_black"), strict=True))  # in a terminal
PAPER, FIELD, INK, FAINT = "#fdfdfc", "#ebeef2", "#28303b", "#6b7684"
FAMILY = (
    "'Noto Sans', 'Segoe UI', 'Helvetica Neue', Arial, 'Noto Sans CJK SC', 'Source Han Sans SC', 'PingFang SC', "
    "'Microsoft YaHei', 'WenQuanYi Micro Hei', 'DejaVu Sans', 'Droid Sans Fallback', sans-serif"
)
LONGEST = 12  # the most columns of a token
MARGIN, SCALE = 28, 2
KEY = "A row sees its filled columns; the colour is the kind of the column's token."
UNLABELLED = "Tokens are omitted, because there are too many to read."
WIDE = "Wider than this terminal; a file shows all of it: --out mask.svg"


@dataclass(frozen=True)
class Picture:
    """A mask with the tokens of both axes, without tensors."""

    title: str
    seen: Sequence[Sequence[bool]]  # seen[q][k]: row q sees column k
    rows: Sequence[str]  # token of each row (query), drawn at the left
    columns: Sequence[str]  # token of each column (key), drawn on top
    row_kinds: Sequence[str]  # one of KINDS for each row
    column_kinds: Sequence[str]
    caption: str = ""  # one sentence: who sees whom

    def __post_init__(self) -> None:
        """Check that all sizes agree."""
        height, width = len(self.rows), len(self.columns)
        if not height or not width:
            raise MasqueradeError("A picture needs at least one row and one column.")
        if len(self.seen) != height or any(len(row) != width for row in self.seen):
            raise MasqueradeError(f"The mask must have {height} rows of {width} columns, as its tokens do.")
        if len(self.row_kinds) != height or len(self.column_kinds) != width:
            raise MasqueradeError("A picture needs one kind for every row and every column.")
        if unknown := {*self.row_kinds, *self.column_kinds} - KINDS.keys():
            raise MasqueradeError(f"Unknown kind {min(unknown)!r}: the kinds are {', '.join(KINDS)}.")


def kinds_in(picture: Picture) -> list[str]:
    """The kinds that occur, in the order of KINDS, for the legend."""
    return [kind for kind in KINDS if kind in picture.row_kinds or kind in picture.column_kinds]


def _printable(text: str) -> str:
    """The text with control characters and lone surrogates, which are invalid in XML, as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printed(text: str) -> str:
    return _printable(" ".join(text.split()))


def _token(token: str) -> str:
    """A token as a label: with visible spaces, and cut if it is long."""
    token = _printable(token.replace(" ", "␣"))
    if cell_len(token) <= LONGEST:
        return token
    while cell_len(token) > LONGEST - 1:
        token = token[:-1]
    return token + "…"


def terminal(picture: Picture, colour: bool = True) -> RenderableType:
    """The picture as text for a rich console, two columns a cell, as wide as a Chinese character."""
    return _Terminal(picture, colour)


@dataclass(frozen=True)
class _Terminal:
    """Rendered by the console, which knows its width."""

    picture: Picture
    colour: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        picture = self.picture
        rows, columns = [_token(t) for t in picture.rows], [_upright(t) for t in picture.columns]
        indent, tall = max(map(cell_len, rows)) + 1, max(map(len, columns))
        lines = [Text(printed(picture.title), "bold")] if picture.title else []
        for level in range(tall, 0, -1):
            line = Text(" " * indent)
            for characters, kind in zip(columns, picture.column_kinds, strict=True):
                line.append(characters[-level] if level <= len(characters) else "  ", STYLES[kind])
            lines.append(line)
        for token, row, kind in zip(rows, picture.seen, picture.row_kinds, strict=True):
            line = Text(" " * (indent - 1 - cell_len(token))).append(token + " ", STYLES[kind])
            for sees, kind in zip(row, picture.column_kinds, strict=True):
                line.append("██" if sees else "· ", STYLES[kind] if sees else "dim")
            lines.append(line)
        if self.colour:
            lines.append(Text().join(Text(f"██ {kind}  ", STYLES[kind]) for kind in kinds_in(picture)))
        for line in lines:
            line.no_wrap, line.overflow = True, "crop"
        if picture.caption:
            lines.append(Text(printed(picture.caption), "dim"))
        if indent + 2 * len(columns) > options.max_width:
            lines.append(Text(WIDE, "yellow", no_wrap=True))
        for line in lines:
            yield line if self.colour else Text(line.plain, no_wrap=line.no_wrap, overflow=line.overflow)


def _upright(token: str) -> list[str]:
    """The characters of a token, each padded to two columns, for vertical text."""
    parts: list[str] = []
    for character in _token(token):
        if parts and cell_len(character) == 0:  # an accent belongs to the letter before it
            parts[-1] += character
        else:
            parts.append(character)
    return [part + " " * (2 - cell_len(part)) if cell_len(part) <= 2 else "□ " for part in parts]


class Box(NamedTuple):
    """A filled rectangle; its role is its meaning, such as "seen content"."""

    x: int
    y: int
    width: int
    height: int
    radius: int
    fill: str
    role: str


class Label(NamedTuple):
    """A text whose baseline starts (anchor "start"), is centred or ends at x, y, turned left by angle degrees."""

    x: float
    y: float
    text: str
    size: float
    fill: str
    anchor: str = "start"
    angle: int = 0


class Drawing(NamedTuple):
    """Boxes and labels in drawing order; title and caption also describe it for screen readers."""

    width: int
    height: int
    boxes: list[Box]
    labels: list[Label]
    title: str = ""
    caption: str = ""


def lay_drawing(picture: Picture) -> Drawing:
    """The drawing of a mask, with boxes on whole pixels, so that their edges are sharp."""
    rows, columns = [_token(t) for t in picture.rows], [_token(t) for t in picture.columns]
    cell = max(2, min(36, 900 // max(len(rows), len(columns))))
    gap = 2 if cell >= 20 else 1 if cell >= 5 else 0
    size = min(14.0, cell * 0.7)
    labelled = size >= 6
    wide = [measure(t, size) for t in columns]
    angle = 0 if max(wide) <= cell - gap else 45 if cell * 0.7 >= size * 1.25 else 90
    angles = [0 if len(t) == 1 and (angle == 45 or cell_len(t) == 2) else angle for t in columns]

    # The space of the labels on each side of the cells; slanted ones extend to the right.
    before = ceil(max(measure(t, size) for t in rows)) + 8 if labelled else 0
    above = ceil(max(w * sin(radians(a)) + size * cos(radians(a)) for w, a in zip(wide, angles, strict=True))) + 4
    lean = max((i + 0.5) * cell + (w + size) * cos(radians(45)) for i, w in enumerate(wide)) - len(columns) * cell
    beyond = max(0, ceil(lean)) if labelled and angle == 45 else 0
    left = MARGIN + before + 6
    width = max(left + len(columns) * cell + beyond + MARGIN, 460)
    boxes: list[Box] = []
    labels: list[Label] = []

    y = heading(labels, picture.title, f"{picture.caption} {'' if labelled else UNLABELLED}", width)
    top = y + 12 + (above if labelled else 0) + 6

    def cross(x: float, y: float, text: str, anchor: str, angle: int) -> Label:
        """A label that is centred on x, y vertically."""
        drop, turn = size * 0.36, radians(angle)
        return Label(x + drop * sin(turn), y + drop * cos(turn), text, size, INK, anchor, angle)

    for i, (text, kind) in enumerate(zip(rows, picture.row_kinds, strict=True)):
        boxes.append(Box(left - 6, top + i * cell, 3, cell - gap, 0, KINDS[kind], "edge"))
        if labelled:
            labels.append(cross(left - 12, top + i * cell + (cell - gap) / 2, text, "end", 0))
    for i, (text, kind, turn) in enumerate(zip(columns, picture.column_kinds, angles, strict=True)):
        boxes.append(Box(left + i * cell, top - 6, cell - gap, 3, 0, KINDS[kind], "edge"))
        if labelled:
            up = top - 9 - (size / 2 if turn == 0 else 5 if turn == 45 else 1)
            labels.append(cross(left + i * cell + (cell - gap) / 2, up, text, "start" if turn else "middle", turn))
    if not labelled:  # one background for many small cells keeps the file small
        boxes.append(Box(left, top, len(columns) * cell - gap, len(rows) * cell - gap, 0, FIELD, "field"))
    radius = round(cell / 6) if labelled else 0
    for q, row in enumerate(picture.seen):
        k = 0
        for (sees, kind), run in groupby(zip(map(bool, row), picture.column_kinds, strict=True)):
            fill, role = (KINDS[kind], f"seen {kind}") if sees else (FIELD, "unseen")
            span = len(list(run))
            step = 1 if gap else span  # cells that touch are one box
            for i in range(k, k + span, step) if sees or labelled else ():
                boxes.append(Box(left + i * cell, top + q * cell, step * cell - gap, cell - gap, radius, fill, role))
            k += span

    x, y = MARGIN, top + len(rows) * cell + 20
    for text, fill in [*((kind, KINDS[kind]) for kind in kinds_in(picture)), ("not seen", FIELD)]:
        room = 18 + ceil(measure(text, 12))
        if x + room > width - MARGIN:
            x, y = MARGIN, y + 20
        boxes.append(Box(x, y, 12, 12, 3, fill, "legend"))
        labels.append(Label(x + 18, y + 10.5, text, 12, INK))
        x += room + 18
    for line in wrapped(KEY, 11, width - 2 * MARGIN):
        y += 15
        labels.append(Label(MARGIN, y + 16, line, 11, FAINT))
    return Drawing(width, y + 10 + MARGIN, boxes, labels, printed(picture.title), printed(picture.caption))


def heading(labels: list[Label], title: str, caption: str, width: int) -> int:
    """Add title and caption at the top of a drawing of this width; returns their lower edge."""
    y = MARGIN - 8
    for text, size, fill in ((printed(title), 19, INK), (printed(caption), 13, FAINT)):
        for line in wrapped(text, size, width - 2 * MARGIN):
            y += ceil(size * 1.4)
            labels.append(Label(MARGIN, y, line, size, fill))
        y += 4
    return y


def wrapped(text: str, size: float, width: float) -> list[str]:
    """A text as lines that fit, broken at spaces or, as in Chinese, anywhere."""
    lines: list[str] = []
    while text:
        end = len(text)
        while end > 1 and measure(text[:end], size) > width:
            end -= 1
        if end < len(text) and text[end] != " " and text[end - 1].isascii():
            end = text.rfind(" ", 0, end) + 1 or end
        while 1 < end < len(text) and text[end] in "，。、；：！？）》」』”":  # never at the start of a line
            end -= 1
        lines.append(text[:end].strip())
        text = text[end:].strip()
    return lines


FONTS = ("DejaVuSans.ttf", "DroidSansFallback.ttf")  # Latin and signs first, then Chinese and kana


@lru_cache(maxsize=64)
def _font(name: str, size: float) -> ImageFont.FreeTypeFont:
    data = files("masquerade").joinpath("assets", name).read_bytes()
    return ImageFont.truetype(io.BytesIO(data), size, layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=8192)
def font_of(character: str) -> str:
    """The shipped font that has the character, or "" if none has it."""
    for name in FONTS:
        font = _font(name, 32)
        if bytes(font.getmask(character)) != bytes(font.getmask("\uffff")):
            return name
    return ""


@lru_cache(maxsize=8192)
def measure(text: str, size: float) -> float:
    """The width of a text in the shipped fonts. An SVG may be shown in other fonts, so its labels use anchors."""
    width = 0.0
    for name, run in groupby(text, font_of):
        letters = "".join(run)
        width += _font(name, size * SCALE).getlength(letters) / SCALE if name else size * len(letters)
    return width


def svg(drawn: Picture | Drawing) -> str:
    """A picture, or any drawing, as one self-contained SVG file."""
    drawing = drawn if isinstance(drawn, Drawing) else lay_drawing(drawn)
    across = f'width="{drawing.width}" height="{drawing.height}" viewBox="0 0 {drawing.width} {drawing.height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {across} role="img" font-family="{FAMILY}">',
        f"<title>{escape(drawing.title)}</title><desc>{escape(drawing.caption)}</desc>",
        f'<rect class="paper" width="100%" height="100%" fill="{PAPER}"/>',
    ]
    for x, y, width, height, radius, fill, role in drawing.boxes:
        corner = f' rx="{radius}"' if radius else ""
        size = f'width="{width}" height="{height}"'
        parts.append(f'<rect class="{role}" x="{x}" y="{y}" {size}{corner} fill="{fill}"/>')
    for label in drawing.labels:
        turn = f' transform="rotate({-label.angle} {label.x:.2f} {label.y:.2f})"' if label.angle else ""
        parts.append(
            f'<text x="{label.x:.2f}" y="{label.y:.2f}" font-size="{label.size:g}" fill="{label.fill}" '
            f'text-anchor="{label.anchor}"{turn}>{escape(label.text)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def png(drawn: Picture | Drawing) -> bytes:
    """A picture, or any drawing, as PNG at twice the size, with the shipped fonts."""
    drawing = drawn if isinstance(drawn, Drawing) else lay_drawing(drawn)
    image = Image.new("RGB", (drawing.width * SCALE, drawing.height * SCALE), PAPER)
    for box in drawing.boxes:
        x, y, width, height, radius = (v * SCALE for v in box[:5])
        place = (x, y, x + width, y + height)
        image.paste(box.fill, place, _corners(width, height, radius) if radius else None)
    for label in drawing.labels:
        long = measure(label.text, label.size) * SCALE
        reach = ceil(
            long + 2 * SCALE * label.size
        )  # text starts at the centre of a square, so that rotation does not move it
        text = Image.new("L", (2 * reach, 2 * reach))
        start = reach - long * {"start": 0.0, "middle": 0.5, "end": 1.0}[label.anchor]
        _write(ImageDraw.Draw(text), start, reach, label.text, label.size)
        if label.angle:
            text = text.rotate(label.angle, Image.Resampling.BICUBIC)
        image.paste(label.fill, (round(label.x * SCALE) - reach, round(label.y * SCALE) - reach), text)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


@lru_cache(maxsize=64)
def _corners(width: int, height: int, radius: int) -> Image.Image:
    """A rounded rectangle, drawn large and reduced, because Pillow does not smooth corners."""
    large = Image.new("L", (width * 8, height * 8))
    ImageDraw.Draw(large).rounded_rectangle((0, 0, width * 8 - 1, height * 8 - 1), radius * 8, fill=255)
    return large.reduce(8)


def _write(draw: ImageDraw.ImageDraw, x: float, y: float, text: str, size: float) -> None:
    """Write a text at x on the baseline y, each run in a font that has it; other characters as code points in a box."""
    big = size * SCALE
    for name, run in groupby(text, font_of):
        letters = "".join(run)
        if name:
            draw.text((x, y), letters, 255, _font(name, big), "ls")
        for i, character in enumerate("" if name else letters):
            code, place = f"{ord(character):04X}", x + i * big
            half = (len(code) + 1) // 2
            draw.rectangle((place + 1, y - big * 0.85, place + big - 2, y + big * 0.1), outline=255)
            for digits, above in ((code[:half], 0.42), (code[half:], 0.0)):
                font = _font(FONTS[0], min(big * 0.4, big * 1.1 / half))
                draw.text((place + big / 2, y - big * above), digits, 255, font, "ms")
        x += measure(letters, size) * SCALE


def save(drawn: Picture | Drawing, path: Path) -> None:
    """Write a picture, or any drawing, to a .png or .svg file, whole or not at all."""
    suffix = path.suffix.lower()
    if suffix not in (".png", ".svg"):
        raise MasqueradeError(f"A picture is saved as .png or .svg, but {path.name!r} ends in neither.")
    data = png(drawn) if suffix == ".png" else svg(drawn).encode()
    write_whole(path, lambda temporary: temporary.write_bytes(data))
