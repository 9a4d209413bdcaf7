"""Folders import in one direction: a stage of text → Layout → network → scores → text only from earlier stages."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "masquerade"
FIRST = ("errors", "files", "progress", "kernels")  # what every stage may use
STAGES = (
    *FIRST, "layout", "masks", "text", "documents", "data", "nn", "families", "checkpoints", "objectives", "training",
    "decoding", "reading", "writing", "labelling", "memory", "drawing", "serve", "pipelines", "cli", "__main__",
)  # fmt: skip

LEFT = {"memory/entity/drawn.py imports drawing"}  # a picture for the command line, which belongs into drawing/


def stage(name: str) -> int:
    return STAGES.index(name)


def imported(path: Path) -> Iterator[str]:
    """The stages that a module imports from, at any place in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "masquerade":
            yield from (alias.name for alias in node.names if not alias.name.startswith("_"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("masquerade."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("masquerade."))


def test_every_module_belongs_to_a_stage() -> None:
    assert {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()} == {
        *STAGES, "__init__",
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in STAGES if name not in FIRST])
def test_a_stage_imports_only_from_earlier_stages(name: str) -> None:
    modules = sorted((SOURCE / name).rglob("*.py")) or [SOURCE / f"{name}.py"]
    backward = {
        f"{path.relative_to(SOURCE)} imports {other}"
        for path in modules
        for other in imported(path)
        if stage(other) > stage(name)
    }
    assert backward == {each for each in LEFT if each.startswith(f"{name}/")}
