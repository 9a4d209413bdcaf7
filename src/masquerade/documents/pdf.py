"""PDF files: the text of their pages, cited by page."""

from __future__ import annotations

import re

from masquerade.documents.document import Document
from masquerade.documents.extras import needed
from masquerade.documents.limits import MAX_CHARACTERS, MAX_PAGES, check_limit
from masquerade.errors import MasqueradeError
from masquerade.text.sentences import STOPS

DIVIDED = "\ufffe"  # what the PDF library writes for a hyphen at a line end, in the place of hyphen and line end

_CLOSED = re.compile(rf"[{STOPS}:：][\"'”’)\]」』）》]*\s*\Z")


def read_pdf(data: bytes, name: str) -> Document:
    """The text of a PDF, with its title; hyphens at line ends are kept, so ``Document.joined`` can join the words."""
    pdfium = needed("pypdfium2", name, "a PDF")
    try:
        with pdfium.PdfDocument(data) as pdf:
            check_limit(len(pdf), MAX_PAGES, "pages", name)
            title = _clean(pdf.get_metadata_dict().get("Title") or "").strip()
            text, starts = "", list[int]()
            for number in range(len(pdf)):
                text += "" if not text else "\n\n" if _CLOSED.search(text[-20:]) else "\n"  # sentences cross pages
                starts.append(len(text))
                text += _page_text(pdf, number)
                check_limit(len(text), MAX_CHARACTERS, "characters", name)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            raise MasqueradeError(f"'{name}' is protected by a password; save a copy without one.") from error
        raise MasqueradeError(f"'{name}' is no readable PDF ({error}); open it and save it again.") from error
    if not text.strip():
        raise MasqueradeError(f"'{name}' is a PDF without text, as scanned pages are; give it to a text recognition.")
    return Document(name, text, title, "page", tuple(starts))


def _page_text(pdf: object, number: int) -> str:
    """The text of one page; each handle is closed, since a long PDF has thousands of them."""
    page = pdf[number]  # type: ignore[index]
    try:
        words = page.get_textpage()
        try:
            return _clean(str(words.get_text_range()))
        finally:
            words.close()
    finally:
        page.close()


def _clean(text: str) -> str:
    """Line ends of one kind, hyphens at line ends as they are printed, and no control characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace(DIVIDED, "-\n").replace("\x02", "-\n")
    return re.sub(r"[\x00-\x08\x0b-\x1f\ufffe\uffff\ud800-\udfff]", "", text).strip("\n")
