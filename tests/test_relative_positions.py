"""Relative positions of consecutive tokens are read from diagonals; they equal what is looked up pair by pair."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import assert_close

from masquerade import Cache, Layout, Spec, build
from masquerade.layout import batch, pad
from masquerade.masks import bidirectional, causal, pack, two_stream
from masquerade.nn import stack
from masquerade.nn.disentangled import diagonals

SIZES = {"vocab": 30, "width": 16, "layers": 2, "heads": 2, "feedforward": 24, "max_distance": 12}
SCHEMES = {
    "disentangled": {"position_scores": ("c2p", "p2c"), "relative_norm": True, "buckets": 6, "share_projections": True},
    "disentangled, own projections": {"position_scores": ("c2p", "p2c")},
    "transformer-xl": {},
    "nezha": {},
    "buckets": {"buckets": 8},
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
