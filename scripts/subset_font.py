"""Cut a font down to the characters a mask picture may carry.

    python scripts/subset_font.py INPUT.ttf OUTPUT.ttf

The same set of characters serves both shipped fonts: each keeps the part of the set that it has.
Needs fonttools, which the package itself does not.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fontTools import subset  # type: ignore[import-untyped]

BLOCKS = [
    (0x0020, 0x007E),  # ASCII
    (0x00A0, 0x017F),  # Latin-1 and Latin Extended-A (byte-level vocabularies spell bytes with these)
    (0x0370, 0x045F),  # Greek, Cyrillic
    (0x1E00, 0x1EFF),  # Latin with several accents, Vietnamese
    (0x2010, 0x205E),  # general punctuation
    (0x2070, 0x209C),  # superscripts, subscripts
    (0x20A0, 0x20BF),  # currency
    (0x2190, 0x21FF),  # arrows
    (0x2200, 0x22FF),  # mathematical operators
    (0x2400, 0x2426),  # control pictures, the open box for a space
    (0x2500, 0x25FF),  # box drawing, blocks (the word mark of SentencePiece), geometric shapes
    (0x3000, 0x303F),  # CJK symbols and punctuation
    (0x3040, 0x312F),  # kana, bopomofo
    (0xFF00, 0xFFEF),  # full-width and half-width forms
]


def two_byte(codec: str) -> set[int]:
    """Every character that the codec writes in two bytes."""
    found: set[int] = set()
    for lead in range(0x81, 0xFF):
        for trail in range(0x40, 0xFF):
            try:
                found.update(map(ord, bytes((lead, trail)).decode(codec)))
            except UnicodeDecodeError:
                continue
    return found


def characters() -> set[int]:
    """The blocks above, and the ideographs of GB2312 (Simplified) and of Big5 (Traditional)."""
    ideographs = {c for c in two_byte("gb2312") | two_byte("big5") if 0x4E00 <= c <= 0x9FFF}
    return ideographs.union(*(range(first, last + 1) for first, last in BLOCKS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    options = subset.Options(hinting=False, notdef_outline=True, glyph_names=False, layout_features=["kern"])
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 13, 14]  # keep who made it and under which licence
    options.recalc_timestamp = False  # the same input gives the same bytes
    font = subset.load_font(str(arguments.input), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=characters())
    cutter.subset(font)
    subset.save_font(font, str(arguments.output), options)
    print(f"{len(font.getBestCmap())} characters, {arguments.output.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
