"""The cache is exact where the rule allows it, and refuses where it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade import Cache, Layout, Model, Spec, build
from masquerade.errors import LayoutError
from masquerade.layout import batch, join, visible
from masquerade.masks import backward, bidirectional, blocks, causal, infill, permuted, prefix, shared_passage

SPECIAL = {"cls": 1, "sep": 2, "mask": 3}
SPECS = {
    "learned": Spec(vocab=50, width=16, layers=3, heads=2, feedforward=24, longest=64, init_std=0.3),
    "pre-norm, rms, sinusoidal": Spec(
        vocab=50, width=16, layers=2, heads=2, feedforward=24, positions=("sinusoidal",), norm_first=True, norm="rms"
    ),
    "nezha": Spec(vocab=50, width=16, layers=2, heads=2, feedforward=24, positions=("nezha",), max_distance=3),
    "alibi": Spec(vocab=50, width=16, layers=2, heads=2, feedforward=24, positions=("alibi",), init_std=0.3),
    "shared layers, buckets": Spec(
        vocab=50, width=16, layers=3, heads=2, feedforward=24, positions=("learned", "buckets"), groups=1, embedding=8
    ),
}
MODELS = {name: build(spec).eval() for name, spec in SPECS.items()}

CUTS: dict[str, tuple[Layout, Sequence[Sequence[int]]]] = {  # a layout, and the pieces it may be run in
    "causal": (causal(range(5, 17)), [range(5), range(5, 6), range(6, 12)]),
    "prefix": (prefix(range(5, 12), range(20, 26)), [range(7), range(7, 8), range(8, 13)]),
    "infill": (
        infill([5, 3, 7, 8, 3], [(4, [4, 20, 21]), (1, [4, 30])]),
        [range(5), range(5, 7), range(7, 8), range(8, 10)],
    ),
    "shared_passage": (
        shared_passage([5, 6, 7, 8], [[10, 11], [12]], 2, **SPECIAL),
        [range(5), range(5, 12), range(12, 18)],
    ),
    "blocks": (  # clean blocks 0–2 at 0–5, their noisy peers at 6–11: noise before what it becomes
        blocks(range(5, 11), 2, noisy=[3] * 6),
        [[6, 7], [0, 1], [8, 9], [2, 3], [10, 11], [4, 5]],
    ),
    "permuted": (permuted(range(5, 10), [3, 1, 4, 0, 2]), [[3, 1], [4], [0, 2]]),
}


@torch.no_grad()
def in_pieces(model: Model, layout: Layout, pieces: Sequence[Sequence[int]]) -> torch.Tensor:
    """The hidden states of a layout that is run piece by piece through a cache, in the layout's order."""
    cache, order = Cache(), [index for piece in pieces for index in piece]
    states = torch.cat([model.hidden(layout[list(piece)], cache) for piece in pieces], dim=1)
    assert len(cache) == len(layout)
    return states[:, torch.tensor(order).argsort()]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("mask", CUTS)
def test_cached_states_equal_uncached_ones(mask: str, spec: str) -> None:
    layout, pieces = CUTS[mask]
    model = MODELS[spec]
    with torch.no_grad():
        expected = model.hidden(layout)
    torch.testing.assert_close(in_pieces(model, layout, pieces), expected, atol=1e-5, rtol=0)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.integers(1, 6), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_any_cut_of_a_prefix_layout_behind_its_source_is_exact(source: int, steps: list[int]) -> None:
    layout = prefix(range(5, 5 + source), range(20, 20 + sum(steps)))
    bounds = [0, source, *(source + sum(steps[: i + 1]) for i in range(len(steps)))]
    pieces = [range(start, end) for start, end in pairwise(bounds)]
    with torch.no_grad():
        expected = MODELS["learned"].hidden(layout)
    torch.testing.assert_close(in_pieces(MODELS["learned"], layout, pieces), expected, atol=1e-5, rtol=0)


def test_rows_of_different_lengths_share_a_cache() -> None:
    model = MODELS["learned"]
    sources, targets = [[5, 6, 7, 8], [9, 10]], [[20, 21], [22, 23, 24]]
    whole = [prefix(source, target) for source, target in zip(sources, targets, strict=True)]
    cache = Cache()
    with torch.no_grad():
        model.hidden(batch([layout[: len(source)] for layout, source in zip(whole, sources, strict=True)]), cache)
        late = batch([layout[len(source) :] for layout, source in zip(whole, sources, strict=True)])
        got = model.hidden(late, cache)
        for row, (layout, source) in enumerate(zip(whole, sources, strict=True)):
            expected = model.hidden(layout)[0, len(source) :]
            torch.testing.assert_close(got[row, : len(expected)], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("layout", "cut"),
    [
        (bidirectional(range(5, 10)), 2),
        (backward(range(5, 10)), 3),
        (permuted(range(5, 10), [4, 3, 2, 1, 0]), 1),
        (prefix(range(5, 9), [20, 21]), 2),
    ],
    ids=["bidirectional", "backward", "permuted", "inside a source"],
)
def test_a_piece_that_old_rows_would_see_is_refused_and_the_cache_stays_as_it_was(layout: Layout, cut: int) -> None:
    cache = Cache()
    with torch.no_grad():
        MODELS["learned"].hidden(layout[:cut], cache)
        before = [key.clone() for key, _ in cache.layers]
        with pytest.raises(LayoutError, match="token 0 in it would see new token"):
            MODELS["learned"].hidden(layout[cut:], cache)
    assert len(cache) == cut
    assert all(torch.equal(old, key) for old, (key, _) in zip(before, cache.layers, strict=True))


def test_a_cache_of_other_rows_is_refused() -> None:
    cache = Cache()
    with torch.no_grad():
        MODELS["learned"].hidden(batch([causal([5, 6]), causal([7, 8])]), cache)
        with pytest.raises(LayoutError, match="2 rows cannot be extended by 1 rows"):
            MODELS["learned"].hidden(causal([9]), cache)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.booleans(), st.booleans()), min_size=1, max_size=8))
def test_a_cache_that_grows_is_cropped_and_reordered_is_exact(moves: list[tuple[int, int, bool, bool]]) -> None:
    model, cache = MODELS["learned"], Cache()
    rows, fresh = [[5, 6], [7, 8]], iter(range(9, 50 * 50))
    with torch.no_grad():
        model.hidden(batch([causal(row) for row in rows]), cache)
    for more, gone, swap, inference in moves:  # the room grows under either mode, and goes on under the other
        with torch.inference_mode() if inference else torch.no_grad():
            rows = [[*row, *(next(fresh) % 45 + 5 for _ in range(more))] for row in rows]
            late = batch([causal(row)[-more:] for row in rows])
            got = model.hidden(late, cache)
            expected = torch.cat([model.hidden(causal(row))[:, -more:] for row in rows])
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
        with torch.inference_mode():
            rows = [row[: len(row) - gone] for row in rows]
            cache.crop(len(rows[0]))
            if swap:
                rows = [rows[1], rows[0]]
                cache.select(torch.tensor([1, 0]))


FIELDS = st.fixed_dictionaries(
    {"rank": st.integers(0, 3), "horizon": st.integers(0, 3), "branch": st.integers(0, 2), "kind": st.integers(0, 3)}
    | {"document": st.integers(-1, 1), "reach": st.integers(0, 4)}
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(FIELDS, min_size=1, max_size=6), st.lists(FIELDS, min_size=1, max_size=3))
def test_a_cache_is_extended_exactly_where_the_rule_lets_no_old_token_see_a_new_one(
    old: list[dict[str, int]], new: list[dict[str, int]]
) -> None:
    columns = {name: [token[name] for token in [*old, *new]] for name in old[0]}
    layout, cache = Layout.of([5] * len(columns["rank"]), **columns).batched(), Cache()
    seen = visible(layout)[0, : len(old), len(old) :]
    with torch.no_grad():
        MODELS["learned"].hidden(layout[: len(old)], cache)
    if not seen.any():
        assert len(cache.extended(layout[len(old) :])) == len(layout)
    else:
        with pytest.raises(LayoutError, match="token {} in it would see new token {},".format(*seen.nonzero()[0])):
            cache.extended(layout[len(old) :])


MOVE = st.tuples(st.permutations(range(3)), st.booleans(), st.booleans(), st.booleans())


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(MOVE, min_size=1, max_size=8))
def test_siblings_that_change_places_keep_exact_keys(moves: list[tuple[list[int], bool, bool, bool]]) -> None:
    # the two tokens of a block see each other, so that the first may be the same token and have different keys
    model, cache, source = MODELS["learned"], Cache(), prefix([5, 6, 7], [])
    blocks: list[list[list[int]]] = [[], [], []]  # of each row

    def laid(row: list[list[int]]) -> Layout:
        tokens = [Layout.of(ids, rank=1 + at, position=3 + 2 * at + torch.arange(2)) for at, ids in enumerate(row)]
        return join([source, *tokens])

    def mode(inference: bool) -> torch.inference_mode | torch.no_grad:
        return torch.inference_mode() if inference else torch.no_grad()

    with torch.no_grad():
        model.hidden(batch([source] * 3), cache)
        for order, differ, run, select in moves:
            blocks = [[*row, [9 + differ * place, 12 + place]] for place, row in enumerate(blocks)]
            with mode(run):
                got = model.hidden(batch([laid(row)[-2:] for row in blocks]), cache)
                expected = torch.cat([model.hidden(laid(row))[:, -2:] for row in blocks])
            torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
            chosen = [order[0], order[0], order[1]]  # one of them twice, one of them not at all
            blocks = [blocks[row] for row in chosen]
            with mode(select):
                cache.select(torch.tensor(chosen), siblings=True)


def test_gradients_reach_what_is_in_a_cache() -> None:
    model, cache, layout = MODELS["learned"], Cache(), causal(range(5, 11))
    states = torch.cat([model.hidden(layout[:3], cache), model.hidden(layout[3:], cache)], dim=1)
    for result in (states, model.hidden(layout)):
        model.zero_grad()
        result.square().sum().backward()
        if result is states:
            cached = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            torch.testing.assert_close(cached[name], weight.grad, atol=1e-4, rtol=1e-4)
    model.zero_grad()


def test_rows_of_a_source_ask_the_same_keys_and_are_exact() -> None:
    spec = Spec(
        vocab=50, width=16, layers=2, heads=2, feedforward=24, longest=64, init_std=0.3, mask="causal", cross=True
    )
    model = build(replace(spec, cross=False, mask="bidirectional", decoder=spec)).eval()
    sources = [[5, 6, 7, 8], [9, 10], [11, 12, 13]]
    owners, rows, cache, word = [0, 1, 2], [[4], [4], [4]], Cache(), 20
    chosen: list[tuple[list[int], int]] = [  # rows to go on with, and how many sources are kept for them
        ([0, 0, 1, 1, 2, 2], 3),
        ([1, 0, 2, 2, 5, 4], 3),
        ([0, 1, 4, 5], 2),
        ([2, 3, 0, 0], 2),
        ([0, 2, 3], 3),
        ([1, 1, 2, 2, 0, 0], 3),
        ([0, 5], 2),
    ]
    with torch.no_grad():
        for select, kept in [([0, 1, 2], 3), *chosen]:
            if word > 20:
                cache.select(torch.tensor(select))
                owners, rows = [owners[row] for row in select], [[*rows[row], word + row] for row in select]
            assert len(cache.source) == 0 or len(cache.source[0][0]) == kept
            source = model.encode(batch([bidirectional(sources[owner]) for owner in owners]))
            got = model.hidden(batch([causal(row)[-1:] for row in rows]), cache, source)
            for place, (owner, row) in enumerate(zip(owners, rows, strict=True)):
                expected = model.hidden(causal(row), source=bidirectional(sources[owner]))[0, -1]
                torch.testing.assert_close(got[place, 0], expected, atol=1e-5, rtol=0)
            word += 3
