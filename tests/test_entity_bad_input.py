"""Bad input of entity memories: unknown entities and relations, the window's edge, nothing stored, a kill."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from entity_cases import encoder, knowledge, write_facts

from masquerade import Model
from masquerade.errors import LayoutError, MasqueradeError
from masquerade.masks import bidirectional
from masquerade.memory.entity.examples import LinkedExamples
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.linked_records import LinkedRecord, LinkedSpan
from masquerade.memory.entity.networks import attach, with_memory
from masquerade.memory.entity.recall import fill_with_memory
from masquerade.memory.entity.sources import build
from masquerade.memory.entity.store import KnowledgeStore
from masquerade.memory.entity.vectors import TextVectors

FACTS: dict[int, tuple[str, dict[str, Any]]] = {
    1: ("entities", {"width": 16, "top": 3}), 2: ("facts", {"width": 16, "relation": 16, "top": 2}),
}  # fmt: skip


def network(between: dict[int, tuple[str, dict[str, Any]]]) -> Model:
    torch.manual_seed(4)
    return with_memory(encoder(), between).eval()


def test_a_candidate_that_the_memory_lacks_is_refused_in_a_sentence(tmp_path: Path) -> None:
    memory, model = knowledge(tmp_path), network({1: ("knowbert", {"width": 16})})
    attach(model, memory)
    given = {
        "memory.mentions": torch.tensor([[1, 1]]), "memory.candidates": torch.tensor([[2, 8]]),
        "memory.priors": torch.tensor([[0.5, 0.5]]),
    }  # fmt: skip
    with pytest.raises(LayoutError, match="the candidate 8, but the memory has 8 entities"):
        model.flow(bidirectional([2, 5, 6, 3]), inputs=given)


def test_an_unknown_entity_or_relation_behind_a_blank_has_no_label_and_no_fact(tmp_path: Path) -> None:
    make = LinkedExamples(encoder().tokenizer, knowledge(tmp_path), 32)
    text, paris = "Paris is the capital of [MASK]", (LinkedSpan(0, 5, "Q90"),)
    unknown = LinkedRecord(text, paris, "Q142", 0, "P999")  # the memory has no such relation
    extra = make(unknown, np.random.default_rng(0)).extra
    assert extra["memory.fact"].tensor.tolist() == [0] and extra["memory.answer"].tensor.tolist() != [-100]
    nobody = LinkedRecord(text, (LinkedSpan(0, 5, "Q999"),), "Q998", 0, "P1376")
    extra = make(nobody, np.random.default_rng(0)).extra
    assert extra["memory.fact"].tensor.tolist() == [0] and extra["memory.answer"].tensor.tolist() == [-100]


def test_a_fact_with_an_unknown_relation_changes_nothing(tmp_path: Path) -> None:
    memory = knowledge(tmp_path)
    before = memory.store.version
    for change in (memory.add, memory.change, memory.remove):
        with pytest.raises(MasqueradeError, match=r"no relation 'mayor' in .*; it has capital of, is a"):
            change("Paris", "mayor", "town")  # type: ignore[operator]
    assert memory.count() == 4 and memory.store.version == before


def test_labels_that_are_empty_and_counts_below_one_are_refused(tmp_path: Path) -> None:
    memory = knowledge(tmp_path)
    with pytest.raises(MasqueradeError, match="An entity needs a label"):
        memory.add_entity(" ")
    with pytest.raises(MasqueradeError, match="A relation needs a label"):
        memory.add_relation("")
    assert len(memory) == 8 and len(memory.relations()) == 2
    for count in (-1, 0, "many"):
        source = write_facts(tmp_path / "counts.jsonl", [{"label": "Rome", "aliases": {"Roma": count}}])
        with pytest.raises(MasqueradeError, match=r"Record 1 of .* is no fact"):
            build([str(source)], tmp_path / "other", TextVectors(encoder()))


def test_a_blank_behind_the_window_is_refused_and_names_at_its_edge_are_left_out(tmp_path: Path) -> None:
    memory, model = knowledge(tmp_path), network(FACTS)  # it reads 32 tokens
    with pytest.raises(MasqueradeError, match="comes after the 32 tokens"):
        fill_with_memory(model, memory, "in " * 40 + "[MASK]")
    edge = "Paris is in [MASK] " + "in " * 25 + "Paris, Texas"  # the window ends inside of the last name
    found = fill_with_memory(model, memory, edge)
    assert [each.text for each in found.links] == ["Paris"] and len(found.blanks) == 1
    inside = fill_with_memory(model, memory, "in " * 26 + "[MASK] Paris")
    assert [each.text for each in inside.links] == ["Paris"] and inside.text.endswith("Paris")


def test_overlapping_names_are_one_mention_the_first_and_longest(tmp_path: Path) -> None:
    memory, model = knowledge(tmp_path), network(FACTS)
    memory.add_entity("Texas")
    found = fill_with_memory(model, memory, "Paris, Texas is a [MASK].")
    assert [each.text for each in found.links] == ["Paris, Texas"]
    record = LinkedRecord(  # linked mentions may overlap
        "Paris, Texas is a [MASK]", (LinkedSpan(0, 12, "Q830149"), LinkedSpan(7, 12, "Texas")), "Q3957", 0, "P31"
    )
    example = LinkedExamples(encoder().tokenizer, memory, 32)(record, np.random.default_rng(0))
    assert example.extra["memory.mentions"].tensor.tolist() == [[1, 3], [3, 3]]


@pytest.mark.parametrize("kind", ["facts", "knowbert"])
def test_a_memory_without_entities_fills_blanks_without_nan(kind: str, tmp_path: Path) -> None:
    memory = knowledge(tmp_path)
    for number in range(len(memory)):
        memory.remove_entity(number)
    assert len(memory) == 0 and memory.count() == 0
    model = network(FACTS if kind == "facts" else {1: ("knowbert", {"width": 16})})
    found = fill_with_memory(model, memory, "Paris is the capital of [MASK].")
    assert found.links == [] and found.blanks[0].facts == []
    if kind == "facts":
        assert found.blanks[0].answers == [] and found.blanks[0].no_fact == 1.0
    else:
        assert all(0.0 <= answer.probability <= 1.0 for answer in found.blanks[0].answers)


def test_a_knowledge_base_of_entities_without_facts_is_read(tmp_path: Path) -> None:
    source = write_facts(tmp_path / "entities.jsonl", [{"id": "Q90", "label": "Paris"}])
    memory = build([str(source)], tmp_path / "kb", TextVectors(encoder()))
    blank = fill_with_memory(network(FACTS), memory, "Paris is in [MASK].").blanks[0]
    assert blank.no_fact == 1.0 and [answer.text for answer in blank.answers] == ["Paris"]
    assert blank.answers[0].probability == 1.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_kill_inside_of_a_change_keeps_nothing_of_it_and_blocks_nobody(tmp_path: Path) -> None:
    knowledge(tmp_path).close()
    child = os.fork()
    if not child:
        with KnowledgeStore(tmp_path / "kb").change() as connection:
            connection.execute("DELETE FROM fact")
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    memory = FactMemory(tmp_path / "kb")
    assert memory.count() == 4 and memory.store.value("PRAGMA integrity_check") == "ok"
    memory.add("Germany", "is a", "town")
    assert memory.count() == 5
