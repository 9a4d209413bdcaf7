"""Texts in several languages, and explanations of answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from reader_cases import reader
from typed import refused, run

from masquerade import save
from masquerade.reading.answers import Answer
from masquerade.reading.explained import explain
from masquerade.reading.languages import LanguageReaders, best_of
from masquerade.reading.reader import Reader

TEXTS = ["The cat sat on a warm red mat.", "中国的首都是北京。", "Two old dogs saw the sea."]


class Loaded:
    """Readers by name, and the names that were loaded."""

    def __init__(self) -> None:
        self.names = list[str]()

    def __call__(self, name: str) -> Reader:
        self.names.append(name)
        return reader(seed=len(self.names))


def test_each_text_is_read_by_the_reader_of_its_language_and_answers_keep_their_numbers() -> None:
    loaded = Loaded()
    both = LanguageReaders(loaded)
    found = both.ask_many([("Who sat?", TEXTS)], n_best=6, threshold=0.0)[0]
    assert sorted(loaded.names) == ["en", "zh"]
    answers = [found, *found.alternatives]
    assert len(answers) == 6
    assert {each.passage for each in answers} >= {1}
    for each in answers:
        assert TEXTS[each.passage][each.start : each.end] == each.text
    assert [each.score for each in answers] == sorted((each.score for each in answers), reverse=True)
    alone = both.reader("zh").ask("Who sat?", TEXTS[1], n_best=6, threshold=0.0)
    assert {each.text for each in answers if each.passage == 1} <= {each.text for each in (alone, *alone.alternatives)}
    assert both.windows(TEXTS) == 3
    both.remember(TEXTS)
    assert len(both.reader("en").memory) == 2


def test_a_chinese_question_is_one_for_the_chinese_reader() -> None:
    loaded = Loaded()
    LanguageReaders(loaded).ask_many([("首都在哪里？", TEXTS)])
    assert loaded.names == ["zh"]


def test_no_answer_is_the_best_only_where_no_reader_has_one() -> None:
    none, low, high = Answer("", 0.9, alternatives=(Answer("x", 0.4, 0),)), Answer("y", 0.2, 1), Answer("z", 0.3, 0)
    assert best_of([none, low, high], 2) == replace(high, alternatives=(low,))
    assert best_of([none], 1) == none
    assert best_of([], 1) == Answer("", 1.0)


@pytest.mark.parametrize("texts", [TEXTS[:1], TEXTS])
def test_an_explanation_names_what_was_read_and_the_answer_of_each_head(texts: list[str]) -> None:
    one = reader(parts={"copies": 1.0, "pointers": 1.0})
    asked = one if len(texts) == 1 else LanguageReaders(lambda name: one)
    said = explain(asked, "Who sat?", texts)
    assert set(said.heads) == {"copies", "pointers"}
    if len(texts) == 1:
        alone = {name: reader(parts={name: 1.0}).ask("Who sat?", texts, threshold=0.0).text for name in said.heads}
        assert {name: answer.text for name, answer in said.heads.items()} == alone
    first = said.parts[0]
    assert texts[first.passage][first.start : first.end] == texts[first.passage]
    assert said.plain()["read"][0]["start"] == 0
    assert said.characters <= sum(map(len, texts))


def test_a_threshold_and_an_explanation_can_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(reader(parts={"copies": 1.0, "pointers": 1.0}).model, tmp_path / "model")
    text = tmp_path / "a.txt"
    text.write_text("The cat sat on a mat.", encoding="utf-8")
    asked = ["ask", "Who sat?", "--in", str(text), "--model", str(tmp_path / "model")]
    assert "No answer in this text." in run(*asked, "--threshold", "1")
    said = run(*asked, "--threshold", "0", "--explain")
    assert "Read 21 of 21 characters:" in said
    assert "The heads, each alone:" in said
    plain = json.loads(run(*asked, "--json", "--explain", "--threshold", "0"))
    assert plain["read"] == [{"passage": 0, "start": 0, "end": 21}]
    assert set(plain["heads"]) == {"copies", "pointers"}
    wrong = refused(*asked, "--explain", "--free", monkeypatch=monkeypatch, capsys=capsys)
    assert "--explain is for the parallel decoder" in wrong
