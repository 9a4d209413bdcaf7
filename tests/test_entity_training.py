"""Training a network with a memory: records, examples, losses, and a run from a recipe."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from entity_cases import encoder, knowledge

from masquerade import load, save
from masquerade.data.packing import collate
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE
from masquerade.masks import bidirectional
from masquerade.memory.entity.examples import LinkedExamples, batch_inputs
from masquerade.memory.entity.linked_records import LinkedRecord, LinkedSpan, read_linked
from masquerade.memory.entity.networks import attach, parts, with_memory
from masquerade.memory.entity.recall import fill_with_memory
from masquerade.memory.entity.sources import Gathered
from masquerade.memory.entity.training import EntityTraining, TrainEntities, linked_examples, score_examples
from masquerade.training.loop import Run

CAPITALS = [("Paris", "Q90", "Q142"), ("Berlin", "Q64", "Q183"), ("北京", "Q956", "Q148")]
TREX = [
    {"predicate": "P1376", "sub_uri": key, "sub_label": name, "obj_uri": thing, "obj_label": "…",
     "evidences": [{"masked_sentence": f"{name} is the capital of [MASK].", "sub_surface": name, "obj_surface": "…"}]}
    for name, key, thing in CAPITALS
]  # fmt: skip
LINKED = {"text": "Berlin is a city in Germany", "mentions": [
    {"start": 0, "end": 6, "id": "Q64"}, {"start": 20, "end": 27, "id": "Q183"}], "relation": "P1376"}  # fmt: skip


def lines(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return str(path)


def test_published_records_become_linked_texts(tmp_path: Path) -> None:
    shown = {**TREX[0], "evidences": [
        {"masked_sentence": "Paris, France: Paris is in [MASK].", "sub_surface": "Paris", "obj_surface": "France"},
        {"masked_sentence": "It is in [MASK].", "sub_surface": "Paris", "obj_surface": "France"},
    ]}  # fmt: skip
    fewrel = {"relation": "P1376", "tokens": ["Berlin", "is", "in", "Germany", "."],
              "subject": {"id": "Q64", "spans": [[0, 0]]}, "object": {"id": "Q183", "spans": [[3, 3]]}}  # fmt: skip
    records = read_linked(lines(tmp_path / "all.jsonl", [TREX[0], shown, fewrel, LINKED]))
    assert records[0] == LinkedRecord(
        "Paris is the capital of [MASK].", (LinkedSpan(0, 5, "Q90"),), "Q142", 0, "P1376")  # fmt: skip
    assert len(records) == 3  # sentences that show the object or no subject are left out
    assert [records[1].text[each.start : each.end] for each in records[1].mentions] == ["Berlin", "Germany"]
    with pytest.raises(MasqueradeError, match=r"Record 1 of .* is no linked text"):
        read_linked(lines(tmp_path / "wrong.jsonl", [{"text": "x"}]))


def test_an_example_names_mentions_candidates_and_the_fact_behind_its_blank(tmp_path: Path) -> None:
    memory, tokenizer = knowledge(tmp_path), encoder().tokenizer
    make = LinkedExamples(tokenizer, memory, 32)
    record = LinkedRecord("Paris is the capital of [MASK] and Rome", (LinkedSpan(0, 5, "Q90"),), "Q142", 0, "P1376")
    extra = {name: value.tensor for name, value in make(record, np.random.default_rng(0)).extra.items()}
    number = memory.entity
    assert extra["memory.mentions"].tolist() == [[1, 1]] and extra["memory.blanks"].tolist() == [[6, 6]]
    assert extra["memory.subjects"].tolist() == [[1, 1]]
    assert extra["memory.gold"].tolist() == [number("Q90").number] and extra["memory.gold_candidate"].tolist() == [0]
    assert extra["memory.answer"].tolist() == [number("Q142").number]
    row = memory.row(number("Q90").number, memory.relation("P1376").number)
    assert row is not None and extra["memory.fact"].tolist() == [row + 1]
    memory.remove("Q90", "P1376")
    unknown = replace(record, answer="Q0", mentions=(LinkedSpan(0, 5, "Q1"),))  # entities that the memory lacks
    extra = {name: value.tensor for name, value in make(unknown, np.random.default_rng(0)).extra.items()}
    assert extra["memory.fact"].tolist() == [0] and extra["memory.answer"].tolist() == [IGNORE]
    assert extra["memory.gold"].tolist() == [IGNORE] and extra["memory.gold_candidate"].tolist() == [IGNORE]


def test_masked_mentions_are_blanks_and_tokens_to_predict(tmp_path: Path) -> None:
    memory, tokenizer = knowledge(tmp_path), encoder().tokenizer
    (record,) = read_linked(lines(tmp_path / "one.jsonl", [LINKED]))
    example = LinkedExamples(tokenizer, memory, 32, masked=1.0)(record, np.random.default_rng(0))
    mask = tokenizer.special("mask")
    assert (example.layout.ids == mask).sum() == 2 and (example.layout.label != IGNORE).sum() == 2
    assert example.extra["memory.blanks"].tensor.tolist() == example.extra["memory.mentions"].tensor.tolist()
    assert example.extra["memory.subjects"].tensor.tolist() == example.extra["memory.blanks"].tensor.flip(0).tolist()
    nothing = LinkedExamples(tokenizer, memory, 32, masked=1.0)(LinkedRecord("a city"), np.random.default_rng(0))
    batch = collate([[nothing, example], [nothing]])  # examples without mentions go with the others
    assert batch.layout.ids.flatten()[batch.extra["memory.mentions"]].tolist() == [[mask, mask]] * 2
    assert batch.extra["memory.candidates"].shape[0] == 2


@torch.no_grad()
def test_a_forgotten_fact_is_not_read_and_its_label_is_none(tmp_path: Path) -> None:
    memory, plain = knowledge(tmp_path), encoder()
    options: dict[str, Any] = {"width": 16, "relation": 16, "top": 2}
    model = with_memory(plain, {2: ("facts", options)}).eval()
    attach(model, memory, start=True)
    record = read_linked(lines(tmp_path / "one.jsonl", TREX[:1]))[0]
    shown, hidden = (linked_examples(model, memory, [record], 32, forgotten=share)[0] for share in (0.0, 1.0))
    fact = int(shown.extra["memory.fact"].tensor)
    assert (
        fact > 0 and int(hidden.extra["memory.hidden"].tensor) == fact and not hidden.extra["memory.fact"].tensor.any()
    )
    read, unread = (
        model.flow(batch.layout, inputs=batch_inputs(batch.extra)).outputs
        for batch in (collate([[shown]]), collate([[hidden]]))
    )
    assert unread["memory.fact_scores"][0, fact] < -1e30 and read["memory.fact_scores"][0, fact] > -1e30
    assert torch.equal(read["memory.fact_scores"][0, 0], unread["memory.fact_scores"][0, 0])
    assert unread["memory.answers"].isfinite().all()


@pytest.mark.parametrize("kind", ["plain", "knowbert", "entities", "facts"])
def test_a_recipe_trains_every_kind_of_memory_to_answer(kind: str, tmp_path: Path) -> None:
    memory = knowledge(tmp_path)
    save(encoder(), tmp_path / "encoder")
    train = lines(tmp_path / "train.jsonl", [*TREX, LINKED])
    recipe = EntityTraining(
        train=(train,), held_out=(train,), out=str(tmp_path / "run"), start=str(tmp_path / "encoder"),
        memory=str(tmp_path / "kb"), kind=kind, margin=0.2 if kind == "knowbert" else 0.0, trained=kind == "entities",
        length=32, row=32, batch=4, epochs=80, rate=1e-2, save_every=80, evaluate_every=80, precision="float32",
        forgotten=0.0,
    )  # fmt: skip
    job = TrainEntities(recipe)
    Run(job).train()
    model = load(tmp_path / "run")
    attach(model, memory)
    scores = score_examples(model, job.examples, 32)
    assert scores["answer_accuracy"] == 1.0
    assert ("link_accuracy" in scores) == (kind != "plain")
    found = fill_with_memory(model, memory, "Paris is the capital of [MASK].")
    assert found.blanks[0].answers[0].text == "France"
    if kind == "facts":
        assert found.blanks[0].facts[0].fact == "Paris — capital of — France" and found.blanks[0].no_fact < 0.5
        memory.change("Q90", "capital of", "town")  # the answer follows without training
        assert fill_with_memory(model, memory, "Paris is the capital of [MASK].").blanks[0].answers[0].text == "town"
    else:
        assert not found.blanks[0].facts


def test_a_new_memory_begins_with_the_products_of_states_and_the_encoders_own_vectors(tmp_path: Path) -> None:
    memory, plain = knowledge(tmp_path), encoder()
    options: dict[str, Any] = {"width": 16, "relation": 16, "top": 1}
    model = with_memory(plain, {2: ("facts", options), 0: ("entities", {"width": 16})}).eval()
    attach(model, memory, start=True)
    layout, span = bidirectional([2, 5, 6, 4, 3]).batched(), torch.tensor([[1, 2]])
    inputs = {"memory.mentions": span, "memory.blanks": torch.tensor([[3, 3]]), "memory.subjects": span}
    flow = model.flow(layout, inputs=inputs)
    before = plain.embed(layout)[0]
    linked = ((before[1] + before[2]) / 2 - memory.centre) @ memory.vectors().T
    torch.testing.assert_close(flow.outputs["memory.entity_scores"][0], linked)
    subjects, relations = memory.fact_tensors()[0].T
    keys = memory.vectors()[subjects] + memory.relation_vectors()[relations]
    scores = keys @ ((flow.states[0, 1] + flow.states[0, 2]) / 2 - memory.centre)
    blank = parts(model)[1].query.weight[:, :32] @ flow.states[0, 3].repeat(2)  # type: ignore[union-attr]
    torch.testing.assert_close(flow.outputs["memory.fact_scores"][0, 1:], scores + keys @ blank)


def test_a_frozen_run_trains_the_memory_alone_and_the_next_goes_on_from_it(tmp_path: Path) -> None:
    knowledge(tmp_path)
    plain = encoder()
    save(plain, tmp_path / "encoder")
    settings: dict[str, Any] = {
        "train": (lines(tmp_path / "train.jsonl", [LINKED]),), "memory": str(tmp_path / "kb"), "kind": "knowbert",
        "length": 32, "row": 32, "epochs": 3, "rate": 1e-2, "precision": "float32",
    }  # fmt: skip
    first = EntityTraining(out=str(tmp_path / "one"), start=str(tmp_path / "encoder"), frozen=True, **settings)
    Run(TrainEntities(first)).train()
    model = load(tmp_path / "one")
    for name, weight in plain.state_dict().items():
        assert torch.equal(weight, model.state_dict()[name]), name
    Run(TrainEntities(EntityTraining(out=str(tmp_path / "two"), start=str(tmp_path / "one"), **settings))).train()
    after = load(tmp_path / "two")
    assert len(parts(after)) == 2 and not torch.equal(after.words.table.weight, plain.words.table.weight)


def test_recipes_without_a_knowledge_base_or_of_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"train": ("x",), "out": "o", "start": "s"}
    for more, message in (
        ({}, "lacks the knowledge base"), ({"memory": "kb", "kind": "ernie"}, "no memory of the kind 'ernie'"),
        ({"memory": "kb", "masked": 2.0}, "from 0 to 1"),
    ):  # fmt: skip
        with pytest.raises(MasqueradeError, match=message):
            EntityTraining(**settings, **more)


REAL = Path(__file__).parents[2] / "shared" / "data"


@pytest.mark.data
@pytest.mark.skipif(not (REAL / "facts").is_dir(), reason="the facts of ../shared/data are not here")
def test_real_facts_and_sentences_are_read() -> None:
    born = read_linked(str(REAL / "facts" / "trex" / "P19.jsonl"))
    assert len(born) > 500 and all(record.text.count("[MASK]") == 1 and record.subject == 0 for record in born)
    sentences = read_linked(str(REAL / "entities" / "fewrel-sentences.jsonl"))
    assert len(sentences) == 11_200 and all(len(record.mentions) == 2 for record in sentences)
    gathered = Gathered.of([str(REAL / "facts" / "relations.json"), str(REAL / "facts" / "trex" / "P19.jsonl")])
    assert gathered.relations["P19"] == "place of birth" and len(gathered.facts) > 900
