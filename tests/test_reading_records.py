"""Questions from every format they come in, answers where they stand, and sides that share no article."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from masquerade.errors import MasqueradeError
from masquerade.reading.records import Gold, QuestionRecord, find_answer, read_questions

SHARED = Path(__file__).parents[2] / "shared" / "data" / "reading"
RIVER = "The Danube flows into the Black Sea. The Rhine does not."
CITY = "北京是中国的首都，北京有２０００万人。"

Read = Callable[[Any], list[QuestionRecord]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """What is read from a JSON file with these contents."""

    def written(value: Any) -> list[QuestionRecord]:
        (tmp_path / "questions.json").write_text(json.dumps(value, ensure_ascii=False), "utf-8")
        return read_questions(str(tmp_path / "questions.json"))

    return written


def squad(*questions: dict[str, Any], context: str = RIVER, title: str = "Rivers") -> dict[str, Any]:
    return {"version": "1.1", "data": [{"title": title, "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def test_squad_is_read_with_its_titles_and_all_accepted_answers(read: Read) -> None:
    answers = [{"text": "the Black Sea", "answer_start": 22}, {"text": "Black Sea", "answer_start": 26}]
    assert read(squad({"id": "q", "question": " Where to? ", "answers": answers})) == [
        QuestionRecord(
            id="q",
            question="Where to?",
            passages=(RIVER,),
            spans=((Gold("the Black Sea", 22), Gold("Black Sea", 26)),),
            accepted=("the Black Sea", "Black Sea"),
            title="Rivers",
        )
    ]


def test_an_impossible_question_has_no_answer_however_plausible(read: Read) -> None:
    plausible = {"text": "Rhine", "answer_start": 41}
    impossible = {"id": "a", "question": "?", "is_impossible": True, "answers": [], "plausible_answers": [plausible]}
    contradicted = {"id": "b", "question": "?", "is_impossible": True, "answers": [plausible]}
    silent = {"id": "c", "question": "?", "answers": []}
    for asked in read(squad(impossible, contradicted, silent)):
        assert (asked.passages, asked.spans, asked.accepted) == ((RIVER,), ((),), ())


def test_cmrc_is_read_as_published_and_in_the_form_of_squad(read: Read) -> None:
    flat = {
        "context_id": "TRAIN_1",
        "context_text": CITY,
        "title": "北京",
        "qas": [{"query_id": "TRAIN_1_QUERY_0", "query_text": "首都是哪里？", "answers": ["北京", "北京"]}],
    }
    question = {"id": "TRAIN_1_QUERY_0", "question": "首都是哪里？", "answers": [{"text": "北京", "answer_start": -1}]}
    expected = QuestionRecord("TRAIN_1_QUERY_0", "首都是哪里？", (CITY,), ((Gold("北京", 0),),), ("北京",), "北京")
    assert read([flat]) == read(squad(question, context=CITY, title="北京")) == [expected]


def test_sogouqa_gives_every_passage_its_own_answers(read: Read) -> None:
    passages = [
        {"answer": "", "passage": "首都很大。北京"},
        {"answer": "北京市", "passage": "首都是北京市。"},
        {"answer": "京 城", "passage": "又称京城。"},
    ]
    (asked,) = read([{"id": 7, "question": "首都？", "answer": "北京", "passages": passages}, {"passages": passages}])
    assert asked.id == "7"
    assert asked.passages == tuple(each["passage"] for each in passages)
    assert asked.spans == ((), (Gold("北京市", 3),), ())
    assert asked.accepted == ("北京", "北京市", "京 城")


def test_webqa_as_published_is_read_by_its_ids(read: Read) -> None:
    evidences = {
        "Q_1#00": {"answer": ["no_answer"], "evidence": "首都很大。"},
        "Q_1#01": {"answer": ["北京", "Beijing"], "evidence": "首都是北京，BEIJING。"},
    }
    (asked,) = read({"Q_1": {"question": "首都？", "evidences": evidences}})
    assert (asked.id, asked.question) == ("Q_1", "首都？")
    assert asked.spans == ((), (Gold("北京", 3), Gold("BEIJING", 6)))
    assert asked.accepted == ("北京", "Beijing")


def test_flat_records_are_read_from_json_lines_and_parquet(tmp_path: Path) -> None:
    from datasets import Dataset

    records = [
        {
            "id": "q1",
            "title": "Rivers",
            "context": RIVER,
            "question": "Where to?",
            "answers": {"text": ["Black Sea", "the Black Sea"], "answer_start": [26, 22]},
        },
        {
            "id": "q2",
            "title": "Rivers",
            "context": RIVER,
            "question": "And the Rhine?",
            "answers": {"text": [], "answer_start": []},
        },
    ]
    (tmp_path / "lines.jsonl").write_text("\n".join(json.dumps(record) for record in records), "utf-8")
    Dataset.from_list(records).to_parquet(tmp_path / "lines.parquet")
    first, second = read_questions(str(tmp_path / "lines.jsonl"))
    assert first.spans == ((Gold("Black Sea", 26), Gold("the Black Sea", 22)),)
    assert (second.spans, second.accepted, second.title) == (((),), (), "Rivers")
    assert read_questions(str(tmp_path / "lines.parquet")) == [first, second]


def test_questions_without_passages_and_ids_are_numbered(read: Read) -> None:
    first, second = read([{"question": "who", "answer": ["Bob", "Rob"]}, {"question": "when", "answer": "1972"}])
    assert (first.id, first.passages, first.spans, first.accepted) == ("0", (), (), ("Bob", "Rob"))
    assert (second.id, second.accepted) == ("1", ("1972",))


def test_an_empty_question_is_left_out(read: Read) -> None:
    answers = [{"text": "The", "answer_start": 0}]
    empty = [{"id": str(n), "question": text, "answers": answers} for n, text in enumerate(("", " ", "?"))]
    assert [asked.id for asked in read(squad(*empty))] == ["2"]


def test_the_same_question_is_read_once_and_two_of_one_id_are_refused(read: Read) -> None:
    one = {"id": "q", "question": "who", "answer": "Bob"}
    assert len(read([one, one])) == 1
    with pytest.raises(MasqueradeError, match=r"Two questions of .* have the id 'q'"):
        read([one, one | {"question": "when"}])


@pytest.mark.parametrize(
    ("text", "stated", "expected"),
    [
        ("ab", 3, Gold("ab", 3)),  # where it is said to be
        ("ab", 2, Gold("ab", 3)),  # said wrongly: the nearest
        ("ab", 5, Gold("ab", 6)),
        ("ab", 4, Gold("ab", 3)),
        ("ab", 900, Gold("ab", 6)),
        ("ab", -1, Gold("ab", 0)),
        ("ab", None, Gold("ab", 0)),
        ("AB", 6, Gold("ab", 6)),  # the passage's own spelling
        ("１2", None, Gold("１２", 9)),
        ("12", None, Gold("１２", 9)),
        ("x y", None, Gold("Ｘ　y", 12)),
        ("abc", 0, None),
        ("", 0, None),
    ],
)
def test_an_answer_is_found_nearest_to_where_it_is_said_to_be(
    text: str, stated: int | None, expected: Gold | None
) -> None:
    assert find_answer("ab ab ab １２ Ｘ　y", text, stated) == expected


def test_spaces_around_an_answer_are_no_part_of_it(read: Read) -> None:
    answers = [{"text": "   I ", "answer_start": 1}]  # which begins nearer to the first I
    (asked,) = read(squad({"id": "q", "question": "?", "answers": answers}, context="I   I or not"))
    assert (asked.spans, asked.accepted) == (((Gold("I", 4),),), ("I",))


def test_a_letter_whose_small_form_is_longer_moves_no_answer() -> None:
    assert find_answer("İİ ab", "AB") == Gold("ab", 3)


characters = st.text(alphabet="aAbBİß ΣσςＡａ１1　北京。", max_size=30)


@settings(derandomize=True, deadline=None)
@given(passage=characters, text=characters, stated=st.none() | st.integers(-3, 40))
def test_a_found_answer_always_stands_where_it_is_said_to(passage: str, text: str, stated: int | None) -> None:
    found = find_answer(passage, text, stated)
    if found is None:
        assert not text or text not in passage
    else:
        assert passage[found.start : found.start + len(found.text)] == found.text
        assert len(found.text) == len(text)
        assert found.text == text or text not in passage


@settings(derandomize=True, deadline=None)
@given(passage=characters, start=st.integers(0, 29), length=st.integers(1, 10), off=st.integers(-5, 5))
def test_no_occurrence_is_nearer_than_the_one_found(passage: str, start: int, length: int, off: int) -> None:
    text = passage[start : start + length]
    assume(text)
    found = find_answer(passage, text, start + off)
    assert found is not None
    places = [place for place in range(len(passage)) if passage.startswith(text, place)]
    assert abs(found.start - start - off) == min(abs(place - start - off) for place in places)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{broken", "cannot be read"),
        ("", "There are no questions in .*; the known formats are SQuAD's JSON"),
        ("[1, 2]", "There are no questions in"),
        ('{"data": []}', "There are no questions in"),
        ('[{"text": "a", "label": "b"}]', "There are no questions in"),
        ('[{"question": "a", "context": [["b", ["c"]]]}]', "a passage has to be text"),
        ('[{"question": "a", "context": "b", "answers": [{"answer_start": 1}]}]', "has an unknown format"),
        ('[{"context": "b", "qas": 1}]', "has an unknown format"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(MasqueradeError, match=sentence) as caught:
        read_questions(str(tmp_path / "x.json"))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(MasqueradeError, match=r"There is no file '\./nowhere\.json'"):
        read_questions("./nowhere.json")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "questions", "with_span"),
    [
        ("en/squadshifts-wiki.json", 7938, 7938),
        ("zh/cmrc2018-trial.json", 1000, 1000),  # two more are empty
        ("zh/sogouqa-sample.json", 21, 21),
        ("zh/webqa-test.json", 3024, 3006),
    ],
)
def test_the_published_files_are_read(name: str, questions: int, with_span: int) -> None:
    if not SHARED.is_dir():
        pytest.skip("the shared data are not beside this checkout")
    records = read_questions(str(SHARED / name))
    assert len(records) == questions
    assert sum(any(record.spans) for record in records) == with_span
    for record in records:
        for passage, golds in zip(record.passages, record.spans, strict=True):
            assert all(passage[gold.start : gold.start + len(gold.text)] == gold.text for gold in golds)
