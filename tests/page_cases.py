"""A browser for the tests of the page, and a visit that watches what the page asks for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from serve_cases import Running

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
expect = playwright.expect
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
MARKS = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="there is no chromium here: apt-get install chromium"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
SECONDS = 120_000  # milliseconds; the machine may be busy


@contextmanager
def launched() -> Iterator[Any]:
    """A browser."""
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


class Visit:
    """A page of the service, with every address it asked for and every error it met."""

    def __init__(self, browser: Any, service: Running, state: str = "", refused: bool = False, **options: Any) -> None:
        self.refused = refused  # whether requests are
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **options})
        self.context.set_default_timeout(SECONDS)
        self.page = self.context.new_page()
        self.asked, self.errors = list[str](), list[str]()
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.goto(f"{service.address}/#{state}")
        self.page.wait_for_selector("body[data-ready]", timeout=SECONDS)

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, *error: object) -> None:
        foreign = [url for url in self.asked if urlsplit(url).hostname not in ("127.0.0.1", None)]
        title, errors = self.page.title(), self.errors
        if self.refused:  # which the browser's console says too
            errors = [each for each in errors if not each.startswith("Failed to load resource")]
        self.context.close()
        if error[0] is None:
            assert not foreign and not errors and title == "Masquerade"


def shot(page: Any, name: str, whole: bool = False) -> None:
    """A picture for the docs, if they are wanted; of the whole page, or of what is on the screen."""
    if folder := os.environ.get("MASQUERADE_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(400)
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=whole)
