"""Training questions in capitals and small letters, so that case says nothing about whether there is an answer."""

from __future__ import annotations

import importlib
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from masquerade.reading.records import Gold, QuestionRecord

PASSAGE = "The stone was found at Rosetta by Pierre Bouchard. The British took it; a copy of the stone is in Cairo."
RECORD = QuestionRecord("1", "Who found it?", (PASSAGE,), ((Gold("Pierre Bouchard", 34),),), ("Pierre Bouchard",))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "scripts"))
    return importlib.import_module("select_questions")


def test_a_question_gets_the_capitals_of_its_passage(script: Any) -> None:
    assert script.with_capitals("did the british find the stone at rosetta?", PASSAGE) == (
        "Did the British find the stone at Rosetta?"
    )
    assert script.with_capitals("where am i?", PASSAGE) == "Where am I?"
    assert script.with_capitals("", PASSAGE) == ""


def test_questions_of_both_cases_come_out_in_both(script: Any) -> None:
    rng = random.Random(0)
    capitals = [script.in_any_case(RECORD, rng) for _ in range(400)]
    small = [script.in_any_case(replace(RECORD, question="who found it in rosetta?"), rng) for _ in range(400)]
    assert 40 < sum(each.question == "who found it?" for each in capitals) < 130
    assert 250 < sum(each.question == "Who found it in Rosetta?" for each in small) < 350
    for each in (*capitals, *small):
        gold, passage = each.spans[0][0], each.passages[0]
        assert passage[gold.start : gold.start + len(gold.text)] == gold.text
    assert any(each.passages[0].islower() for each in capitals)
