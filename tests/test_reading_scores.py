"""The three published metrics: worked examples, and what holds for all answers."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from masquerade.errors import MasqueradeError
from masquerade.reading.records import QuestionRecord
from masquerade.reading.scores import (
    METRICS,
    SOGOUQA_PUNCTUATION,
    cmrc_normal,
    cmrc_scores,
    cmrc_tokens,
    read_accepted,
    sogouqa_normal,
    sogouqa_scores,
    squad_normal,
    squad_scores,
)

SHARED = Path(__file__).parents[2] / "shared" / "data" / "reading"


def asked(*accepted: str, name: str = "q") -> QuestionRecord:
    return QuestionRecord(name, "?", (), (), accepted)


def score(metric: str, prediction: str, *accepted: str) -> dict[str, float]:
    """The scores of one prediction."""
    return METRICS[metric]({"q": prediction}, [asked(*accepted)]).each["q"]


# SQuAD


@pytest.mark.parametrize(
    ("prediction", "accepted", "exact", "f1"),
    [
        ("The Black-Sea!", ["a  blacksea"], 1, 1),
        ("Black Sea", ["the Black Sea", "Sea"], 1, 1),
        ("big Black Sea", ["Black Sea"], 0, 4 / 5),
        ("sea black", ["Black Sea"], 0, 1),  # words in any order
        ("to be or not to be", ["to be"], 0, 4 / 8),  # each as often as it is in both: 2 of 6 and 2 of 2
        ("Rhine", ["Danube", "the river Rhine"], 0, 2 / 3),
        ("Rhine", ["Danube"], 0, 0),
        ("", ["Danube"], 0, 0),
        ("the", ["Danube"], 0, 0),
        ("北京", ["北京市"], 0, 0),  # words, not characters
        ("", [], 1, 1),
        ("the", [], 1, 1),  # nothing is left of it
        ("Danube", [], 0, 0),
        ("", ["the", "Danube"], 0, 0),
        ("", ["the", "an"], 1, 1),  # nothing is left of the answers
    ],
)
def test_squad_examples(prediction: str, accepted: list[str], exact: float, f1: float) -> None:
    assert score("squad", prediction, *accepted) == pytest.approx({"exact": exact, "f1": f1})


def test_squad_means_are_percentages_and_a_missing_prediction_is_wrong() -> None:
    records = [asked("Black Sea", name="a"), asked("Rhine", name="b"), asked("Danube", name="c")]
    found = squad_scores({"a": "Sea", "b": "rhine", "else": "ignored"}, records)
    assert found.total == pytest.approx({"exact": 100 / 3, "f1": 100 * (2 / 3 + 1) / 3})
    assert found.each["c"] == {"exact": 0.0, "f1": 0.0}


def test_squad_tells_questions_with_answers_from_those_without() -> None:
    records = [asked("Black Sea", name="a"), asked("Rhine", name="b"), *(asked(name=name) for name in "cdef")]
    found = squad_scores({"a": "Black Sea", "b": "", "c": "", "d": "Rhine", "e": ""}, records)
    assert found.total == pytest.approx(
        {
            "exact": 100 * 3 / 6,  # f has no prediction
            "f1": 100 * 3 / 6,
            "has_answer_exact": 50,
            "has_answer_f1": 50,
            "no_answer_accuracy": 50,
        }
    )
    assert squad_scores({}, [asked()]).total == {"exact": 0, "f1": 0, "no_answer_accuracy": 0}


def slow_squad_f1(prediction: str, answer: str) -> float:
    """F1 over words, by crossing them out one by one."""
    words = [
        [
            word
            for word in "".join(c for c in text.lower() if c not in string.punctuation).split()
            if word not in ("a", "an", "the")
        ]
        for text in (prediction, answer)
    ]
    guess, left = words[0], list(words[1])
    if not guess or not left:
        return float(guess == left)
    same = 0
    for word in guess:
        if word in left:
            left.remove(word)
            same += 1
    if not same:
        return 0.0
    precision, recall = same / len(guess), same / len(words[1])
    return 2 * precision * recall / (precision + recall)


english = st.lists(st.sampled_from(["a", "The", "sea", "Sea.", "black", "an", "-", "é"]), max_size=6).map(" ".join)


@settings(derandomize=True, deadline=None)
@given(prediction=english, answer=english)
def test_squad_equals_an_independent_count(prediction: str, answer: str) -> None:
    assert score("squad", prediction, answer)["f1"] == pytest.approx(slow_squad_f1(prediction, answer))


# CMRC 2018


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("《战国无双3》是2010年", ["战", "国", "无", "双", "3", "是", "2010", "年"]),
        ("Jean-Pierre Balligand（法国）", ["jeanpierre", "balligand", "法", "国"]),  # what is removed cuts nothing
        ("1,000.5米, 约3.14%", ["1,000.5", "米", ",", "约", "3.14", "%"]),
        ("It isn't Anna's (yet).", ["it", "is", "n't", "anna", "'s", "(", "yet", ")", "."]),
        ("U.S. Navy, St. John.", ["u.s.", "navy", ",", "st.", "john", "."]),
        ("等等...“NPC”!", ["等", "等", "...", "npc", "!"]),
        ("1936–37……", ["1936", "–", "37……"]),
        ("称为'point view'的", ["称", "为", "'", "point", "view", "'", "的"]),
        ("カタカナ", ["カタカナ"]),
        ("，。", []),
    ],
)
def test_cmrc_cuts_chinese_by_characters_and_the_rest_by_words(text: str, tokens: list[str]) -> None:
    assert cmrc_tokens(text) == tokens


@pytest.mark.parametrize(
    ("prediction", "accepted", "exact", "f1"),
    [
        ("《北京》。", ["北京"], 1, 1),
        ("北京市", ["北京"], 0, 4 / 5),
        ("北京和上海", ["北京上海"], 0, 4 / 9),  # the longest run is 2 of 5 and of 4, though all 4 are there
        ("京北", ["北京"], 0, 1 / 2),
        ("NEXON公司", ["天津", "nexon公司"], 1, 1),
        ("韩国Nexon", ["Nexon"], 0, 2 / 4),
        ("２０１０年", ["2010年"], 0, 2 / 4),  # full-width figures are other figures here
        ("A B", ["AB"], 0, 0),
        ("南" + "北" * 299, ["北" * 200], 0, 400 / 500),  # long ones, too
        ("", ["北京"], 0, 0),
        ("北京", [], 0, 0),
    ],
)
def test_cmrc_examples(prediction: str, accepted: list[str], exact: float, f1: float) -> None:
    assert score("cmrc", prediction, *accepted) == pytest.approx({"exact": exact, "f1": f1})


def test_cmrc_means_are_percentages_and_a_missing_prediction_is_wrong() -> None:
    found = cmrc_scores({"a": "北京市"}, [asked("北京", name="a"), asked("上海", name="b")])
    assert found.total == pytest.approx({"exact": 0, "f1": 40})


chinese = st.text(alphabet="北京上海， 。１1aＡA-", max_size=12)


@settings(derandomize=True, deadline=None)
@given(prediction=chinese, answer=chinese)
def test_cmrc_f1_is_that_of_the_longest_common_run(prediction: str, answer: str) -> None:
    guess, truth = cmrc_tokens(prediction), cmrc_tokens(answer)

    def runs(tokens: Sequence[str]) -> set[tuple[str, ...]]:
        return {tuple(tokens[i:j]) for i in range(len(tokens)) for j in range(i + 1, len(tokens) + 1)}

    longest = max(map(len, runs(guess) & runs(truth)), default=0)
    expected = 2 * longest / (len(guess) + len(truth)) if longest else 0.0
    assert score("cmrc", prediction, answer)["f1"] == pytest.approx(expected)


# SogouQA


@pytest.mark.parametrize(
    ("prediction", "accepted", "accuracy", "f1"),
    [
        ("２０１１年", ["2011年", "2011"], 1, 1),  # full-width figures are figures
        ("ＣＬＡＲＡ！", ["李成敏", "clara"], 1, 1),
        ("5.5 寸", ["5.5寸"], 1, 1),
        ("华特·迪士尼", ["华特.迪士尼"], 1, 1),
        ("É", ["é"], 0, 0),  # only ASCII has small letters here …
        ("a\u00a0b", ["ab"], 0, 4 / 5),  # … and white space
        ("印度、巴西", ["巴西 印度"], 1, 1),  # the same parts in another order
        ("印度、巴西", ["印度和巴西", "巴西 印度"], 0, 1),  # of the standard answer, not of any other
        ("印度 印度 巴西", ["巴西,印度"], 1, 8 / 10),  # parts are a set, characters are counted
        (" 印度、巴西\n", ["巴西 印度"], 1, 1),
        ("印度、巴西。", ["巴西 印度"], 0, 1),  # an empty part at the end is a part
        ("度印", ["印度"], 0, 1),  # characters in any order, parts as they are
        ("南京鼓楼区", ["鼓楼区", "鼓楼"], 0, 6 / 8),
        ("上海", ["北京"], 0, 0),
        ("", ["北京"], 0, 0),
        (" \n", ["北京"], 0, 0),
        ("。", ["北京"], 0, 0),
        ("北京", [], 0, 0),
        ("", [], 0, 0),
    ],
)
def test_sogouqa_examples(prediction: str, accepted: list[str], accuracy: float, f1: float) -> None:
    expected = {"accuracy": accuracy, "f1": f1, "final": (accuracy + f1) / 2}
    assert score("sogouqa", prediction, *accepted) == pytest.approx(expected)


def test_sogouqa_scores_predictions_against_its_file_of_accepted_answers(tmp_path: Path) -> None:
    gold = tmp_path / "gold.txt"
    gold.write_text("1\t海伦凯勒\t海伦|海伦凯勒\n2\t2线\t二|2线|2\n3\t韩国\t韩国\n", "utf-8")
    accepted = read_accepted(gold)
    assert accepted == {"1": ("海伦凯勒", "海伦"), "2": ("2线", "二", "2"), "3": ("韩国",)}
    records = [asked(*answers, name=name) for name, answers in accepted.items()]
    found = sogouqa_scores({"1": "海伦", "2": "2号线"}, records)
    assert found.total == pytest.approx({"accuracy": 100 / 3, "f1": 100 * 1.8 / 3, "final": 100 * (1 + 1.8) / 6})


def test_a_bad_file_of_accepted_answers_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "gold.txt").write_text("1\ta\ta\n2\tb\n")
    with pytest.raises(MasqueradeError, match=r"Line 2 of .* with tabs between"):
        read_accepted(tmp_path / "gold.txt")
    with pytest.raises(MasqueradeError, match="cannot be read"):
        read_accepted(tmp_path / "nowhere.txt")


@pytest.mark.data
def test_the_punctuation_of_sogouqa_is_the_published_list() -> None:
    if not SHARED.is_dir():
        pytest.skip("the shared data are not beside this checkout")
    published = (SHARED / "zh" / "sogouqa-punctuation.txt").read_text("utf-8").split("\n")
    assert set(SOGOUQA_PUNCTUATION) == set(published) - {"", " "}
    assert len(SOGOUQA_PUNCTUATION) == len(set(SOGOUQA_PUNCTUATION))


@pytest.mark.data
def test_every_published_answer_of_sogouqa_is_right() -> None:
    if not SHARED.is_dir():
        pytest.skip("the shared data are not beside this checkout")
    accepted = read_accepted(SHARED / "zh" / "sogouqa-gold-valid.txt")
    records = [asked(*answers, name=name) for name, answers in accepted.items()]
    assert len(records) == 3000
    for place in (0, -1):
        found = sogouqa_scores({name: answers[place] for name, answers in accepted.items()}, records)
        assert found.total == {"accuracy": 100, "f1": 100, "final": 100}


# All of them

NORMAL = {"squad": squad_normal, "cmrc": cmrc_normal, "sogouqa": sogouqa_normal}
texts = st.text(alphabet="aAtheTHE bＡ１1北京上， 。-.'", max_size=10) | st.text(max_size=10)
answers = st.lists(texts, min_size=1, max_size=4)
metrics = pytest.mark.parametrize("metric", METRICS)


@metrics
@settings(derandomize=True, deadline=None)
@given(accepted=answers, place=st.integers(0, 3))
def test_an_accepted_answer_is_right(metric: str, accepted: list[str], place: int) -> None:
    prediction = accepted[place % len(accepted)]
    assume(NORMAL[metric](prediction).strip())
    assert set(score(metric, prediction, *accepted).values()) == {1.0}
    assert set(METRICS[metric]({"q": prediction}, [asked(*accepted)]).total.values()) == {100.0}


@metrics
@settings(derandomize=True, deadline=None)
@given(prediction=texts, accepted=st.lists(texts, max_size=4))
def test_scores_lie_between_nothing_and_everything(metric: str, prediction: str, accepted: list[str]) -> None:
    found = METRICS[metric]({"q": prediction}, [asked(*accepted)])
    assert all(0 <= value <= 1 for value in found.each["q"].values())
    assert all(0 <= value <= 100 for value in found.total.values())


@metrics
@settings(derandomize=True, deadline=None)
@given(prediction=texts, accepted=answers, data=st.data())
def test_the_order_of_answers_does_not_matter(
    metric: str, prediction: str, accepted: list[str], data: st.DataObject
) -> None:
    standard = accepted[:1] if metric == "sogouqa" else []  # whose place says that it is the standard one
    others = data.draw(st.permutations(accepted[len(standard) :]))
    assert score(metric, prediction, *accepted) == score(metric, prediction, *standard, *others)


@metrics
@settings(derandomize=True, deadline=None)
@given(prediction=texts, accepted=answers, more=texts)
def test_another_accepted_answer_never_hurts(metric: str, prediction: str, accepted: list[str], more: str) -> None:
    assume(any(map(NORMAL[metric], accepted)))  # else SQuAD takes them for none
    before, after = score(metric, prediction, *accepted), score(metric, prediction, *accepted, more)
    assert all(after[name] >= before[name] for name in before)


@pytest.mark.parametrize("normal", [squad_normal, sogouqa_normal])
@settings(derandomize=True, deadline=None)
@given(text=texts)
def test_normalising_twice_is_normalising_once(normal: type[str], text: str) -> None:
    assert normal(normal(text)) == normal(text)


@settings(derandomize=True, deadline=None)
@given(text=texts)
def test_cmrc_normalising_twice_only_strips(text: str) -> None:
    assert cmrc_normal(cmrc_normal(text)) == cmrc_normal(text).strip()


@metrics
def test_no_questions_are_one_sentence(metric: str) -> None:
    with pytest.raises(MasqueradeError, match="no questions to score"):
        METRICS[metric]({}, [])


def test_no_answer_is_right_where_a_chinese_question_has_none() -> None:
    record = QuestionRecord("1", "谁？", ("没有人。",), ((),), ())
    assert cmrc_scores({"1": ""}, [record]).total == {"exact": 100.0, "f1": 100.0}
    assert cmrc_scores({"1": "没有人"}, [record]).total == {"exact": 0.0, "f1": 0.0}
