"""HTML pages: their words without tags, scripts and styles; blocks are lines, and table cells are separated."""

from __future__ import annotations

import re
from typing import Any

from masquerade.documents.blocks import CELL, BlockText
from masquerade.documents.document import Document
from masquerade.documents.encodings import decode
from masquerade.documents.extras import needed

_BLOCKS = frozenset(  # elements that begin and end a line
    ("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "dir", "div",
     "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
     "hr", "html", "li", "main", "menu", "nav", "ol", "optgroup", "option", "p", "pre", "search", "section", "select",
     "summary", "table", "tbody", "textarea", "tfoot", "thead", "tr", "ul")
)  # fmt: skip
_KINDS = {"li": "item", "dt": "item", "dd": "item", "option": "item", "tr": "row"}  # without empty lines between
_CELLS = frozenset(("td", "th"))
_LEFT_OUT = frozenset(
    ("audio", "canvas", "embed", "head", "iframe", "math", "noscript", "object", "script", "style", "svg", "template",
     "video")
)  # fmt: skip
_SPACE = re.compile(r"[ \t\r\n\f\xa0]+")
_DECLARED = re.compile(rb"<(?:meta[^>]*?charset|\?xml[^>]*?encoding)\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.IGNORECASE)


def read_html(data: bytes, name: str) -> Document:
    """The words of an HTML page, with its title; cited by paragraph."""
    lexbor = needed("selectolax.lexbor", name, "an HTML file")
    declared = _DECLARED.search(data[:4096])
    found = decode(data, name, declared[1].decode("ascii") if declared else None)
    parsed = lexbor.LexborHTMLParser(found.text)
    heading = parsed.css_first("title") or parsed.css_first("h1")
    title = _SPACE.sub(" ", heading.text()).strip() if heading is not None else ""
    page = _Page()
    page.walk(parsed.root)
    return page.blocks.document(name, title, found.encoding, found.guessed)


class _Page:
    """Collects the lines of a page. Inside of a table row all text is one line, whatever blocks its cells hold."""

    def __init__(self) -> None:
        self.blocks = BlockText()
        self.line = ""

    def walk(self, root: Any) -> None:
        """Visit all nodes in order, without recursion: pages may be nested very deeply."""
        todo: list[tuple[Any, bool, bool, bool]] = [] if root is None else [(root, False, False, False)]
        while todo:
            node, leaving, row, pre = todo.pop()
            tag = node.tag
            if tag == "-text":
                self._text(node.text(deep=False), pre)
            elif tag == "br":
                self._break(row)
            elif leaving:
                if tag in _BLOCKS:
                    self._end(tag, row)
            elif not (tag in _LEFT_OUT or tag == "-comment" or "hidden" in (node.attributes or {})):
                if tag in _CELLS and self.line.strip():
                    self.line = self.line.rstrip() + CELL
                elif tag in _BLOCKS:
                    self._end(tag, row)
                    self.line += "- " if tag == "li" and not row else ""
                inside = (row or tag == "tr", pre or tag in ("pre", "textarea"))
                todo.append((node, True, row, pre))
                todo += [(child, False, *inside) for child in reversed(list(node.iter(include_text=True)))]
        self._end("body", False)

    def _text(self, text: str, pre: bool) -> None:
        if pre:
            self.line += text.replace("\xa0", " ")
        else:
            text = _SPACE.sub(" ", text)
            self.line += text.lstrip(" ") if not self.line or self.line[-1].isspace() else text

    def _break(self, row: bool) -> None:
        self.line = self.line.rstrip(" ") + (" " if row else "\n")

    def _end(self, tag: str, row: bool) -> None:
        """End the line that is being collected; inside of a row it goes on after a blank."""
        if row:
            self.line += " " if self.line and not self.line[-1].isspace() else ""
            return
        text = "\n".join(line.rstrip() for line in self.line.split("\n")).strip("\n")
        if text != "-":  # the mark of a list item, whose words are still to come
            self.blocks.add(text, "item" if text.startswith("- ") else _KINDS.get(tag, ""))
            self.line = ""
