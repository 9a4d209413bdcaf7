"""The best entities of a large memory: FAISS finds those that all products find."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from masquerade import Model, Spec
from masquerade.masks import bidirectional
from masquerade.memory.entity import search
from masquerade.memory.entity.networks import parts
from masquerade.memory.entity.search import EntitySearch
from masquerade.memory.entity.table import EntityTable

ENTITIES, WIDTH = 600, 12


def vectors(seed: int = 1) -> Tensor:
    return torch.randn(ENTITIES, WIDTH, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes ENTITIES entities for very many."""
    pytest.importorskip("faiss", reason="faiss, of the extra 'retrieval', is not installed")
    monkeypatch.setattr(search, "LARGE", ENTITIES)
    monkeypatch.setattr(search, "PROBED", 1)  # all lists are searched


def network() -> Model:
    torch.manual_seed(3)
    part: tuple[str, dict[str, Any]] = ("entities", {"width": WIDTH, "top": 100})
    spec = Spec(vocab=40, width=16, layers=2, heads=2, feedforward=24, longest=32, init_std=0.3, between={1: part})
    model = Model(spec).eval()
    parts(model)[0].entities.set(vectors())
    return model


@torch.no_grad()
def outputs(model: Model) -> dict[str, Tensor]:
    spans = torch.tensor([[0, 1], [2, 2], [3, 6]])
    flow = model.flow(bidirectional([5, 6, 7, 8, 9, 10, 11]), inputs={"memory.mentions": spans})
    return {**flow.outputs, "states": flow.states}


def test_faiss_gives_the_answers_of_exact_search(monkeypatch: pytest.MonkeyPatch, large: None) -> None:
    query = torch.randn(9, WIDTH, generator=torch.Generator().manual_seed(2))
    found = EntitySearch(vectors())
    assert found.index is not None
    assert torch.equal(found(query, 100), (query @ vectors().T).topk(100).indices)
    assert found(query, 10 * ENTITIES).shape == (9, ENTITIES) and found(query[:0], 5).shape == (0, 5)
    through = outputs(network())
    monkeypatch.setattr(search, "LARGE", ENTITIES + 1)
    exact = outputs(network())
    assert "memory.entity_scores" in exact and "memory.entity_scores" not in through
    assert torch.equal(through["memory.entities"], exact["memory.entities"])
    for name in ("memory.weights", "states"):
        torch.testing.assert_close(through[name], exact[name], atol=1e-5, rtol=1e-5)


def test_without_faiss_search_stays_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LARGE", ENTITIES)
    monkeypatch.setattr(search, "faiss_package", lambda: None)
    assert EntitySearch(vectors()).index is None
    assert outputs(network())["memory.entity_scores"].shape == (3, ENTITIES)


def test_training_reads_all_entities_of_a_large_memory(large: None) -> None:
    found = outputs(network().train())
    assert found["memory.entity_scores"].shape == (3, ENTITIES) and "memory.entities" not in found


def test_lists_find_nearly_all_of_the_best_entities(monkeypatch: pytest.MonkeyPatch, large: None) -> None:
    monkeypatch.setattr(search, "PROBED", 4)
    centres = torch.randn(24, WIDTH, generator=torch.Generator().manual_seed(4))
    table = centres.repeat(ENTITIES // 24, 1) * 3 + 0.3 * vectors()
    query = centres + 0.1 * torch.randn(24, WIDTH, generator=torch.Generator().manual_seed(5))
    exact, found = (query @ table.T).topk(10).indices, EntitySearch(table)(query, 10)
    same = [len(set(one) & set(other)) for one, other in zip(exact.tolist(), found.tolist(), strict=True)]
    assert sum(same) >= 0.9 * 240
    assert torch.equal(EntitySearch(table)(query, 500), (query @ table.T).topk(500).indices)  # more than lists hold


def test_an_index_follows_new_and_trained_vectors_and_goes_on_with_the_same_ones(large: None) -> None:
    table, query = EntityTable(WIDTH, trained=3), torch.randn(4, WIDTH)
    table.set(vectors(), start=True)
    assert table.large() and torch.equal(table.best(query, 7), (query @ vectors().T).topk(7).indices)
    kept = table._search
    table.set(vectors().clone())
    table.best(query, 7)
    assert table._search is kept
    with torch.no_grad():
        assert table.own is not None
        table.own[1] = 9 * query[0]
    assert int(table.best(query, 7)[0, 0]) == 1
    table.set(vectors(seed=8))
    assert torch.equal(table.best(query, 7), (query @ table().T).topk(7).indices)
    assert torch.equal(copy.deepcopy(table).best(query, 7), table.best(query, 7))
