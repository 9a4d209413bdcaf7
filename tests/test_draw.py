"""What the drawings of a mask promise."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageColor
from rich.cells import cell_len
from rich.console import Console

from masquerade.drawing import pictures as draw
from masquerade.drawing.pictures import KINDS, Picture
from masquerade.errors import MasqueradeError

CHINESE = ["[CLS]", "北", "京", "是", "[MASK]", "[SEP]"]
ENGLISH = ["translate", "the", "fox", "<sep>", "der", "Fuchs"]


def causal(tokens: list[str], kinds: list[str] | None = None, caption: str = "") -> Picture:
    seen = [[k <= q for k in range(len(tokens))] for q in range(len(tokens))]
    kinds = kinds or ["content"] * len(tokens)
    return Picture("Causal", seen, tokens, tokens, kinds, kinds, caption)


def lines(picture: Picture, width: int = 300, colour: bool = False) -> list[str]:
    console = Console(
        width=width, file=io.StringIO(), color_system="standard" if colour else None, force_terminal=colour
    )
    with console.capture() as capture:
        console.print(draw.terminal(picture, colour))
    return capture.get().splitlines()


def rectangles(text: str, role: str) -> list[ElementTree.Element]:
    found = ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}rect")
    return [r for r in found if role in (r.get("class") or "").split()]


def image(picture: Picture) -> Image.Image:
    return Image.open(io.BytesIO(draw.png(picture))).convert("RGB")


@st.composite
def pictures(make: st.DrawFn) -> Picture:
    height, width = make(st.integers(1, 12)), make(st.integers(1, 12))
    token, kind = st.text(max_size=16), st.sampled_from(list(KINDS))

    def many(of: st.SearchStrategy[str], count: int) -> list[str]:
        return make(st.lists(of, min_size=count, max_size=count))

    row = st.lists(st.booleans(), min_size=width, max_size=width)
    seen = make(st.lists(row, min_size=height, max_size=height))
    tokens = many(token, height), many(token, width)
    return Picture(make(token), seen, *tokens, many(kind, height), many(kind, width), make(token))


@pytest.mark.parametrize("tokens", [CHINESE, ENGLISH])
def test_terminal_columns_line_up(tokens: list[str]) -> None:
    written = lines(causal(tokens))
    title, body = written[0], written[1:]
    assert title == "Causal"
    indent = max(map(cell_len, tokens)) + 1
    assert {cell_len(line) for line in body} == {indent + 2 * len(tokens)}
    assert len(body) == max(map(len, tokens)) + len(tokens)
    for q, line in enumerate(body[-len(tokens) :]):
        assert line.split()[0] == tokens[q]
        assert line.endswith("██" * (q + 1) + "· " * (len(tokens) - q - 1))


def test_terminal_writes_column_tokens_downwards_and_bottom_aligned() -> None:
    header = lines(causal(CHINESE))[1:7]
    indent = len("[MASK]") + 1
    assert header[-1][indent:] == "] 北京是] ] "
    assert [line[indent + 8 :][:1] for line in header[:-1]] == list("[MASK")  # four columns of two stand before it


def test_terminal_cuts_long_tokens_with_an_ellipsis() -> None:
    last = lines(causal(["internationalisation", "中华人民共和国万岁"]))[-2:]
    assert [line.split()[0] for line in last] == ["internation…", "中华人民共…"]
    assert all(cell_len(line.split()[0]) <= draw.LONGEST for line in last)


def test_terminal_says_in_one_line_when_the_picture_is_too_wide() -> None:
    tokens = ["词"] * 60
    assert lines(causal(tokens), 80)[-1] == draw.WIDE
    assert "--out mask.svg" in draw.WIDE
    assert draw.WIDE not in lines(causal(tokens), 200)
    assert all(cell_len(line) <= 80 for line in lines(causal(tokens), 80))


def test_terminal_colours_a_cell_by_the_kind_of_its_column() -> None:
    kinds = ["content", "placeholder", "query", "peer", "padding", "content"]
    last_row = lines(causal(CHINESE, kinds), colour=True)[-2]
    codes = [part.split("m")[0] for part in last_row.split("\x1b[") if part.endswith("██")]
    assert len(codes) == 6
    assert len(set(codes)) == 5
    assert codes[0] == codes[5]
    assert "\x1b" not in "".join(lines(causal(CHINESE, kinds)))


@settings(max_examples=20, deadline=None)
@given(pictures())
def test_every_seen_cell_is_drawn_in_each_back_end(picture: Picture) -> None:
    height, width = len(picture.rows), len(picture.columns)
    for row, line in zip(picture.seen, lines(replace(picture, caption=""))[-height:], strict=True):
        assert line.endswith(" " + "".join("██" if sees else "· " for sees in row))
    text, pixels = draw.svg(picture), image(picture)
    expected = sum(map(sum, picture.seen))
    for kind in KINDS:
        columns = [k for k in range(width) if picture.column_kinds[k] == kind]
        assert len(rectangles(text, kind)) == sum(picture.seen[q][k] for q in range(height) for k in columns)
    assert len(rectangles(text, "seen")) == expected
    assert len(rectangles(text, "unseen")) == height * width - expected
    cells = sorted(
        (int(cell.get("y", 0)), int(cell.get("x", 0)), int(cell.get("height", 0)), int(cell.get("width", 0)))
        for cell in rectangles(text, "seen") + rectangles(text, "unseen")
    )
    for index, (y, x, h, w) in enumerate(cells):
        q, k = divmod(index, width)
        colour = KINDS[picture.column_kinds[k]] if picture.seen[q][k] else draw.FIELD
        assert pixels.getpixel((2 * x + w, 2 * y + h)) == ImageColor.getrgb(colour)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 400), (400, 1), (20, 40), (100, 100), (101, 7), (400, 400)])
def test_any_size_is_drawn_and_says_when_tokens_are_left_out(height: int, width: int) -> None:
    seen = [[(q + k) % 3 == 0 for k in range(width)] for q in range(height)]
    picture = Picture("t", seen, ["字"] * height, ["word"] * width, ["query"] * height, ["content"] * width, "Some.")
    text, pixels = draw.svg(picture), image(picture)
    cells = rectangles(text, "seen")
    side = min(int(cell.get("height", 0)) for cell in cells)
    area = sum(int(cell.get("width", 0)) * int(cell.get("height", 0)) for cell in cells)
    assert area == side * side * sum(map(sum, seen))
    assert ("Tokens are omitted" in text) == (max(height, width) > 100)
    assert ("字" in text) == (max(height, width) <= 100)
    root = ElementTree.fromstring(text)
    assert pixels.size == (2 * int(root.get("width", 0)), 2 * int(root.get("height", 0)))
    assert max(pixels.size) < 2600


def test_svg_escapes_what_xml_reserves_and_what_it_forbids() -> None:
    picture = causal(["<s>", "&", '"', "\x00", "\n", "\ud800", "]]>"], caption="a < b & c\x07")
    root = ElementTree.fromstring(draw.svg(picture).encode())
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    for label in ["<s>", "&", '"', "\\x00", "\\n", "\\ud800", "]]>"]:
        assert texts.count(label) == 2  # once on each axis
    assert "a < b & c\\x07" in texts


def test_svg_needs_nothing_from_outside() -> None:
    text = draw.svg(causal(CHINESE))
    assert "href" not in text
    assert "url(" not in text
    assert text.count("http") == 1  # the name of the format itself


def test_labels_stay_on_the_page() -> None:
    for tokens in (
        CHINESE,
        ENGLISH,
        ["internationalisation"] * 3,
        ["internationalisation"] * 30,
        ["中华人民共和国"] * 90,
    ):
        drawing = draw.lay_drawing(causal(tokens, caption="每个字只看见自己和前面的字。" * 9 + "A long sentence. " * 9))
        for label in drawing.labels:
            long = draw.measure(label.text, label.size)
            across, up = {0: (long, label.size), 45: (0.72 * long, 0.72 * long), 90: (0, long)}[label.angle]
            start = label.x - {"start": 0, "middle": across / 2, "end": across}[label.anchor]
            assert start >= 0
            assert start + across <= drawing.width
            assert 0 <= label.y - up < label.y <= drawing.height


def glyph(token: str) -> bytes:
    """The pixels of the row label of a picture of one cell."""
    return image(Picture("", [[True]], [token], ["x"], ["content"], ["content"])).tobytes()


def test_chinese_is_really_drawn_in_the_png(monkeypatch: pytest.MonkeyPatch) -> None:
    simplified, traditional, kana = "北京国", "灣龜體", "かカ"
    drawn = {c: glyph(c) for c in simplified + traditional + kana}
    assert len(set(drawn.values())) == len(drawn)
    assert glyph("") not in drawn.values()
    draw.font_of.cache_clear()
    monkeypatch.setattr(draw, "FONTS", ("DejaVuSans.ttf",))  # a font without Chinese: boxes
    assert all(glyph(c) != pixels for c, pixels in drawn.items())
    monkeypatch.undo()
    draw.font_of.cache_clear()


def test_the_fonts_cover_simplified_and_traditional_chinese() -> None:
    wanted = "，。「」《》ＡＢ…—“”→▁Ġ␣é一丁龠齉體灣国"
    wanted += "".join(bytes((a, b)).decode("gb2312") for a in range(0xB0, 0xD7) for b in range(0xA1, 0xFF, 7))
    wanted += "".join(bytes((a, b)).decode("big5") for a in range(0xA5, 0xC6) for b in range(0xA1, 0xFF, 7))
    assert [c for c in wanted if not draw.font_of(c)] == []


def test_a_character_without_glyph_is_drawn_as_its_code_point_in_a_box() -> None:
    assert draw.font_of("😀") == draw.font_of("𠀀") == ""
    assert len({glyph("😀"), glyph("😁"), glyph("𠀀"), glyph("□"), glyph("")}) == 5


@pytest.mark.parametrize("name", ["mask.jpg", "mask", "mask.png.txt", ".svg"])
def test_another_suffix_is_refused_in_one_sentence_that_names_the_two(tmp_path: Path, name: str) -> None:
    with pytest.raises(MasqueradeError, match=r"^A picture is saved as \.png or \.svg, but .*\.$"):
        draw.save(causal(CHINESE), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_save_writes_the_file_and_nothing_else(tmp_path: Path) -> None:
    for name, start in {"a.png": b"\x89PNG", "b.SVG": b"<svg"}.items():
        draw.save(causal(CHINESE), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "b.SVG"]


def test_nothing_is_left_behind_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "old.svg"
    old.write_text("old")

    def refuse(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(MasqueradeError, match=r"old\.svg cannot be written: No space left on device\."):
        draw.save(causal(CHINESE), old)
    assert [p.name for p in tmp_path.iterdir()] == ["old.svg"]
    assert old.read_text() == "old"


def test_a_place_that_cannot_be_written_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(MasqueradeError, match=r"mask\.svg cannot be written: .+\."):
        draw.save(causal(CHINESE), tmp_path / "file" / "mask.svg")


def test_a_picture_that_does_not_fit_together_is_refused() -> None:
    for seen, rows, columns, row_kinds, column_kinds in [
        ([], [], [], [], []),
        ([[True]], ["a", "b"], ["a"], ["content"] * 2, ["content"]),
        ([[True, False]], ["a"], ["a"], ["content"], ["content"]),
        ([[True]], ["a"], ["a"], [], ["content"]),
        ([[True]], ["a"], ["a"], ["content"], ["ghost"]),
    ]:
        with pytest.raises(MasqueradeError):
            Picture("", seen, rows, columns, row_kinds, column_kinds)


def test_drawing_does_not_import_torch() -> None:
    code = "import sys, masquerade.drawing.pictures; sys.exit('torch' in sys.modules)"
    path = os.pathsep.join(p for p in sys.path if p)
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})
