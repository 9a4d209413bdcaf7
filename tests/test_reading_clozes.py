"""Questions that a text makes of itself: each has its answer in its passage, and nothing gives it away."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mask_cases import seeded
from typed import refused, run

from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.reading.records import read_questions
from masquerade.reading.synthetic import PASSAGE, clozes, names, passages, recurring, synthetic_questions, words

ROSETTA = (
    "The Rosetta Stone was found in July 1799 by a French officer near the town of Rashid. It weighs about 760 "
    "kilograms. The decree on it was issued at Memphis by priests of the king. Since 1802 the stone has been in the "
    "British Museum. Champollion read its hieroglyphs in 1822; scholars of the British Museum had made plaster casts "
    "for him."
)
WEIR = (
    "都江堰位于四川省成都市，由李冰在公元前256年修建。李冰是战国时期的秦国人。都江堰至今灌溉着一千多万亩农田。"
    "2000年，都江堰被列入世界文化遗产名录。每年清明，当地人举行放水节，纪念李冰。"
)
TEXTS = st.lists(st.sampled_from(re.findall(r".+?[.。] ?", ROSETTA + WEIR)), min_size=1, max_size=14).map("".join)


def wanted(passage: str) -> set[str]:
    """What clozes of a passage may ask for."""
    return {gold.text for seed in range(200) for _, _, golds in clozes(passage, rng_for(seed), 3) for gold in golds}


@seeded
@given(TEXTS, st.integers(0, 99), st.integers(1, 6))
def test_every_answer_stands_where_it_is_said_to(text: str, seed: int, each: int) -> None:
    for record in synthetic_questions([text], seed, each):
        assert record.question.endswith(("?", "？"))
        assert record.spans[0], "a question has an answer"
        for gold in record.spans[0]:
            assert record.passages[0][gold.start : gold.start + len(gold.text)] == gold.text
        assert set(record.accepted) == {gold.text for gold in record.spans[0]}


@pytest.mark.parametrize("passage", [ROSETTA, WEIR])
def test_words_that_recur_are_asked_of_the_other_sentences(passage: str) -> None:
    made = [each for seed in range(50) for each in recurring(passage, rng_for(seed), 3)]
    answers = {gold.text for _, _, golds in made for gold in golds}
    assert ("British Museum" if passage == ROSETTA else "李冰") in answers
    for question, rest, golds in made:
        assert len(rest) < len(passage), "the sentence has left the passage"
        assert passage.count(golds[0].text) > rest.count(golds[0].text) >= 1
        left = re.sub(r"^(what|which|who) | (what|which|who)\b|什么|哪一个|哪个", "", question.strip("?？"))
        said = [text[begin:end] for text in (left,) for begin, end in words(text)]
        assert said
        assert all(word in passage for word in said), "nothing is made up"
        assert left not in rest


def test_longer_words_that_recur_are_not_cut() -> None:
    answers = {
        gold.text for seed in range(80) for _, _, golds in recurring(ROSETTA, rng_for(seed), 4) for gold in golds
    }
    assert "British Museum" in answers
    assert "Museum" not in answers


def test_clozes_ask_for_dates_numbers_and_names() -> None:
    assert {"July 1799", "760", "1802", "French", "Rosetta Stone", "British Museum"} <= wanted(ROSETTA)
    assert {"李冰", "成都市", "2000年"} <= wanted(WEIR)


def test_what_asks_suits_what_is_asked_for() -> None:
    made = [each for seed in range(300) for each in clozes(ROSETTA, rng_for(seed), 3) + clozes(WEIR, rng_for(seed), 3)]
    asks = {
        "July 1799": r"\b(when|what year|what date)\b",
        "760": r"\b(how many|how much|what number)\b",
        "2000年": "什么时候|哪一年|何时",
        "李冰": "谁",
        "成都市": "哪里|什么地方|哪个地方",
    }
    for answer, pattern in asks.items():
        questions = [question for question, _, golds in made if golds[0].text == answer]
        assert questions
        assert all(re.search(pattern, question) for question in questions), questions


def test_a_cloze_leaves_out_some_words_and_its_answer() -> None:
    made = [(*each, seed) for seed in range(200) for each in clozes(ROSETTA, rng_for(seed), 1)]
    officers = {question for question, _, golds, _ in made if golds[0].text == "July 1799"}
    assert len(officers) > 1, "not always the same words"
    assert not any("1799" in question for question in officers)
    assert all(passage == ROSETTA for _, passage, _, _ in made), "the sentence stays"


def test_a_long_sentence_becomes_a_question_of_its_clauses() -> None:
    long = (
        "Many came to see it, " * 20 + "the Queen of Denmark saw it in 1911, " + "and others came later, " * 20 + "all."
    )
    for seed in range(30):
        for question, _, _ in clozes(long, rng_for(seed), 2):
            assert len(question) < 200


@seeded
@given(TEXTS)
def test_passages_are_whole_sentences_in_their_order(text: str) -> None:
    found = passages(text)
    place = 0
    for passage in found:
        place = text.index(passage, place) + len(passage)
        assert passage[-1] in ".。"
    assert all(len(each) + len(re.findall(r"[一-鿿]", each)) <= PASSAGE + 1 for each in found)


def test_chinese_counts_as_two_letters() -> None:
    line = "都江堰位于四川省成都市。"  # 23 letters
    assert max(map(len, passages(line * 200))) == PASSAGE // 23 * len(line)
    assert [len(each) for each in passages("Short.")] == []


def test_words_of_mixed_text_are_where_they_stand() -> None:
    text = "在1860年，Johann说：“民族”。"
    assert [text[begin:end] for begin, end in words(text)] == ["在", "1860", "年", "Johann", "说", "民族"]
    assert ("thing", (text.index("民族"), text.index("民族") + 2)) in names(text)


def test_questions_depend_on_the_seed_alone() -> None:
    text = [ROSETTA * 3, WEIR * 3]
    assert list(synthetic_questions(text, 1)) == list(synthetic_questions(text, 1))
    assert list(synthetic_questions(text, 1)) != list(synthetic_questions(text, 2))
    assert len(list(synthetic_questions(text, 1, each=2))) < len(list(synthetic_questions(text, 1, each=6)))


def test_without_jieba_chinese_is_refused_and_english_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    assert list(synthetic_questions([ROSETTA * 2]))
    with pytest.raises(MasqueradeError, match="pip install jieba"):
        list(synthetic_questions([WEIR * 2]))


def test_the_command_writes_questions_that_a_reader_can_be_trained_on(tmp_path: Path) -> None:
    text, out = tmp_path / "texts.txt", tmp_path / "made.jsonl"
    text.write_text(f"{ROSETTA}\n\n{WEIR * 2}\n", encoding="utf-8")
    assert "5 questions of 2 documents" in run("questions", text, "--out", out, "--count", 5)
    assert len(read_questions(str(out))) == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--count", "0"], "have to be at least 1"), ([], "No question can be made")],
)
def test_what_makes_no_questions_is_said_in_one_sentence(
    tmp_path: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "short.txt"
    text.write_text("Nothing here.\n", encoding="utf-8")
    command = ["questions", text, "--out", tmp_path / "made.jsonl", *words]
    assert said in refused(*command, monkeypatch=monkeypatch, capsys=capsys)
    assert not (tmp_path / "made.jsonl").exists()
