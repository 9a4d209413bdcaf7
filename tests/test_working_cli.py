"""``ask --memory`` and ``classify --memory``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from reader_cases import reader
from typer.testing import CliRunner
from working_cases import encoder

from masquerade import save
from masquerade.cli.main import app
from masquerade.errors import MasqueradeError
from masquerade.memory.working.judge import new_judge
from masquerade.reading.reader import Settings

TEXT = "the cat sat on a warm mat . " * 40 + "two old dogs saw 北京 . " + "the sea is red . " * 40


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader and a classifier, each with a judge in its folder, and a long text."""
    folder = tmp_path_factory.mktemp("models")
    asked = reader()
    save(asked.settings.put(asked.model), folder / "reader")
    assert Settings.of(asked.model)
    save(new_judge(asked.model, 60), folder / "reader" / "judge")
    save(encoder(outputs=("classify",)), folder / "classifier")
    save(new_judge(encoder(), 40), folder / "classifier" / "judge")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    return folder


def invoke(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def test_ask_reads_what_the_judge_keeps(home: Path) -> None:
    common = ("ask", "who saw 北京 ?", "--in", str(home / "text.txt"), "--model", str(home / "reader"))
    found = json.loads(invoke(*common, "--memory", "cogltx", "--json"))
    assert 0 < len(found["memory"]["kept"]) < found["memory"]["blocks"] == found["memory"]["judged"]
    if found["answer"]:
        assert TEXT[found["start"] : found["end"]] == found["answer"]
    for each in found["memory"]["kept"]:
        assert TEXT[each["start"] : each["end"]] == each["answer"]
    done = CliRunner().invoke(app, [*common, "--memory", "cogltx"])
    assert "blocks kept" in done.output
    apart = invoke(*common, "--memory", "cogltx", "--judge", str(home / "reader" / "judge"), "--json")
    assert json.loads(apart) == found


def test_classify_reads_what_the_judge_keeps(home: Path) -> None:
    found = json.loads(
        invoke(
            "classify", "--model", str(home / "classifier"), "--memory", "cogltx", "--json", "the film is bad . " * 60
        )
    )
    assert found["label"] in found["scores"]
    assert len(found["memory"]["read"]) < len(found["text"])
    shown = invoke("classify", "--model", str(home / "classifier"), "--memory", "cogltx", "a film", "上海很大。" * 40)
    assert "1 of 1" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("ask", "who ?", "--memory", "x"), "no memory 'x'"),
        (("ask", "who ?", "--memory", "cogltx", "--free"), "leave --free and --vote out"),
        (("ask", " ", "--memory", "cogltx"), "question is empty"),
        (("ask", "who ?", "--memory", "cogltx", "--kb", "kb"), "--memory is for files"),
        (("classify", "--pair", "b", "--memory", "cogltx", "a"), "leave --pair out"),
        (("classify", "--memory", "cogltx", "a"), "has no judge"),
        (("ask", "who ?", "--judge", "x"), "add --memory cogltx"),
        (("classify", "--judge", "x", "a"), "add --memory cogltx"),
        (("tag", "--judge", "x", "a"), "add --memory cogltx"),
    ],
)
def test_bad_calls_are_one_sentence(home: Path, words: tuple[str, ...], sentence: str) -> None:
    text = ["--in", str(home / "text.txt")] if words[0] == "ask" and "--kb" not in words else []
    done = CliRunner().invoke(app, [*words, *text, "--model", str(home / "classifier" / "judge")])
    assert isinstance(done.exception, MasqueradeError) and sentence in str(done.exception), (
        done.output,
        done.exception,
    )
