"""Knowledge bases and filling with a memory from the command line and from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from entity_cases import encoder, knowledge, write_facts
from typer.testing import CliRunner

from masquerade import Model, save
from masquerade.cli.main import app
from masquerade.errors import MasqueradeError
from masquerade.memory.entity.facts import FactsAsExperts
from masquerade.memory.entity.networks import parts, with_memory
from masquerade.memory.entity.recall import fill_with_memory


def run(*words: Any) -> str:
    """What a command prints."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def with_facts() -> Model:
    """A network that always reads the one fact that fits best: no fact has a score far below the others."""
    model = with_memory(encoder(), {
        1: ("entities", {"width": 16, "top": 3}), 2: ("facts", {"width": 16, "relation": 16, "top": 1}),
    })  # fmt: skip
    part = next(part for part in parts(model) if isinstance(part, FactsAsExperts))
    torch.nn.init.constant_(part.query.bias, 3.0)
    torch.nn.init.constant_(part.null_key, -9.0)
    return model.eval()


def test_the_answer_follows_a_fact_that_is_changed_or_removed(tmp_path: Path) -> None:
    memory, model = knowledge(tmp_path), with_facts()
    text = "Paris is the capital of [MASK]."
    found = fill_with_memory(model, memory, text)
    blank = found.blanks[0]
    assert blank.no_fact < 1e-3 and blank.facts[0].weight > 0.99 and blank.subject == "Paris"
    subject, relation, thing = blank.facts[0].fact.split(" — ")
    assert blank.answers[0].text == thing and found.text == f"Paris is the capital of {thing}."
    assert [each.text for each in found.links] == ["Paris"]
    memory.change(subject, relation, "Berlin")
    assert fill_with_memory(model, memory, text).blanks[0].answers[0].text == "Berlin"
    memory.remove(subject, relation)
    after = fill_with_memory(model, memory, text).blanks[0]
    assert after.facts[0].fact.split(" — ")[:2] != [subject, relation]
    for name in ("Paris", "Berlin", "Paris, Texas", "北京"):
        memory.remove_entity(name)
    empty = fill_with_memory(model, memory, text).blanks[0]
    assert memory.count() == 0 and empty.no_fact == 1.0 and not empty.facts
    assert not {"Paris", "Berlin"} & {answer.text for answer in empty.answers}  # removed entities are no answers


def test_several_blanks_and_texts_without_names_are_filled(tmp_path: Path) -> None:
    memory, model = knowledge(tmp_path), with_facts()
    found = fill_with_memory(model, memory, "[MASK] [MASK] is in <mask>", top=2)
    assert len(found.blanks) == 2 and found.blanks[0].subject == "" and len(found.blanks[0].answers) == 2
    assert found.text == f"{found.blanks[0].answers[0].text} is in {found.blanks[1].answers[0].text}"
    with pytest.raises(MasqueradeError, match="no \\[MASK\\] to fill"):
        fill_with_memory(model, memory, "Paris")
    with pytest.raises(MasqueradeError, match="no memory between its layers"):
        fill_with_memory(encoder(), memory, "[MASK]")


def test_a_network_without_facts_fills_tokens_and_shows_links(tmp_path: Path) -> None:
    memory = knowledge(tmp_path)
    model = with_memory(encoder(), {1: ("knowbert", {"width": 16})}).eval()
    found = fill_with_memory(model, memory, "Paris is the [MASK].", top=3)
    assert len(found.blanks[0].answers) == 3 and not found.blanks[0].facts
    assert found.links[0].key in ("Q90", "Q830149")


def test_a_knowledge_base_is_built_shown_edited_and_used_from_the_command_line(tmp_path: Path) -> None:
    save(encoder(), tmp_path / "encoder")
    save(with_facts(), tmp_path / "model")
    base, facts = tmp_path / "kb", write_facts(tmp_path / "facts.jsonl")
    built = run("entities", "build", facts, "--model", tmp_path / "encoder", "--out", base)
    assert built.strip().endswith("8 entities, 2 relations, 4 facts")
    assert "P1376  capital of" in run("entities", "show", base)
    assert "Paris — capital of — France" in run("entities", "show", base, "Paris")
    assert run("entities", "find", base, "in 北京。").strip() == "3–5  北京: 北京 100%"
    assert "added Rome — is a — town" in run("entities", "add", base, "Rome", "is a", "town", "--new")
    assert "added Q1  Roma" in run("entities", "add", base, "Roma", "--key", "Q1", "--alias", "Urbs")
    assert "changed Rome — is a — Paris" in run("entities", "edit", base, "Rome", "is a", "Q90")
    assert "changed Q1  Roma" in run("entities", "edit", base, "Q1", "--description", "a city")
    assert "removed 1 of Rome — is a" in run("entities", "remove", base, "Rome", "is a")
    assert "removed Q1" in run("entities", "remove", base, "Q1")
    shown = json.loads(run("entities", "show", base, "Rome", "--json"))
    assert shown["label"] == "Rome" and shown["facts"] == []
    for wrong, message in (
        (("add", base, "Rome", "is a"), "give all three"), (("edit", base, "Rome"), "nothing to change"),
        (("remove", base, "Rome", "is a"), "no such fact"), (("show", tmp_path), "holds no knowledge base"),
    ):  # fmt: skip
        with pytest.raises(MasqueradeError, match=message):
            run("entities", *wrong)
    text = "Paris is the capital of [MASK]."
    filled = json.loads(run("fill", text, "--model", tmp_path / "model", "--memory", base, "--json"))
    answer = filled["blanks"][0]["answers"][0]["text"]
    drawn = tmp_path / "facts.svg"
    printed = run("fill", text, "--model", tmp_path / "model", "--memory", base, "--picture", drawn)
    svg = drawn.read_text(encoding="utf-8")
    assert "Paris → " in svg and filled["blanks"][0]["facts"][0]["fact"] in svg and "no fact" in svg
    assert f"Paris is the capital of {answer}." in printed and "link: Paris →" in printed
    assert filled["blanks"][0]["facts"][0]["fact"] in printed
