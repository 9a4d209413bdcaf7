"""Made questions about tables, lists and letters: their answers stand where they say, and some have none."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture(scope="module")
def script() -> Any:
    """The script as a module."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield importlib.import_module("structured_questions")
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_answers_stand_in_the_text_and_a_quarter_of_the_questions_have_none(script: Any, language: str) -> None:
    rng = random.Random(4)
    made = [record for number in range(150) for record in script.questions(language, number, rng)]
    for record in made:
        (text,), (golds,) = record.passages, record.spans
        assert all(text[gold.start : gold.start + len(gold.text)] == gold.text for gold in golds)
        assert record.accepted == tuple(gold.text for gold in golds)
        assert "{" not in record.question and "\0" not in text
    assert len({record.id for record in made}) == len(made) > 300
    assert 0.18 < sum(not record.accepted for record in made) / len(made) < 0.32


def test_the_same_seed_makes_the_same_questions(script: Any) -> None:
    first, again, other = (script.questions("en", 0, random.Random(seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_a_value_that_stands_under_two_items_is_found_under_the_one_that_is_asked_for(script: Any) -> None:
    rng = random.Random(0)
    domain = script.DOMAINS["en"][0]
    price = domain.fields[0]
    sheet = script.Sheet(domain, ["tent", "kettle"], [price], ["price"], [["$5"], ["$5"]])
    for form in script.FORMS[:3]:
        made = form(sheet, rng)
        assert made.text.index("kettle") < made.places[1, 0].start, "after the item, not the first one of the text"
