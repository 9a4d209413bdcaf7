"""Small PDF files written by hand, so that the tests need no program that makes PDFs and no font."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def write_pdf(path: Path, pages: Sequence[Sequence[str]], title: str = "") -> Path:
    """Write a PDF with one text line for each string. Glyphs are numbered by their characters' UTF-16 code, and a
    ToUnicode table says which characters they are, as word processors write it."""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{' '.join(f'{7 + 2 * i} 0 R' for i in range(len(pages)))}] >>",
        "<< /Type /Font /Subtype /Type0 /BaseFont /Plain /Encoding /Identity-H /DescendantFonts [4 0 R] "
        "/ToUnicode 5 0 R >>",
        "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Plain /DW 600 "
        "/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>",
        _stream(
            "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Plain def /CMapType 2 def "
            "1 begincodespacerange <0000> <FFFF> endcodespacerange "
            "1 beginbfrange <0000> <FFFF> <0000> endbfrange endcmap end end"
        ),
        f"<< /Title <{_hex(chr(0xFEFF) + title)}> >>",
    ]
    for index, lines in enumerate(pages):
        shown = " ".join(f"<{_hex(line)}> Tj 0 -14 Td" for line in lines)
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            f"/Resources << /Font << /F 3 0 R >> >> /Contents {8 + 2 * index} 0 R >>"
        )
        objects.append(_stream(f"BT /F 12 Tf 50 800 Td {shown} ET"))
    data, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    trailer = f"trailer << /Size {size} /Root 1 0 R /Info 6 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    path.write_bytes(data + f"xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode())
    return path


def _hex(text: str) -> str:
    return text.encode("utf-16-be").hex().upper()


def _stream(content: str) -> str:
    return f"<< /Length {len(content)} >>\nstream\n{content}\nendstream"
