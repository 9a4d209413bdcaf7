"""The documents that were written to train readers: every answer stands where its line says, and some have none."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
DOCUMENT = "Rent is due on the 1st.\nFees: 30 days, later 30 days.\n=====\nQ: When?\nA: on the 1st\n{}\n#####\n"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("everyday")


@pytest.mark.parametrize("folder", ["everyday-en", "everyday-zh", "wikipedia-zh"])
def test_every_answer_stands_in_its_document_and_a_third_have_none(script: Any, folder: str) -> None:
    records = script.everyday_questions(SCRIPTS / folder)
    assert len({record.id for record in records}) == len(records) > 1000
    for record in records:
        for gold in record.spans[0]:
            assert gold.text and record.passages[0][gold.start :].startswith(gold.text)
    assert 0.25 < sum(not record.accepted for record in records) / len(records) < 0.5


def test_a_place_may_be_counted(script: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(DOCUMENT.format("Q: How long later?\nA: 30 days @2"), encoding="utf-8")
    first, second = script.everyday_questions(tmp_path)
    assert (first.id, first.title, first.accepted) == ("a-1-1", "a-1", ("on the 1st",))
    assert second.spans[0][0].start == second.passages[0].rindex("30 days")


@pytest.mark.parametrize("wrong", ["Q: Who?", "Q: Who?\nA: nobody", "Q: Who?\nA: 30 days @3", "A: 1\nQ: 2"])
def test_what_is_wrong_is_said_with_its_place(script: Any, tmp_path: Path, wrong: str) -> None:
    (tmp_path / "a.txt").write_text(DOCUMENT.format(wrong), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"a\.txt, document 1"):
        script.everyday_questions(tmp_path)
