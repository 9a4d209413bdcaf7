"""Relative positions of consecutive tokens are read from diagonals; they equal what is looked up pair by pair."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import assert_close

from masquerade import Cache, Layout, Spec, build
from masquerade.layout import batch, pad
from masquerade.masks import bidirectional, causal, masked_answer, pack, shared_passage, two_stream
from masquerade.nn import disentangled, stack
from masquerade.nn.disentangled import diagonals
from masquerade.nn.runs import RowOfRuns, rows_of_runs

SIZES = {"vocab": 30, "width": 16, "layers": 2, "heads": 2, "feedforward": 24, "max_distance": 12}
SCHEMES = {
    "disentangled": {"position_scores": ("c2p", "p2c"), "relative_norm": True, "buckets": 6, "share_projections": True},
    "disentangled, own projections": {"position_scores": ("c2p", "p2c")},
    "transformer-xl": {},
    "nezha": {},
    "buckets": {"buckets": 8},
    "alibi": {},
}


def spec(scheme: str) -> Spec:
    return Spec(**SIZES, **SCHEMES[scheme], positions=(scheme.split(",")[0],))


def states(model: torch.nn.Module, layout: Layout, looked_up: bool, cached: int = 0) -> torch.Tensor:
    """Hidden states, by the looking up of pairs or as usual; with the first tokens through a cache."""
    usual = stack._consecutive
    try:
        if looked_up:
            stack._consecutive = lambda queries, keys: False
        if not cached:
            return model.hidden(layout)
        cache = Cache()
        first = model.hidden(layout[:cached], cache)
        return torch.cat([first, model.hidden(layout[cached:], cache)], dim=1)
    finally:
        stack._consecutive = usual


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_diagonals_and_pairs_give_the_same_states(scheme: str, data: st.DataObject) -> None:
    lengths = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), min_size=1, max_size=3)
    mask = data.draw(st.sampled_from([bidirectional, causal]))
    rows = [pack([mask([n % 30 for n in range(length)]) for length in row]) for row in data.draw(lengths)]
    layout = batch(rows)
    torch.manual_seed(0)
    model = build(spec(scheme)).eval()
    real = layout.real.unsqueeze(-1)
    with torch.inference_mode():
        assert_close(states(model, layout, False) * real, states(model, layout, True) * real)
        if mask is causal and len(layout) > 1:
            cut = data.draw(st.integers(1, len(layout) - 1))
            assert_close(states(model, layout, False, cut) * real, states(model, layout, True) * real)


@pytest.mark.parametrize("scheme", ["disentangled", "transformer-xl"])
def test_diagonals_and_pairs_give_the_same_gradients(scheme: str) -> None:
    layout, found = batch([causal(range(9)), causal(range(6))]), []
    for looked_up in (False, True):
        torch.manual_seed(0)
        model = build(spec(scheme)).eval()  # no dropout, which would be drawn for other tables
        (states(model, layout, looked_up)[layout.real] ** 3).sum().backward()
        found.append([weight.grad for weight in model.parameters() if weight.grad is not None])
    assert len(found[0]) == len(found[1]) > 10
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_only_tokens_side_by_side_in_order_are_consecutive() -> None:
    rows = batch([pack([causal(range(4)), causal(range(3))]), causal(range(5))])
    assert stack._consecutive(rows, rows)
    assert stack._consecutive(rows[3:], rows)
    one = causal(range(6)).batched()
    moved = one.position.clone()
    moved[0, 3:] += 1
    split = pad(one, 8).document.clone()
    split[0, 2] = -1
    for other in (
        two_stream([5, 6, 7], [1, 0, 2], mask=4).batched(),
        one.replace(position=moved),
        pad(one, 8).replace(document=split),
        one.replace(document=torch.tensor([[0, 0, 1, 1, 0, 0]])),
    ):
        assert not stack._consecutive(other, other)
    assert not stack._consecutive(one[:3], one)


def test_diagonals_are_the_scores_of_each_distance() -> None:
    scores = torch.arange(3 * 7).reshape(3, 7)
    assert diagonals(scores).tolist() == [[int(scores[i, j - i + 2]) for j in range(5)] for i in range(3)]
    assert diagonals(scores[:1]).tolist() == scores[:1].tolist()


def test_rows_of_runs_give_the_states_and_gradients_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[list[RowOfRuns]]()
    monkeypatch.setattr(stack, "rows_of_runs", lambda layout: found.append(rows_of_runs(layout)) or found[-1])
    monkeypatch.setattr(disentangled, "ROUND", 4)
    signs = {"cls": 1, "sep": 2, "mask": 3}
    asked = shared_passage([*range(5, 29)], [[7, 8, 9], [4] * 9], 6, **signs, start=30)
    layouts = [
        (batch([asked, shared_passage([*range(6, 29)], [[6]], 6, **signs, start=30)]), 3),  # forked: gaps, a padded row
        (batch([bidirectional([n % 30 for n in range(length)]) for length in (40, 33)]), 2),
        (batch([causal([n % 30 for n in range(length)]) for length in (35, 50)]), 2),
        (pack([causal(range(20)), causal(range(25))]).batched(), 1),
        (batch([masked_answer([5] * 9, [7] * 40, 3, **signs), causal(range(12))]), 0),  # a short row: by pairs
        (causal(range(30)).replace(position=torch.arange(30) * 2).batched(), 0),  # many runs: by pairs
    ]
    for scheme in ("disentangled", "disentangled, own projections"):
        for layout, rows in layouts:
            torch.manual_seed(0)
            between = {1: ("fork", {})} if layout.branch.any() else {}
            model = build(replace(spec(scheme), between=between, longest=60)).double().eval()
            with torch.no_grad():
                flow = model.flow(layout)
                again = model.flow(layout)  # with the projections that were kept
            assert len(found[-1]) == rows
            real, learnt = flow.layout.batched().real, list[list[torch.Tensor]]()
            for by_runs in (True, False):
                with monkeypatch.context() as patch:
                    if not by_runs:
                        patch.setattr(stack, "rows_of_runs", lambda layout: [])
                    pairs = model.flow(layout).states[real]
                model.zero_grad()
                pairs.sin().sum().backward()
                learnt.append([weight.grad for weight in model.parameters() if weight.grad is not None])
                assert_close(flow.states[real], pairs.detach())
                assert_close(again.states[real], pairs.detach())
            assert len(learnt[0]) == len(learnt[1]) > 10
            for one, other in zip(*learnt, strict=True):
                torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("change", ["table", "key", "train", "longer", "copy"])
def test_projections_of_positions_follow_their_weights(change: str) -> None:
    torch.manual_seed(0)
    model, layout = build(spec("disentangled")).eval(), bidirectional([n % 30 for n in range(40)])
    with torch.inference_mode():
        model.hidden(layout)
    if change == "table":
        with torch.no_grad():
            model.stack.relative.table.weight.mul_(3)
    elif change == "key":
        model.stack.layers[1].attention.key.weight = torch.nn.Parameter(torch.randn(16, 16))
    elif change == "train":
        model.train().stack.relative.table.weight.data.mul_(3)  # PyTorch counts no version for this
        model.eval()
    elif change == "longer":
        layout = bidirectional([n % 30 for n in range(200)])
    else:
        model = deepcopy(model)
        with torch.no_grad():
            model.stack.relative.table.weight.mul_(3)
    with torch.enable_grad():
        wanted = model.hidden(layout).detach()
    with torch.inference_mode():
        assert_close(model.hidden(layout), wanted)
