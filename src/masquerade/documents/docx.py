"""Word files (.docx): paragraphs, headings, lists and tables, cited by paragraph."""

from __future__ import annotations

import zipfile
from io import BytesIO
from typing import Any

from masquerade.documents.blocks import CELL, BlockText
from masquerade.documents.document import Document
from masquerade.documents.extras import needed
from masquerade.documents.limits import MAX_UNPACKED, check_limit
from masquerade.errors import MasqueradeError

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"  # repeats what stands beside it
_SIGNS = {f"{_WORD}tab": "\t", f"{_WORD}br": "\n", f"{_WORD}cr": "\n", f"{_WORD}noBreakHyphen": "-"}
_LEFT_OUT = (
    _FALLBACK,
    f"{_WORD}pPr",
    f"{_WORD}rPr",
    f"{_WORD}del",
    f"{_WORD}moveFrom",
)  # not part of the text as it is


def read_docx(data: bytes, name: str) -> Document:
    """The text of a Word file, with its title; insertions count, deletions do not."""
    docx = needed("docx", name, "a Word file")
    _check_archive(data, name)
    try:
        opened = docx.Document(BytesIO(data))
        blocks, first = BlockText(), list[str]()
        styles = {style.style_id: style.name or "" for style in opened.styles}
        for element in _flat(opened.element.body):
            if element.tag == f"{_WORD}tbl":
                for row in element.iter(f"{_WORD}tr"):
                    if _inside(row, element):
                        blocks.add(
                            CELL.join(_cell(cell) for cell in row.iter(f"{_WORD}tc") if _inside(cell, row)), "row"
                        )
                continue
            words, style = _words(element), _style(element, styles)
            first += [words.strip()] if style.startswith(("Title", "Heading")) and words.strip() else []
            listed = words.strip() and (style.startswith("List") or _numbered(element))
            blocks.add(f"- {words.strip()}" if listed else words.strip(), "item" if listed else "")
        title = str(opened.core_properties.title or "").strip() or (first or [""])[0]
    except MasqueradeError:
        raise
    except Exception as error:  # whatever the packages below raise for a damaged file
        said = str(error).split("\n")[0] or type(error).__name__
        raise MasqueradeError(f"'{name}' is no readable Word file ({said}); open it and save it again.") from error
    return blocks.document(name, title)


def _check_archive(data: bytes, name: str) -> None:
    """Refuse what is no .docx archive, or unpacks to very much."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise MasqueradeError(f"'{name}' is no readable Word file ({error}); open it and save it again.") from error
    check_limit(sum(part.file_size for part in parts), MAX_UNPACKED, "bytes", name)
    if "[Content_Types].xml" not in {part.filename for part in parts}:
        raise MasqueradeError(f"'{name}' is an archive, but no Word file; save it as .docx.")


def _flat(parent: Any) -> list[Any]:
    """The paragraphs and tables of a body in order; those inside of content controls and the like belong to it."""
    found, todo = list[Any](), list(reversed(parent))
    while todo:
        element = todo.pop()
        if element.tag in (f"{_WORD}p", f"{_WORD}tbl"):
            found.append(element)
        elif element.tag not in _LEFT_OUT:
            todo += reversed(element)
    return found


def _inside(element: Any, outer: Any) -> bool:
    """Does a row belong to this table, or a cell to this row, rather than to a table inside of it?"""
    return next(element.iterancestors(outer.tag), None) is outer


def _cell(cell: Any) -> str:
    """The text of a table cell in one line."""
    return " ".join(" ".join(_words(paragraph) for paragraph in cell.iter(f"{_WORD}p")).split())


def _words(paragraph: Any) -> str:
    """The text of a paragraph, links and insertions included; of a text box's paragraphs too."""
    made, todo = list[str](), list(reversed(paragraph))
    while todo:
        element = todo.pop()
        if element.tag == f"{_WORD}t":
            made.append(element.text or "")
        elif element.tag in _SIGNS:
            made.append(_SIGNS[element.tag])
        elif element.tag not in _LEFT_OUT:
            inner = list(reversed(element))
            todo += inner
    return "".join(made)


def _style(paragraph: Any, styles: dict[str, str]) -> str:
    """The name of a paragraph's style in English, as Word keeps it."""
    found = paragraph.find(f"{_WORD}pPr/{_WORD}pStyle")
    return "" if found is None else styles.get(found.get(f"{_WORD}val") or "", "").title()


def _numbered(paragraph: Any) -> bool:
    """Has a paragraph a bullet or a number of its own?"""
    number = paragraph.find(f"{_WORD}pPr/{_WORD}numPr/{_WORD}numId")
    return number is not None and number.get(f"{_WORD}val") != "0"
