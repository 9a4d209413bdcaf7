"""CogQA: the spans of system 1 and the graph network of system 2, equal to the authors' own numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from masquerade.errors import SpecError
from masquerade.memory.working.graph_network import GraphNetwork, adjacency
from masquerade.memory.working.pointers import LONGEST, NONE, point, pointer_losses, pointer_targets

HOME = Path(__file__).parent / "fixtures" / "working"
SPANS = json.loads((HOME / "spans.json").read_text(encoding="utf-8"))["cases"]


def held(name: str) -> dict[str, Tensor]:
    with np.load(HOME / f"{name}.npz") as file:
        return {key: torch.tensor(file[key]) for key in file.files}


def authors_network(given: dict[str, Tensor], form: str = "authors") -> GraphNetwork:
    network = GraphNetwork(len(given["W1"]), form).requires_grad_(False)
    weights = {"message.weight": given["W1"], "own.weight": given["W2"]}
    for name in ("answer", "yesno", "which"):
        for ours, theirs in (("first", "linear0"), ("last", "linear1")):
            weights[f"{name}.{ours}.weight"] = given[f"{name}.{theirs}.weight"]
        for part in ("weight", "bias"):
            weights[f"{name}.norm.{part}"] = given[f"{name}.norm.{part}"]
    network.load_state_dict(weights)
    return network


@pytest.mark.parametrize("number", range(3))
def test_the_graph_network_gives_the_authors_numbers(number: int) -> None:
    numbers = held("graph")
    network = authors_network(numbers)

    def of(name: str) -> Tensor:
        return numbers[f"g{number}.{name}"]

    nodes, edges = of("nodes"), of("edges")
    matrix = adjacency(len(nodes), edges, "authors", nodes)
    after = network(nodes, edges)
    assert torch.allclose(matrix, of("adjacency"), atol=1e-5)
    assert torch.allclose(network.step(nodes, matrix), of("after_one"), atol=1e-5)
    assert torch.allclose(after, of("after_two"), atol=1e-5)
    assert torch.allclose(network.answers(after), of("answer_scores"), atol=1e-5)
    last = len(nodes) - 1
    for name, yes_no in (("yesno", True), ("which", False)):
        assert float(network.compare(nodes, after, (0, last), yes_no)) == pytest.approx(float(of(name)), abs=1e-5)
    loss = network.loss(nodes, edges, (0, 0, 0, int(of("answer"))))
    assert float(loss) == pytest.approx(float(of("answer_loss")), abs=1e-5)
    for label in (0, 1):
        loss = network.loss(nodes, edges, (1, 0, last, label))
        assert float(loss) == pytest.approx(float(of("yesno_loss")[label]), abs=1e-5)


def test_the_form_of_the_sources_is_their_formula() -> None:
    numbers = held("graph")
    network = authors_network(numbers, "sources")
    nodes, edges = numbers["g1.nodes"], numbers["g1.edges"]
    count = len(nodes)
    a = torch.zeros(count, count)
    for start, end in edges.tolist():
        a[start, end] = 1
    degree = torch.diag(1 / a.sum(0).clamp(min=1))
    x = nodes
    for _ in range(2):
        delta = F.gelu((a @ degree).T @ F.gelu(x @ numbers["W1"].T))
        x = F.gelu(x @ numbers["W2"].T + delta)
    assert torch.allclose(network(nodes, edges), x, atol=1e-6)
    assert not torch.allclose(x, numbers["g1.after_two"], atol=1e-3)
    after = network(nodes, edges)
    assert float(network.compare(nodes, after, (0, 1), True)) == pytest.approx(float(network.yesno(x[0] - x[1])))
    with pytest.raises(SpecError, match="authors, sources"):
        GraphNetwork(4, "ours")


@pytest.mark.parametrize("form", ["authors", "sources"])
def test_a_graph_with_a_cycle_and_one_without_edges_are_computed(form: str) -> None:
    torch.manual_seed(1)
    network, nodes = GraphNetwork(6, form), torch.randn(3, 6)
    cycle = torch.tensor([[0, 1], [1, 2], [2, 0], [1, 1]])
    assert bool(network(nodes, cycle).isfinite().all())
    alone = network(nodes, torch.zeros(0, 2, dtype=torch.long))
    assert torch.allclose(alone[1:2], network(nodes[1:2], torch.zeros(0, 2, dtype=torch.long)), atol=1e-6)


def test_spans_are_those_that_the_authors_take() -> None:
    logits = held("logits")
    for number, case in enumerate(SPANS):
        for row, begin in enumerate(case["paragraph_starts"]):
            found = point(logits[f"c{number}.logits"][row], begin, case["sentence_ends"][row], case["allow_answer"])
            assert [[s.start, s.end, s.sentence] for s in found.hops] == case["hop"][row], (number, row)
            assert [[s.start, s.end, s.sentence] for s in found.answers] == case["answer"][row], (number, row)
            assert found.gap == pytest.approx(case["gap"][row], abs=1e-5)


def test_losses_of_the_pointers_are_the_authors() -> None:
    given = held("loss")
    targets = torch.stack([given[name] for name in ("hop_start", "hop_end", "answer_start", "answer_end")], dim=-1)
    found = pointer_losses(given["logits"], targets).mean(0)
    assert float(found[:2].sum() / 2) == pytest.approx(float(given["hop_loss"]), abs=1e-5)
    assert float(found[2:].sum() / 2) == pytest.approx(float(given["answer_loss"]), abs=1e-5)


def test_targets_without_a_span_are_a_weak_pointer_at_cls() -> None:
    start, end = pointer_targets(6, [])
    assert start.tolist() == pytest.approx([NONE, 0, 0, 0, 0, 0]) and not end.any()
    start, end = pointer_targets(6, [(2, 3), (4, 4)])
    assert start.tolist() == [0, 0, 1, 0, 1, 0] and end.tolist() == [0, 0, 0, 1, 1, 0]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 14), max_size=4), st.integers(1, 6), st.integers(0, 10**6))
def test_spans_are_short_and_stay_in_their_sentence(lengths: list[int], begin: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    ends = [begin - 1]
    for length in lengths:
        ends.append(ends[-1] + length)
    found = point(torch.randn(ends[-1] + 3, 4, generator=generator), begin, ends[1:])
    for span in (*found.hops, *found.answers):
        assert ends[span.sentence] < span.start <= span.end < ends[span.sentence + 1]
        assert span.end - span.start < LONGEST and span.score > 0
    assert len(found.hops) <= 3 and len(found.answers) <= 1
    assert bool(found.answers) or not any(lengths) or found.gap >= 0
