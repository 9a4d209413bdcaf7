"""Encoders learn to find: from questions with hard negatives, and from texts alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from collection_cases import tiny_encoder, write_folder
from typed import refused, run

from masquerade import Encoder
from masquerade.data.packing import DataCursor, collate
from masquerade.data.rng import rng_for
from masquerade.memory.retrieval.encoder_training import EncoderTraining, TrainEncoder, unpacked
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.pooling import Pooling
from masquerade.memory.retrieval.training_pairs import (
    NOTHING,
    inverse_cloze,
    negatives_by_vectors,
    negatives_by_words,
    question_pairs,
    sentences,
)
from masquerade.reading.records import read_questions

CONTEXTS = {
    "The bakery in Mill Street sells rye bread.": [("What does the bakery sell?", "rye bread")],
    "The lighthouse is 34 metres high.": [("How high is the lighthouse?", "34 metres")],
    "Queen Ingrid opened the harbour.": [("Who opened the harbour?", "Queen Ingrid")],
    "The harbour was closed by Olaf Lund.": [("Who closed the harbour?", "Olaf Lund")],
    "赵州桥由李春设计建造。": [("赵州桥由谁设计？", "李春")],
    "赵州桥长五十米。": [("赵州桥长多少米？", "五十米")],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    tiny_encoder(folder / "start", pooling=Pooling("mean", query="q: "))
    lines = [
        json.dumps({"context": context, "question": asked, "answers": [answer]}, ensure_ascii=False)
        for context, pairs in CONTEXTS.items()
        for asked, answer in pairs
    ]
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_folder(folder / "texts")
    return folder


def recipe(place: Path, out: str, **changes: object) -> EncoderTraining:
    given = {
        "start": str(place / "start"), "train": str(place / "questions.jsonl"), "out": str(place / out), "length": 40,
        "row": 64, "group": 3, "batch": 6, "epochs": 1.0, "rate": 0.01, "warmup": 0.0, "precision": "float32",
    }  # fmt: skip
    return EncoderTraining(**{**given, **changes})  # type: ignore[arg-type]


def job(place: Path, **changes: object) -> TrainEncoder:
    made = TrainEncoder(recipe(place, "job", **changes))
    made.kept = {}
    networks = made.begin()
    made.read(networks[""], place)
    made.loss_module = made.loss(networks)  # type: ignore[attr-defined]
    return made


def test_negatives_by_words_share_words_but_not_the_answer(place: Path) -> None:
    data = question_pairs(read_questions(str(place / "questions.jsonl")), place / "passages.jsonl")
    found = negatives_by_words(data, place / "passages.jsonl", place / "words", 3)
    asked = [pair.query for pair in data.pairs].index("Who closed the harbour?")
    first = data.passages[found[asked, 0]]
    assert "opened the harbour" in first and data.pairs[asked].passage not in found[asked]
    bridge = [pair.query for pair in data.pairs].index("赵州桥长多少米？")
    assert "李春" in data.passages[found[bridge, 0]] and found[bridge, -1] == NOTHING
    for query, answer in (("Who closed the harbour?", "harbour"), ("赵州桥长多少米？", "李春")):
        row = [pair.query for pair in data.pairs].index(query)
        told = replace(data, pairs=[replace(each, answers=(answer,)) for each in data.pairs])
        held = negatives_by_words(told, place / "passages.jsonl", place / "words", 3)[row].tolist()
        assert not any(answer in data.passages[number] for number in held if number != NOTHING)


def test_negatives_by_vectors_are_the_nearest_wrong_passages(place: Path) -> None:
    data = question_pairs(read_questions(str(place / "questions.jsonl")))
    encoder = Encoder.load(place / "start")
    found = negatives_by_vectors(data, encoder, 2)
    scores = encoder.encode_queries([each.query for each in data.pairs]) @ encoder.encode_passages(data.passages).T
    for row, pair in enumerate(data.pairs):
        scores[row, pair.passage] = -9
        for number, passage in enumerate(data.passages):
            if any(f" {answer.lower()} " in f" {passage.lower().strip('.')} " for answer in pair.answers):
                scores[row, number] = -9
        assert found[row].tolist() == scores[row].topk(2).indices.tolist()


def test_the_loss_is_cross_entropy_over_the_passages_of_each_group(place: Path) -> None:
    made = job(place, hard=1)
    rows, _ = next(made.batches(DataCursor()))
    loss = made.loss_module.eval()  # type: ignore[attr-defined]
    assert loss.counts(rows) == {"queries": 6} and len(rows) == 2
    batch = collate(rows)
    with torch.no_grad():
        together = float(loss(batch)["queries"])
        alone = sum(float(loss(collate([row]))["queries"]) for row in rows)
    assert together == pytest.approx(alone, abs=1e-4)
    encoder, expected = Encoder(loss.model, made.pooling), 0.0
    for row in rows:
        texts = [encoder.model.tokenizer.decode(ids) for ids, _ in unpacked(collate([row]).layout)]
        targets = [int(each.extra["encoder.target"].tensor) for each in row]
        asks = [number for number, target in enumerate(targets) if target != NOTHING]
        others = [number for number in range(len(targets)) if number not in asks]
        assert len(asks) == 3 and len(others) == len(set(map(texts.__getitem__, others))) > 3
        vectors = encoder.encode(texts)
        for number in asks:
            logits = vectors[others] @ vectors[number] / 0.05
            expected -= float(logits.log_softmax(-1)[targets[number]])
    assert together == pytest.approx(expected, rel=1e-3)
    loss(batch)["queries"].backward()
    assert float(loss.model.words.table.weight.grad.abs().sum()) > 0


def test_frozen_layers_and_embeddings_stay_and_the_others_learn(place: Path) -> None:
    made = job(place, frozen=1)
    rows, _ = next(made.batches(DataCursor()))
    made.loss_module(collate(rows))["queries"].backward()  # type: ignore[attr-defined]
    model = made.loss_module.model  # type: ignore[attr-defined]
    learn = {name.split(".")[2] if "layers" in name else name for name, each in model.named_parameters()
             if each.grad is not None and bool(each.grad.any())}  # fmt: skip
    assert learn == {"1"} and model.spec.attention_dropout == 0


def test_neighbours_stay_together_and_share_passages_and_hard_negatives(place: Path) -> None:
    made = job(place, hard=1, group=6, neighbours=2)
    orders = [made._order(epoch) for epoch in range(4)]
    assert all(sorted(order) == list(range(6)) for order in orders) and len(set(map(tuple, orders))) > 1
    assert all(order[at] % 2 == 0 and order[at + 1] == order[at] + 1 for order in orders for at in (0, 2, 4))
    pairs = [made._pair(rng_for(0), number) for number in (0, 1, 2)]
    alike = [(query, pairs[0][1], pairs[0][2], [number]) for (query, *_), number in zip(pairs, (3, 4, 5), strict=True)]
    row = made._row(alike, made.data)  # three queries of one passage: it and one hard negative, that of the first
    assert len(row) == 5 and [int(each.extra["encoder.target"].tensor[0]) for each in row[:3]] == [0, 0, 0]


def test_inverse_cloze_takes_one_sentence_out_in_both_languages() -> None:
    for text in ("One is here. Two is there! Three?", "赵州桥建于隋朝。由李春设计建造。桥长五十米。"):
        assert len(sentences(text)) == 3
        seen = set()
        for seed in range(30):
            query, rest = inverse_cloze(text, 0.0, rng_for(seed))
            assert query in text and query not in rest and len(query) + len(rest) >= len(text) - 2
            seen.add(query)
        assert len(seen) == 3
        assert inverse_cloze(text, 1.0, rng_for(0))[1] == text


def test_the_command_trains_with_mined_negatives_resumes_and_its_encoder_indexes(place: Path) -> None:
    words = (
        f"start={place / 'start'}", f"train={place / 'questions.jsonl'}", f"held_out={place / 'questions.jsonl'}",
        f"out={place / 'run'}", "length=40", "row=64", "group=6", "batch=6", "epochs=80", "rate=0.01", "warmup=0.0",
        "precision=float32", "mine_every=30", "save_every=40", "evaluate_every=80", "candidates=3",
    )  # fmt: skip
    run("train", "encoder", "encoder", *words)
    log = [json.loads(line) for line in (place / "run" / "log.jsonl").read_text().splitlines()]
    scored = [entry for entry in log if "held_out" in entry]
    assert scored[-1]["held_out"] < 0.5 * scored[0]["held_out"]
    assert scored[-1]["recall_1"] > scored[0]["recall_1"]
    encoder = Encoder.load(place / "run")
    assert encoder.pooling == Pooling("mean", query="q: ")
    last = encoder.model.words.table.weight.clone()
    for path in (place / "run" / "step-80").iterdir():
        path.unlink()
    (place / "run" / "step-80").rmdir()  # as if it had been killed; the negatives were mined before that
    run("train", "encoder", "encoder", *words, "--resume")
    assert torch.equal(Encoder.load(place / "run").model.words.table.weight, last)
    with KnowledgeBase.open(place / "kb", str(place / "run"), create=True) as kb:
        kb.update([str(place / "texts")])
        assert kb.search("harbour", dense=1.0)


def test_inverse_cloze_learns_from_texts_alone(place: Path) -> None:
    texts = place / "texts"
    made = TrainEncoder(recipe(place, "cloze", task="cloze", train=str(texts), held_out=(str(texts),), epochs=40))
    from masquerade.training.loop import Run

    Run(made).train()
    log = [json.loads(line) for line in (place / "cloze" / "log.jsonl").read_text().splitlines()]
    scored = [entry["held_out"] for entry in log if "held_out" in entry]
    assert scored[-1] < 0.7 * scored[0]


def test_recipes_that_cannot_be_are_one_sentence(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = (f"start={place / 'start'}", f"train={place / 'questions.jsonl'}", f"out={place / 'none'}", "held_out=[]")
    for words, said in (
        (("task=cloze",), "Inverse cloze has no hard negatives"),
        (("temperature=0.0",), "above 0"),
        (("pooling=max",), "There is no pooling 'max'"),
        (("neighbours=5",), "has to divide 'group'"),
        (("frozen=3", "hard=0", "mine_every=0"), "no 3 layers"),
    ):
        assert said in refused("train", "encoder", "encoder", *base, *words, monkeypatch=monkeypatch, capsys=capsys)
