"""Text made of blocks: paragraphs, headings, list items and table rows, a line each."""

from __future__ import annotations

from masquerade.documents.document import Document

CELL = " | "  # between the cells of a table row


class BlockText:
    """Collects blocks and makes a document of them, cited by the number of the block."""

    def __init__(self) -> None:
        self._lines = list[tuple[str, str]]()

    def add(self, text: str, kind: str = "") -> None:
        """Add a block. One of a ``kind`` ("item", "row") follows one of its kind without an empty line."""
        if text.strip():
            self._lines.append((text.strip("\n"), kind))

    def document(self, name: str, title: str, encoding: str = "", guessed: bool = False) -> Document:
        """The blocks as a document."""
        parts, starts, length, before = list[str](), list[int](), 0, ""
        for index, (line, kind) in enumerate(self._lines):
            gap = "" if index == 0 else "\n" if kind and kind == before else "\n\n"
            starts.append(length + len(gap))
            parts += [gap, line]
            length, before = starts[-1] + len(line), kind
        text = "".join(parts)
        return Document(name, text, title, "paragraph", tuple(starts), encoding=encoding, guessed=guessed)
