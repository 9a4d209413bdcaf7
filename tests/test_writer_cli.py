"""The commands write, title, summarize and evaluate writer, as they are typed."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console
from typed import refused, run
from typer.testing import CliRunner
from writer_cases import PAIRS, bert, recipe, saved, written

from masquerade.cli.main import app
from masquerade.training.loop import Run
from masquerade.writing.settings import WritingSettings
from masquerade.writing.training import TrainWriter


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a tiny writer that knows its pairs by heart."""
    folder = tmp_path_factory.mktemp("writer")
    Run(TrainWriter(recipe(folder, epochs=40))).train()
    return folder


def test_titles_are_written_for_files(taught: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(PAIRS[0][0], encoding="utf-8")
    (tmp_path / "b.txt").write_text(PAIRS[3][0], encoding="utf-8")
    model = ["--model", str(taught / "run")]
    assert run("title", str(tmp_path / "a.txt"), *model).strip() == "Red Cat"
    both = run("write", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), *model, "--json").splitlines()
    assert [json.loads(line)["text"] for line in both] == ["Red Cat", "首都北京"]
    best = json.loads(run("title", str(tmp_path / "b.txt"), *model, "--n-best", "3", "--json"))
    assert best["text"] == "首都北京"
    assert len(best["alternatives"]) == 2
    assert best["score"] >= best["alternatives"][0]["score"]


def test_a_long_text_is_cut_with_a_notice_or_read_in_windows(taught: Path, tmp_path: Path) -> None:
    text = f"{PAIRS[0][0]} {PAIRS[1][0]} " * 2
    (tmp_path / "long.txt").write_text(text, encoding="utf-8")
    model = ["--model", str(taught / "run")]
    said = json.loads(run("title", str(tmp_path / "long.txt"), *model, "--json"))
    assert said["unread"] > 0
    notices = [
        CliRunner().invoke(app, [command, str(tmp_path / "long.txt"), *model]).stderr for command in ("title", "write")
    ]
    assert "were not read" not in notices[0]  # a title is meant to come from the beginning
    assert "were not read. Use --windows" in notices[1]
    best = CliRunner().invoke(app, ["summarize", str(tmp_path / "long.txt"), *model, "--n-best", "2"])
    assert "were not read. Leave --n-best out" in best.stderr
    assert len(best.stdout.splitlines()) == 2
    whole = json.loads(run("summarize", str(tmp_path / "long.txt"), *model, "--json"))
    assert whole["unread"] == 0
    assert len(whole["text"]) > len(said["text"])


def test_a_terminal_sees_the_text_as_it_comes_and_what_was_not_read(
    taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long.txt").write_text(f"{PAIRS[0][0]} " * 4, encoding="utf-8")
    monkeypatch.setattr(Console, "is_terminal", True)
    said = CliRunner().invoke(
        app, ["write", str(tmp_path / "long.txt"), "--model", str(taught / "run"), "--method", "greedy"]
    )
    assert said.stdout.strip()
    assert "were not read. Use --windows" in said.stderr


def test_a_text_in_characters_that_the_writer_does_not_know_is_named(taught: Path, tmp_path: Path) -> None:
    (tmp_path / "greek.txt").write_text("Η γάτα κάθεται. The cat sat.", encoding="utf-8")
    said = CliRunner().invoke(app, ["title", str(tmp_path / "greek.txt"), "--model", str(taught / "run")])
    assert said.stdout.strip()
    assert "this writer does not know 43% of the characters of '" in said.stderr


def test_scores_and_the_worst_texts_are_printed(taught: Path, tmp_path: Path) -> None:
    pairs, model = written(tmp_path / "dev.jsonl"), ["--model", str(taught / "run")]
    saved_to = tmp_path / "texts.jsonl"
    said = json.loads(
        run("evaluate", "writer", pairs, *model, "--json", "--worst", "2", "--predictions", str(saved_to))
    )
    assert said["rouge_l"] == pytest.approx(100)
    assert said["pairs"] == 5 and len(said["worst"]) == 2
    assert len(saved_to.read_text(encoding="utf-8").splitlines()) == 5
    lead = json.loads(run("evaluate", "writer", pairs, "--baseline", "lead", "--json"))
    assert lead["rouge_l"] < 60
    assert "ROUGE-L" in run("evaluate", "writer", pairs, *model, "--limit", "2")


def test_bad_input_is_one_sentence(
    taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    says = partial(refused, monkeypatch=monkeypatch, capsys=capsys)
    model = ["--model", str(taught / "run")]
    (tmp_path / "empty.txt").write_text(" \n", encoding="utf-8")
    (tmp_path / "a.txt").write_text(PAIRS[0][0], encoding="utf-8")
    text = str(tmp_path / "a.txt")
    assert "There are no words in" in says("title", str(tmp_path / "empty.txt"), *model)
    assert "There is no file" in says("title", str(tmp_path / "none.txt"), *model)
    assert "no language head" in says("write", text, "--model", saved(tmp_path / "encoder"))
    assert "exclude each other" in says("write", text, *model, "--windows", "--n-best", "2")
    assert "leaves no room for a source" in says("write", text, *model, "--length", "46")
    assert "'gamma' is no setting of the method 'beam'" in says("write", text, *model, "--gamma", "0.5")
    assert "no task 'poem'" in says("write", text, *model, "--task", "poem")
    assert "--model, or a baseline" in says("evaluate", "writer", written(tmp_path / "p.jsonl"))
    assert "no baseline 'best'" in says("evaluate", "writer", written(tmp_path / "p.jsonl"), "--baseline", "best")
    (tmp_path / "bad.tsv").write_text("text\ttitle\nonly one\n", encoding="utf-8")
    assert "Line 2 of" in says("evaluate", "writer", str(tmp_path / "bad.tsv"), *model)
    model_with_settings = WritingSettings(training="shifted").put(bert(outputs=("lm",)))
    model_with_settings.config["writing"]["speed"] = 3
    assert "no setting 'speed'" in says("write", text, "--model", saved(tmp_path / "odd", model_with_settings))
