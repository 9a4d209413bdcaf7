"""The best answers of a text: whole words, no two that overlap, none that repeats the question."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mask_cases import seeded
from reader_cases import reader, tokenizer

from masquerade.errors import MasqueradeError
from masquerade.reading.answers import VOTES, Candidate, merged
from masquerade.reading.nbest import best_spans, inside_word, repeats

TEXT = "the cats sat on 上海 2 walking"


@seeded
@given(st.integers(0, 1000), st.integers(1, 6))
def test_spans_are_whole_words_apart_and_the_best_comes_first(seed: int, count: int) -> None:
    ids, places = tokenizer().encode_places([TEXT])[0]
    scores = torch.randn(len(ids), 3, generator=torch.Generator().manual_seed(seed)).double()
    for start in range(len(ids)):
        scores[start, len(ids) - start :] = -torch.inf
    found = best_spans(scores, TEXT, places, count)
    spans = [(places[each.start][0], places[each.start + each.length - 1][1]) for each in found]
    assert not any(inside_word(TEXT, offset) for span in spans for offset in span)
    assert all(one[1] <= other[0] or other[1] <= one[0] for one, other in combinations(spans, 2))
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    whole = [
        (float(scores[start, length]), start, length + 1)
        for start in range(len(ids))
        for length in range(min(3, len(ids) - start))
        if not inside_word(TEXT, places[start][0]) and not inside_word(TEXT, places[start + length][1])
    ]
    assert (found[0].score, found[0].start, found[0].length) == max(whole)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("Par|is", True), ("Paris| is", False), ("2,31|8.40", True), ("2,318|.40", True), ("2|,318", True),
        ("1,| 2", False), ("in 1999|.", False), ("北|京", False), ("2024|年", False), ("楼|203", False),
        ("1|:02", True), ("exam|-\nple", True), ("exam-\n|ple", True), ("well|-known", False), ("|a", False),
        ("a|", False), ("cafe|\u0301", True), ("SD|88", True),
    ],
)  # fmt: skip
def test_where_words_can_be_cut(text: str, inside: bool) -> None:
    assert inside_word(text.replace("|", ""), text.index("|")) == inside


@pytest.mark.parametrize("gap", ["    ", "\t", " | ", "\u3000\u3000"])
def test_an_answer_stays_in_its_cell(gap: str) -> None:
    text = f"2023{gap}2022\ncats{gap}walking  on the"
    places = [(found.start(), found.end()) for found in re.finditer(r"[^\s|]+", text)]
    scores = torch.zeros(len(places), 3).double()
    scores[0, 1], scores[2, 1], scores[3, 2] = 9.0, 8.0, 7.0  # over a gap, over a gap, and inside a cell
    found = best_spans(scores, text, places, 3)
    assert (found[0].start, found[0].length) == (3, 3) and all(each.length == 1 for each in found[1:])


def test_answers_that_repeat_the_question_are_known() -> None:
    assert repeats("the Windows 10", "Which version came after Windows 10?")
    assert repeats("都江堰", "都江堰是谁修建的？") and not repeats("李冰", "都江堰是谁修建的？")
    assert not repeats("Windows 7", "Which version came after Windows 10?")
    assert not repeats("tea", "Is it tea or coffee?") and not repeats("茶", "是茶还是咖啡？")
    assert not repeats("the", "Who is the king?") and not repeats("", "Who?")


def test_a_word_of_the_question_is_the_answer_only_where_there_is_no_other() -> None:
    cat, mat = Candidate("the cat", 0.6, 0, 0, 7), Candidate("a mat", 0.3, 0, 15, 20)
    assert merged([cat, mat], 0.1, VOTES["best"], 3, 0.0, "Where is the cat?").text == "a mat"
    assert merged([cat], 0.1, VOTES["best"], 3, 0.0, "Where is the cat?").text == "the cat"
    assert not merged([cat, mat], 0.1, VOTES["best"], 3, 0.5, "Where is the cat?")  # the threshold is for the mat


def test_candidates_that_overlap_a_better_one_are_left_out() -> None:
    found = [Candidate("a mat", 0.5, 0, 3, 8), Candidate("mat", 0.3, 0, 5, 8), Candidate("on", 0.1, 0, 0, 2)]
    answer = merged(found, 0.1, VOTES["best"], 3, 0.0)
    assert [answer.text, *(each.text for each in answer.alternatives)] == ["a mat", "on"]
    other = Candidate("mat", 0.3, 1, 5, 8)  # in another passage
    assert [each.text for each in merged([found[0], other], 0.1, VOTES["best"], 3, 0.0).alternatives] == ["mat"]


def test_a_threshold_is_an_argument() -> None:
    asker = reader()
    usual = asker.ask("Who?", TEXT)
    assert usual and not asker.ask("Who?", TEXT, threshold=1.0)
    assert asker.ask("Who?", TEXT, threshold=usual.score) == usual
    quiet = reader(threshold=1.1)
    assert not quiet.ask("Who?", TEXT) and quiet.ask("Who?", TEXT, threshold=0.0) == usual
    with pytest.raises(MasqueradeError, match="'threshold' has to be a number"):
        asker.ask("Who?", TEXT, threshold="high")  # type: ignore[arg-type]


def test_a_word_divided_at_a_line_end_is_read_as_one() -> None:
    divided, whole = "the cat sat on a walk-\ning mat", "the cat sat on a walking mat"
    asker = reader()
    one, other = (asker.ask("Who?", text, n_best=6) for text in (divided, whole))
    assert [each.score for each in (one, *one.alternatives)] == [each.score for each in (other, *other.alternatives)]
    for each in (one, *one.alternatives):
        assert divided[each.start : each.end] == each.text
        assert not each.text.endswith("walk") and not each.text.startswith("ing")
    assert {each.text.replace("-\n", "") for each in (one, *one.alternatives)} == {
        each.text for each in (other, *other.alternatives)
    }
