"""Texts with several labels: read, trained, predicted and scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner
from working_cases import encoder

from masquerade import load, save
from masquerade.cli.main import app
from masquerade.errors import MasqueradeError
from masquerade.labelling.classifier import Classifier
from masquerade.labelling.records import read_classified
from masquerade.labelling.scores import label_set_scores
from masquerade.labelling.training import TrainClassifier
from masquerade.training.loop import Run
from masquerade.training.recipe import FineTuning

RECORDS = [
    {"text": "a good film", "labels": ["film", "good"]},
    {"text": "a bad play", "labels": ["play"]},
    {"text": "the good play is 很大", "labels": ["good", "play"]},
    {"text": "the river", "labels": []},
] * 6


def test_lists_and_separated_fields_mean_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x", "labels": ["a", "b"]}\n{"text": "y", "labels": []}\n')
    (tmp_path / "b.tsv").write_text("text\tlabel\nx\ta|b\ny\t\n")
    for name in ("a.jsonl", "b.tsv"):
        assert [each.labels for each in read_classified(str(tmp_path / name))] == [("a", "b"), ()]


def test_scores_of_label_sets_by_hand() -> None:
    scores = label_set_scores([{"a"}, {"a", "b"}, set()], [{"a"}, {"b"}, set()])
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["micro_f1"] == pytest.approx(2 * 2 / (3 + 2))
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 1) / 2)


def test_a_classifier_learns_several_labels_and_is_saved_with_them(tmp_path: Path) -> None:
    save(encoder(), tmp_path / "bert")
    train = tmp_path / "train.jsonl"
    train.write_text("".join(json.dumps(each) + "\n" for each in RECORDS))
    plain = {"start": str(tmp_path / "bert"), "train": str(train), "held_out": str(train), "out": str(tmp_path / "run")}
    recipe = FineTuning(**plain, several=True, epochs=40, batch=8, rate=5e-3, row=64, length=32)  # type: ignore[arg-type]
    Run(TrainClassifier(recipe)).train()
    found = Classifier(load(tmp_path / "run"))
    assert found.several
    predictions = found(["a good film", "the river"])
    assert [each.label for each in predictions] == ["film|good", ""]
    assert found.evaluate(read_classified(str(train)))[0]["micro_f1"] == 1.0
    done = CliRunner().invoke(app, ["classify", "--model", str(tmp_path / "run"), "the river", "a good film"])
    assert "none" in done.stdout and "film|good" in done.stdout


def test_several_labels_and_numbers_exclude_each_other() -> None:
    with pytest.raises(MasqueradeError, match="'several' or 'regression'"):
        FineTuning(train="a", out="b", start="c", several=True, regression=True)
