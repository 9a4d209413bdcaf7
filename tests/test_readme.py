"""The README and the docs hold for what is in the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from masquerade.drawing.gallery import EXAMPLES

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def test_the_ten_lines_of_python_run() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"## Ten lines of Python\n\n```python\n(.*?)```", text, re.DOTALL)
    assert example is not None
    assert len([line for line in example[1].splitlines() if line.strip()]) <= 10
    exec(compile(example[1], "README.md", "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)\)|src=\"([^\"]+)\"", text)
    for target in (first or second for first, second in targets):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_every_mask_is_in_the_gallery() -> None:
    page = (ROOT / "docs" / "masks" / "README.md").read_text(encoding="utf-8")
    for name in EXAMPLES:
        assert (ROOT / "docs" / "masks" / f"{name}.png").is_file()
        assert f"({name}.png)" in page
