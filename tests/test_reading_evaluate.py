"""The command evaluate reader, as it is typed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from reader_cli_cases import CITY, RIVER, saved_reader
from typed import refused, run

from masquerade.cli.show.evaluation import Evaluation, _answers
from masquerade.reading.answers import Answer
from masquerade.reading.reader import Reader
from masquerade.reading.records import read_questions
from masquerade.reading.scores import METRICS

QUESTIONS = [
    {"id": "a", "question": "Where does it flow?", "context": RIVER, "answers": ["the Black Sea", "Black Sea"]},
    {"id": "b", "question": "What does not?", "context": RIVER, "answers": ["The Rhine"]},
    {"id": "c", "question": "Who?", "context": RIVER, "answers": []},
]
CHINESE = [{"id": str(number), "question": q, "context": CITY, "answers": [a]} for number, (q, a) in enumerate(
    [("首都在哪里？", "北京"), ("东边是？", "上海"), ("多少人？", "２０００万")])]  # fmt: skip
SEVERAL = [{"query_id": "7", "query_text": "首都在哪里？", "passages": [
    {"passage_id": "1", "passage": CITY, "answer": "北京"}, {"passage_id": "2", "passage": "上海在东边。", "answer": ""}
]}]  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random reader."""
    return saved_reader(tmp_path_factory.mktemp("reader"))


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("records", "metric", "vote"),
    [(QUESTIONS, "squad", "best"), (CHINESE, "cmrc", "best"), (SEVERAL, "sogouqa", "all")],
)
def test_scores_are_those_of_the_rule_that_suits(
    records: list[dict[str, Any]], metric: str, vote: str, tiny: Path, tmp_path: Path
) -> None:
    source = write(tmp_path / "questions.jsonl", records)
    asked = read_questions(str(source))
    reader = Reader.load(tiny)
    for decoder in ("parallel", "autoregressive"):
        answers = reader.ask_many([(each.question, each.passages) for each in asked], vote=vote, decoder=decoder)
        texts = {each.id: answer.text for each, answer in zip(asked, answers, strict=True)}
        total = METRICS[metric](texts, asked).total
        found = json.loads(run("evaluate", "reader", source, "--model", tiny, "--decoder", decoder, "--json"))
        assert found == {
            "metric": metric, "decoder": decoder, "vote": vote, "questions": len(asked),
            **{name: pytest.approx(value) for name, value in total.items()},
        }  # fmt: skip


def test_metric_vote_and_limit_are_as_they_are_said(tiny: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "questions.jsonl", QUESTIONS)
    words = ["--metric", "cmrc", "--vote", "all", "--limit", 2, "--json"]
    found = json.loads(run("evaluate", "reader", source, "--model", tiny, *words))
    assert (found["metric"], found["vote"], found["questions"]) == ("cmrc", "all", 2)


def test_predictions_are_saved_in_order_or_the_worst_first(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"Where does it flow?": Answer("Black Sea", 0.9), "What does not?": Answer("Danube", 0.2)}
    said["Who?"] = Answer("The Rhine", 0.8)  # wrong, and surer of it
    monkeypatch.setattr(Reader, "ask_many", lambda self, pairs, **_: [said[question] for question, _ in pairs])
    source, out = write(tmp_path / "questions.jsonl", QUESTIONS), tmp_path / "new" / "answers.jsonl"
    words = ["evaluate", "reader", source, "--model", tiny, "--predictions", out]
    table = run(*words)
    assert "3 questions, metric squad, decoder parallel, vote best" in table
    assert re.findall(r"│ (\S.*?) +│ ([\d.]+) ", table) == [
        ("exact", "33.33"), ("f1", "33.33"), ("has answer exact", "50.00"), ("has answer f1", "50.00"),
        ("no answer accuracy", "0.00"),
    ]  # fmt: skip
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == {
        "id": "a", "question": "Where does it flow?", "answer": "Black Sea", "score": 0.9,
        "accepted": ["the Black Sea", "Black Sea"], "exact": 1.0, "f1": 1.0,
    }  # fmt: skip
    assert [row["id"] for row in rows] == ["a", "b", "c"]
    printed = run(*words, "--worst", 2)
    assert [json.loads(line)["id"] for line in out.read_text(encoding="utf-8").splitlines()] == ["c", "b", "a"]
    worst = [line for line in printed.splitlines() if "?" in line]
    assert len(worst) == 2 and "Who?" in worst[0] and "The Rhine" in worst[0] and "0.00" in worst[0]
    assert "What does not?" in worst[1] and "Danube" in worst[1]
    listed = json.loads(run(*words, "--worst", 1, "--json"))["worst"]
    assert [row["id"] for row in listed] == ["c"]


def test_accepted_answers_come_from_sogouqas_file(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, gold = write(tmp_path / "questions.jsonl", SEVERAL), tmp_path / "gold.txt"
    gold.write_text("7\t上海\t上海|上海市\n8\t北京\t北京\n", encoding="utf-8")
    monkeypatch.setattr(Reader, "ask_many", lambda self, pairs, **_: [Answer("上海市", 0.5)])
    words = ["evaluate", "reader", source, "--model", tiny, "--json"]
    assert json.loads(run(*words))["accuracy"] == 0
    assert json.loads(run(*words, "--accepted", gold))["accuracy"] == 100
    gold.write_text("8\t北京\t北京\n", encoding="utf-8")
    error = refused(*words, "--accepted", gold, monkeypatch=monkeypatch, capsys=capsys)
    assert "The question '7' is not in" in error


def test_questions_of_several_files_are_all_asked(tiny: Path, tmp_path: Path) -> None:
    nameless = [{key: value for key, value in record.items() if key != "id"} for record in QUESTIONS]
    one, other = write(tmp_path / "1.jsonl", nameless), write(tmp_path / "2.jsonl", nameless[::-1])
    records = Evaluation([str(one), str(other)]).read()
    assert [record.question for record in records] == [each["question"] for each in nameless + nameless[::-1]]
    assert len({record.id for record in records}) == 6


def test_a_question_without_a_passage_has_no_answer(tiny: Path, tmp_path: Path) -> None:
    records = read_questions(str(write(tmp_path / "q.jsonl", [{"id": "z", "question": "Why?"}, *QUESTIONS])))
    found = _answers(Reader.load(tiny), records, "best", "parallel")
    assert found[0] == Answer("", 0.0)
    assert found[1:] == Reader.load(tiny).ask_many([(each["question"], each["context"]) for each in QUESTIONS])


def test_the_bar_of_an_evaluation_gets_to_its_end(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, totals = list[float](), list[float]()

    @contextmanager
    def progress(what: str, total: int) -> Iterator[Any]:
        totals.append(total)
        yield done.append

    monkeypatch.setattr("masquerade.cli.show.evaluation.progress_bar", progress)
    long = {"id": "d", "question": "Where?", "context": RIVER * 40, "answers": ["The Rhine"]}
    run("evaluate", "reader", write(tmp_path / "q.jsonl", [*QUESTIONS, long, *SEVERAL]), "--model", tiny)
    assert totals == [5] and sum(done) == pytest.approx(5)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere.jsonl"], "There is no file 'nowhere.jsonl'"),
        (["open.jsonl"], "have no passages"),
        (["good.jsonl", "--metric", "bleu"], "no metric 'bleu'; choose from squad, cmrc, sogouqa"),
        (["good.jsonl", "--decoder", "x"], "no decoder 'x'"),
        (["good.jsonl", "--vote", "x"], "no vote 'x'"),
        (["good.jsonl", "--accepted", "nowhere.txt"], "The accepted answers nowhere.txt cannot be read"),
    ],
)
def test_bad_input_to_evaluate_is_one_sentence(
    words: list[str], sentence: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "good.jsonl", QUESTIONS)
    write(tmp_path / "open.jsonl", [{"question": "Why?", "answers": ["so"]}])
    error = refused("evaluate", "reader", *words, "-m", tiny, monkeypatch=monkeypatch, capsys=capsys)
    assert sentence in error
