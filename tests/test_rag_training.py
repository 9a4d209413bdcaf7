"""RAG is trained from a recipe and used from the command line; both of its networks learn, the passages' do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from collection_cases import tiny_encoder, write_folder
from typed import refused, run

from masquerade import load, save
from masquerade.data.packing import DataCursor, collate
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.rag import Rag
from masquerade.memory.retrieval.rag_training import RagTraining, TrainRag

QUESTIONS = [
    ("Who opened the harbour?", "Queen Ingrid"),
    ("What does the bakery sell?", "rye bread"),
    ("谁设计了赵州桥？", "李春"),
    ("How high is the lighthouse?", "34"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rag")
    write_folder(folder / "texts")
    encoder = tiny_encoder(folder / "encoder")
    with KnowledgeBase.open(folder / "kb", str(encoder), create=True) as kb:
        kb.update([str(folder / "texts")])
    writer = load(encoder).with_heads(("lm",))
    torch.manual_seed(3)
    for weight in writer.parameters():
        torch.nn.init.normal_(weight, std=0.05) if weight.dim() > 1 else None
    save(writer, folder / "writer")
    lines = [json.dumps({"question": asked, "answers": [answer]}, ensure_ascii=False) for asked, answer in QUESTIONS]
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def recipe(place: Path, out: str, **changes: object) -> RagTraining:
    given = {
        "start": str(place / "writer"), "kb": str(place / "kb"), "train": str(place / "questions.jsonl"),
        "out": str(place / out), "documents": 2, "length": 40, "row": 64, "answer": 8, "batch": 2, "epochs": 1.0,
        "rate": 3e-3, "warmup": 0.0, "precision": "float32",
    }  # fmt: skip
    return RagTraining(**{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["sequence", "token"])
@pytest.mark.parametrize("frame", ["prefix", "shifted"])
def test_gradients_reach_the_writer_and_the_question_encoder(place: Path, kind: str, frame: str) -> None:
    job = TrainRag(recipe(place, "unused", kind=kind, frame=frame))
    networks = job.begin()
    job.read(networks[""], place)
    loss = job.loss(networks)
    rows, _ = next(job.batches(DataCursor()))
    together = loss(collate(rows))["answers"]
    together.backward()
    assert all(float(network.words.table.weight.grad.abs().sum()) > 0 for network in networks.values())  # type: ignore
    loss.eval()
    with torch.no_grad():
        alone = sum(float(loss(collate([row]))["answers"]) for row in rows)
        assert float(loss(collate(rows))["answers"]) == pytest.approx(alone, abs=1e-4)


def test_a_frozen_question_encoder_gets_no_gradients(place: Path) -> None:
    job = TrainRag(recipe(place, "unused", frozen=True))
    networks = job.begin()
    job.read(networks[""], place)
    loss = job.loss(networks)
    rows, _ = next(job.batches(DataCursor()))
    loss(collate(rows))["answers"].backward()
    assert networks[""].words.table.weight.grad is not None
    assert all(weight.grad is None for weight in networks["question"].parameters())


def test_the_command_trains_resumes_and_answers(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = place / "rag.toml"
    toml.write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in {
        "start": str(place / "writer"), "kb": str(place / "kb"), "train": [str(place / "questions.jsonl")],
        "held_out": [str(place / "questions.jsonl")], "out": str(place / "run"), "documents": 2, "length": 40,
        "row": 64, "answer": 8, "batch": 4, "epochs": 12, "rate": 0.01, "warmup": 0.0, "precision": "float32",
        "frame": "shifted",
    }.items()), encoding="utf-8")  # fmt: skip
    run("train", "rag", toml)
    log = [json.loads(line) for line in (place / "run" / "log.jsonl").read_text().splitlines()]
    scored = [entry["held_out"] for entry in log if "held_out" in entry]
    assert scored[-1] < 0.8 * scored[0]
    said = json.loads(
        run("ask", QUESTIONS[2][0], "--kb", place / "kb", "--rag", place / "run", "--json", "--n-best", 2)
    )
    assert len(said["answers"]) == 2 and len(said["passages"]) == 2
    assert sum(each["probability"] for each in said["passages"]) == pytest.approx(1)
    assert "most probable passage" in run(
        "ask", QUESTIONS[0][0], "--kb", place / "kb", "--rag", place / "run", "--trace"
    )
    with KnowledgeBase.open(place / "kb") as kb:
        rag = Rag.load(place / "run", kb)
        assert sum(rag.classify(QUESTIONS[0][0], ["q", "r", "3"]).values()) == pytest.approx(1)
        before, after = kb.encoder.model, rag.question.model
        assert not torch.equal(before.words.table.weight, after.words.table.weight)
    words = ("ask", "Who?", "--kb", place / "kb", "--rag", place / "encoder")
    assert "no run of" in refused(*words, monkeypatch=monkeypatch, capsys=capsys)
    assert "--kb" in refused("ask", "Who?", "--rag", place / "run", monkeypatch=monkeypatch, capsys=capsys)


def test_a_label_of_one_token_has_one_probability_under_both_kinds(place: Path) -> None:
    from dataclasses import replace

    with KnowledgeBase.open(place / "kb") as kb:
        found = []
        for kind in ("sequence", "token"):
            settings = replace(recipe(place, "unused").settings(), kind=kind, frame="prefix")
            rag = Rag(load(place / "writer").eval(), kb.encoder, kb, settings)
            found.append(rag.classify("赵州桥在哪里？", ["桥", "隋", "a"]))
        assert found[0] == pytest.approx(found[1], abs=1e-6) and list(found[0]) == list(found[1])
