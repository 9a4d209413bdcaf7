"""The files and questions of examples/own are what their README says."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from masquerade.reading.answers import Answer

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from own_files import FOLDER, own_documents, own_questions, scores_of


@pytest.mark.parametrize("language", ["en", "zh"])
def test_answers_stand_in_their_files(language: str) -> None:
    pytest.importorskip("selectolax", reason="needs the extra 'documents'")
    pytest.importorskip("docx", reason="needs the extra 'documents'")
    questions, documents = own_questions(language), own_documents(language)
    files = {path.name for path in (FOLDER / language).iterdir()} - {"questions.tsv"}
    assert set(documents) == files and len(files) == 10 and len(questions) == 60
    assert set(Counter(each.file for each in questions).values()) == {6}
    assert sum(not each.accepted for each in questions) == 10
    for each in questions:
        text = " ".join(documents[each.file].joined.text.split()) if language == "en" else documents[each.file].text
        assert not each.accepted or each.accepted[0] in text, each
    assert {documents[name].language for name in documents} == {language}


def test_answers_are_scored_by_their_language() -> None:
    asked = [each for each in own_questions("zh") if each.file == "notice.txt"]
    answers = [Answer("11月9日", 0.9), Answer("六号楼", 0.9), *[Answer("", 0.9)] * 4]
    assert [score["exact"] for score in scores_of(asked, answers, "zh")] == [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
