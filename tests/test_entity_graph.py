"""Vectors from the graph of facts: TransE and DistMult, alone and as the vectors of a knowledge base."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from entity_cases import encoder, write_facts
from torch import Tensor
from typer.testing import CliRunner

from masquerade import save
from masquerade.cli.main import app
from masquerade.errors import MasqueradeError
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.graph_vectors import GRAPHS, GraphVectors, train_graph
from masquerade.memory.entity.sources import build
from masquerade.memory.entity.vectors import TextVectors

PEOPLE, CITIES, COUNTRIES, WIDTH = 48, 12, 4, 16
BORN, IN, CITIZEN = 0, 1, 2
ENTITIES = PEOPLE + CITIES + COUNTRIES
each_graph = pytest.mark.parametrize("kind", GRAPHS)


def toy() -> tuple[Tensor, Tensor]:
    """Facts to train on and facts to find: people are born in cities, which are in countries, of which the people are
    citizens. The citizenship of every fourth person is to be found."""
    train, held = [], []
    for city in range(CITIES):
        train.append([PEOPLE + city, IN, PEOPLE + CITIES + city % COUNTRIES])
    for person in range(PEOPLE):
        city = person % CITIES
        train.append([person, BORN, PEOPLE + city])
        citizen = [person, CITIZEN, PEOPLE + CITIES + city % COUNTRIES]
        (held if person // CITIES == 0 else train).append(citizen)
    return torch.tensor(train), torch.tensor(held)


def trained(kind: str, seed: int = 1) -> GraphVectors:
    start = torch.randn(ENTITIES + 1, WIDTH, generator=torch.Generator().manual_seed(2))  # the last has no facts
    return train_graph(kind, start, 3, toy()[0], epochs=100, batch=64, negatives=32, seed=seed)


def ranks(vectors: GraphVectors, facts: Tensor) -> Tensor:
    """How many entities score above the right object of facts (m, 3): (m,)"""
    scores = vectors.scores(facts[:, 0], facts[:, 1])
    return (scores > scores.gather(1, facts[:, 2:])).sum(1)


@each_graph
def test_true_objects_rank_above_random_ones_also_of_facts_that_were_not_trained(kind: str) -> None:
    vectors, (train, held) = trained(kind), toy()
    assert ranks(vectors, train).float().mean() < 1.0  # of 64 others; by chance 32
    assert ranks(vectors, held).float().mean() < 16.0
    assert vectors.entities.shape == (ENTITIES + 1, WIDTH) and vectors.relations.shape == (3, WIDTH)


@each_graph
def test_scores_are_those_of_the_published_definitions(kind: str) -> None:
    vectors = trained(kind)
    subject, relation = vectors.entities[5], vectors.relations[1]
    if kind == "transe":
        expected = -(subject + relation - vectors.entities).square().sum(-1) / 2
    else:
        expected = (subject * relation * vectors.entities).sum(-1)
    found = vectors.scores(torch.tensor([5]), torch.tensor([1]))[0]
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@each_graph
def test_a_seed_gives_the_same_vectors_again_and_entities_without_facts_stay(kind: str) -> None:
    one, again, other = trained(kind), trained(kind), trained(kind, seed=2)
    assert torch.equal(one.entities, again.entities) and not torch.equal(one.entities, other.entities)
    start = torch.randn(ENTITIES + 1, WIDTH, generator=torch.Generator().manual_seed(2))
    assert torch.equal(one.entities[-1], start[-1])
    torch.testing.assert_close(one.entities[:-1].norm(dim=-1), torch.full((ENTITIES,), 2.0))  # the fourth root of 16


def test_a_graph_of_an_unknown_kind_or_without_facts_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MasqueradeError, match="kind 'tucker'; choose from transe, distmult"):
        train_graph("tucker", torch.zeros(2, 4), 1, torch.tensor([[0, 0, 1]]))
    with pytest.raises(MasqueradeError, match="no facts to train 'transe' on"):
        train_graph("transe", torch.zeros(2, 4), 1, torch.zeros(0, 3, dtype=torch.long))
    facts = [str(write_facts(tmp_path / "facts.jsonl"))]
    with pytest.raises(MasqueradeError, match="no vectors 'tucker'; choose from labels, transe, distmult"):
        build(facts, tmp_path / "kb", TextVectors(encoder()), vectors="tucker")
    assert not (tmp_path / "kb").exists()


def test_a_knowledge_base_is_built_with_vectors_of_the_graph_from_the_command_line(tmp_path: Path) -> None:
    save(encoder(), tmp_path / "encoder")
    facts = write_facts(tmp_path / "facts.jsonl")
    made = {}
    for kind in ("labels", "transe"):
        words = ["entities", "build", facts, "--model", tmp_path / "encoder", "--out", tmp_path / kind]
        result = CliRunner().invoke(app, [*map(str, words), "--vectors", kind])
        assert result.exit_code == 0, result.output
        made[kind] = FactMemory(tmp_path / kind)
    memory = made["transe"]
    assert memory.vectors().shape == made["labels"].vectors().shape
    assert not torch.allclose(memory.vectors(), made["labels"].vectors())
    keys, objects = memory.fact_tensors()
    vectors = GraphVectors("transe", memory.vectors(), memory.relation_vectors())
    assert ranks(vectors, torch.cat([keys, objects[:, :1]], dim=1)).tolist() == [0, 0, 0, 0]
    shown = CliRunner().invoke(app, ["entities", "show", str(tmp_path / "transe"), "--json"])
    assert json.loads(shown.output)["vectors"] == "transe"
    rome = memory.add_entity("Rome").number  # an entity that is added later has the vector of its label
    torch.testing.assert_close(memory.vectors()[rome], memory.encoder([("Rome", "")])[0])
