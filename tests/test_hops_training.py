"""Training of CogQA: targets from records, the stages, and a run that answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hop_cases import FILMS, paragraphs, record, write_records
from working_cases import encoder

from masquerade import load, save
from masquerade.data.packing import DataCursor, collate
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.memory.working import hop_training
from masquerade.memory.working.cogqa import CogQA
from masquerade.memory.working.hop_graphs import TrainingGraph
from masquerade.memory.working.hop_records import HopRecord, HopTargets, answer_kind, read_hops
from masquerade.memory.working.hop_scores import hop_scores
from masquerade.memory.working.hop_training import HopLoss, HopTraining, TrainSpans, train_stages
from masquerade.memory.working.paragraphs import DictParagraphs
from masquerade.memory.working.pointers import NONE
from masquerade.memory.working.questions import SPAN, WHICH, YES_NO
from masquerade.memory.working.system1 import network_of


def recipe(home: Path, count: int = 12, **changes: Any) -> HopTraining:
    if not (home / "bert").is_dir():
        save(encoder(longest=128), home / "bert")
    values = {
        "start": str(home / "bert"),
        "train": write_records(home / "train.jsonl", count),
        "out": str(home / "run"),
    }
    sizes = {"window": 96, "question": 20, "clues": 24, "length": 96, "row": 192, "batch": 6, "epochs": 1.0}
    return HopTraining(**{**values, **sizes, "graph_epochs": 1.0, **changes})


def test_targets_are_the_hop_the_answer_and_none(tmp_path: Path) -> None:
    held = read_hops(write_records(tmp_path / "x.jsonl", 2, first=1))[0]
    _, film, maker, home = paragraphs(1)
    targets = HopTargets.of(held)
    by_title = {each.title: each for each in targets.gold}
    number, start, end = by_title[film].hops[0]
    assert held.paragraphs[film][number][start:end] == maker and not by_title[film].answers
    number, start, end = by_title[maker].answers[0]
    assert held.paragraphs[maker][number][start:end] == home and not by_title[maker].hops
    assert maker in by_title[maker].clues and not by_title[film].clues
    some = targets.sample(rng_for(1, 1), negatives=2)
    assert [each.title in held.gold for each in some] == [True, True, False, False]
    assert set(targets.others) == set(held.paragraphs) - set(held.gold)


@pytest.mark.parametrize(
    ("question", "answer", "kind"),
    [
        ("Who is older, Bo King or Anna Rome?", "Anna Rome", (WHICH, 0)),
        ("Who is older, Bo King or Anna Rome?", "Bo the Old King", (WHICH, 1)),  # a longer name than the title's
        ("Where did Bo King meet Anna Rome?", "Bo the Old King", (SPAN, -1)),
        ("Who is older, Bo King or Anna Rome?", "1964", (SPAN, -1)),
        ("Are Bo King and Anna Rome old?", "yes", (YES_NO, 1)),
    ],
)
def test_the_kind_of_a_known_answer(question: str, answer: str, kind: tuple[str, int]) -> None:
    held = HopRecord("", question, answer, {}, (), {})
    assert answer_kind(held, ["Bo King", "Anna Rome"]) == kind


def test_records_of_a_paragraph_and_whether_it_is_needed(tmp_path: Path) -> None:
    given = {
        "question": "大城市的导演是谁？",
        "answer": "京海",
        "context": [["大城市", "很大。京海是导演。", True], ["上海", "城市。", False]],
    }
    path = tmp_path / "zh.jsonl"
    path.write_text(json.dumps(given, ensure_ascii=False), encoding="utf-8")
    found = read_hops(str(path))[0]
    assert found.gold == ("大城市",) and found.paragraphs["大城市"] == ("很大。", "京海是导演。")
    assert HopTargets.of(found).gold[0].answers == ((1, 0, 2),)


@pytest.mark.parametrize("bad", [{"question": "a"}, {"question": "a", "answer": "b", "context": [1]}, {"x": []}])
def test_unknown_records_are_one_sentence(tmp_path: Path, bad: dict[str, Any]) -> None:
    (tmp_path / "bad.jsonl").write_text(json.dumps(bad), encoding="utf-8")
    with pytest.raises(MasqueradeError, match="unknown format"):
        read_hops(str(tmp_path / "bad.jsonl"))


def test_pointer_targets_stand_at_the_tokens_of_the_spans(tmp_path: Path) -> None:
    job = TrainSpans(recipe(tmp_path, sentence_numbers=True))
    job.kept = {}
    model = job.begin()[""]
    job.read(model, tmp_path)
    held, number = job.train[1], 1
    _, film, maker, home = paragraphs(1)
    for target in job.targets[number].gold:
        example = job.example(held, target)
        tokens = model.tokenizer.tokens(example.layout.ids.tolist())
        for kind, words in (
            ("hop", maker if target.title == film else ""),
            ("answer", "" if target.title == film else home),
        ):
            start = example.extra[f"pointer {kind} start"].tensor
            assert [tokens[int(at)] for at in (start == 1).nonzero()] == ([words.lower()] if words else [])
            assert float(start[0]) == pytest.approx(0 if words else NONE)
    assert "sentence" in example.extra
    assert not model.stack.between["0"].table.weight.any()  # an encoder begins as it is
    assert model.spec.between[1][0] == "graph"


def test_the_loss_of_packed_questions_is_that_of_each_alone(tmp_path: Path) -> None:
    job = TrainSpans(recipe(tmp_path))
    job.kept = {}
    model = job.begin()[""].eval()
    job.read(model, tmp_path)
    rows, _ = next(job.batches(DataCursor()))
    loss = HopLoss(model)
    with torch.no_grad():
        together = loss(collate(rows))
        alone = [loss(collate([[example]])) for row in rows for example in row]
    for name in ("hops", "answers"):
        assert float(together[name]) == pytest.approx(sum(float(each[name]) for each in alone), rel=1e-4)
    assert loss.counts(rows) == {"hops": len(alone), "answers": len(alone), "graph": 0}


def test_all_stages_learn_to_answer_in_two_steps(tmp_path: Path) -> None:
    given = recipe(
        tmp_path, count=18, epochs=26.0, rate=4e-3, graph_epochs=12.0, graph_rate=3e-3, joint_epochs=1.0,
        joint_rate=1e-4, save_every=1000, none=1.0, warmup=0.05, batch=9, negatives=1,
    )  # fmt: skip
    train_stages(given)
    asked = CogQA.load(tmp_path / "run")
    scores = hop_scores(asked, read_hops(str(tmp_path / "train.jsonl")))
    assert scores["reached"] > 85 and scores["found"] > 70 and scores["f1"] > 75, scores
    spans, graph = load(tmp_path / "run" / "spans"), load(tmp_path / "run" / "graph")
    same = torch.equal(
        spans.state_dict()["stack.layers.0.attention.query.weight"],
        graph.state_dict()["stack.layers.0.attention.query.weight"],
    )
    assert same  # system 2 alone changes no layer of system 1
    assert not torch.equal(network_of(spans).own.weight, network_of(graph).own.weight)
    held, film, maker, home = paragraphs(1)
    found = asked.ask(f"In which city was the director of {film} born?", DictParagraphs(held))
    names = [node.name for node in found.nodes]
    assert film in names and maker in names, names
    with pytest.raises(MasqueradeError, match="already holds a run"):
        train_stages(given)
    train_stages(given, resume=True)  # everything is done already
    assert film in FILMS and record(1)["answer"] == home


def test_graphs_that_were_made_before_a_stop_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, made, whole = recipe(tmp_path), list[str](), hop_training.training_graph

    def stopping(asked: CogQA, question: HopRecord) -> TrainingGraph | None:
        if len(made) == 7:
            raise KeyboardInterrupt
        made.append(question.id)
        return whole(asked, question)

    monkeypatch.setattr(hop_training, "TOGETHER", 3)
    monkeypatch.setattr(hop_training, "training_graph", stopping)
    with pytest.raises(KeyboardInterrupt):
        train_stages(given)
    monkeypatch.setattr(hop_training, "training_graph", lambda *words: made.append(words[1].id) or whole(*words))
    train_stages(given, resume=True)
    assert len(made) == 7 + 12 - 6 and made[6] == made[7]  # six were written
    train_stages(given, resume=True)
    assert len(made) == 13


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"form": "ours"}, "no form 'ours'"),
        ({"window": 40}, "no room for a paragraph"),
        ({"negatives": -1}, "cannot be below 0"),
    ],
)
def test_bad_recipes_are_one_sentence(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MasqueradeError, match=sentence):
        recipe(tmp_path, **changes)
