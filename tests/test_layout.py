"""The rule, and everything that carries it: visibility, biases, batches, packs and padding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, create_mask
from torch.nn.functional import scaled_dot_product_attention

from masquerade import masks
from masquerade.errors import LayoutError, MasqueradeError
from masquerade.layout import (
    FAR,
    FIELDS,
    IGNORE,
    PADDING,
    Kind,
    Layout,
    all_visible,
    batch,
    bias,
    join,
    mask_mod,
    pad,
    sees,
    visible,
)

seeded = settings(derandomize=True, deadline=None, max_examples=50)

PLAIN: dict[str, Any] = dict.fromkeys(FIELDS, 0) | {"reach": FAR, "label": IGNORE}  # what a field is if not given
LOOKS = ("document", "branch", "rank", "horizon", "kind", "position", "reach")  # the fields that the rule reads

# Few values a field, so that every clause of the rule decides some pair of every example.
token = st.tuples(
    st.sampled_from([PADDING, 0, 0, 0, 1]),
    st.sampled_from([0, 0, 1, 2]),
    st.integers(0, 2),
    st.integers(-1, 2),
    st.sampled_from(list(Kind)),
    st.integers(0, 3),
    st.sampled_from([0, 1, 2, FAR, FAR]),
)
tokens_of_a_row = st.lists(token, min_size=1, max_size=9)


def laid_out(tokens: list[tuple[int, ...]]) -> Layout:
    """A layout from the values that the rule reads, token by token."""
    columns: dict[str, Any] = {name: [int(one[place]) for one in tokens] for place, name in enumerate(LOOKS)}
    return Layout.of(torch.arange(100, 100 + len(tokens)), **columns)


def entries(layout: Layout) -> list[dict[str, int]]:
    """The fields of a sequence, token by token."""
    return [{name: int(getattr(layout, name)[i]) for name in FIELDS} for i in range(len(layout))]


def rule(q: dict[str, int], k: dict[str, int]) -> bool:
    """The rule for one row and one token, clause by clause as the design states it."""
    if q["document"] == -1 or k["document"] == -1 or q["document"] != k["document"]:
        return False
    if k["branch"] != 0 and k["branch"] != q["branch"]:
        return False
    if not -q["reach"] <= q["position"] - k["position"] <= q["reach"]:
        return False
    if k["kind"] == Kind.CONTENT:
        return k["rank"] <= q["horizon"]
    if k["kind"] == Kind.PLACEHOLDER:
        return k["rank"] > q["horizon"]
    if k["kind"] == Kind.PEER:
        return q["kind"] == Kind.PEER and k["rank"] == q["rank"]
    return False


def same(one: Layout, other: Layout) -> bool:
    """Whether two layouts agree in every field, shapes included."""
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in FIELDS)


def masked_softmax(hidden: Tensor) -> Tensor:
    """Attention weights from random scores and a bias."""
    return (torch.randn(hidden.shape, generator=torch.Generator().manual_seed(0)) + hidden).softmax(-1)


def some_rows() -> Layout:
    """A batch of unlike rows: a permutation with queries, a pack, branches, and a row of padding alone."""
    nothing = Layout.of([0, 0], document=PADDING)
    packed = masks.pack([masks.causal([1, 2]), masks.blocks([3, 4], 1, noisy=[9, 9])])
    asked = masks.shared_passage([1, 2], [[3], [4, 5]], 1, cls=7, sep=8, mask=9)
    return batch([masks.two_stream([1, 2, 3], [2, 0, 1], mask=9), packed, asked, nothing])


# The rule


@seeded
@given(tokens_of_a_row)
def test_visible_is_the_rule_for_every_pair(tokens: list[tuple[int, ...]]) -> None:
    layout = laid_out(tokens)
    each = entries(layout)
    assert visible(layout).tolist() == [[rule(q, k) for k in each] for q in each]


@seeded
@given(tokens_of_a_row, tokens_of_a_row)
def test_visible_between_two_layouts_has_rows_of_one_and_columns_of_the_other(
    rows: list[tuple[int, ...]], columns: list[tuple[int, ...]]
) -> None:
    queries, keys = laid_out(rows), laid_out(columns)
    seen = visible(queries, keys)
    assert seen.shape == (len(rows), len(columns))
    assert seen.tolist() == [[rule(q, k) for k in entries(keys)] for q in entries(queries)]


def test_the_rule_takes_single_tokens_and_broadcasts() -> None:
    layout = masks.causal([1, 2, 3])
    last = layout.select(torch.tensor([2])).row(0)
    assert sees(last, layout).tolist() == [True, True, True]
    assert sees(layout, last).tolist() == [False, False, True]


@pytest.mark.parametrize("kind", list(Kind))
def test_padding_sees_nothing_and_is_never_seen_whatever_else_it_says(kind: Kind) -> None:
    layout = Layout.of([1, 2, 3], document=[0, PADDING, PADDING], kind=[Kind.PEER, kind, kind], horizon=5)
    seen = visible(layout)
    assert not seen[1:].any() and not seen[:, 1:].any()


@seeded
@given(st.lists(tokens_of_a_row, min_size=1, max_size=3))
def test_documents_of_a_pack_never_see_each_other(parts: list[list[tuple[int, ...]]]) -> None:
    layouts = [laid_out(part) for part in parts]
    owner = [number for number, layout in enumerate(layouts) for _ in range(len(layout))]
    seen = visible(masks.pack(layouts))
    alone = torch.block_diag(*(visible(layout).int() for layout in layouts)).bool()
    assert all(owner[q] == owner[k] for q, k in seen.nonzero().tolist())
    assert torch.equal(seen, alone)


@seeded
@given(tokens_of_a_row)
def test_branches_never_see_each_other_and_the_trunk_sees_no_branch(tokens: list[tuple[int, ...]]) -> None:
    layout = laid_out(tokens)
    for q, k in visible(layout).nonzero().tolist():
        assert int(layout.branch[k]) in (0, int(layout.branch[q]))


# Biases


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_a_bias_is_zero_where_seen_and_the_lowest_finite_number_elsewhere(dtype: torch.dtype) -> None:
    rows = some_rows()
    hidden = bias(rows, dtype=dtype)
    assert hidden.shape == (rows.rows, 1, len(rows), len(rows)) and hidden.dtype == dtype
    assert hidden.isfinite().all()
    assert torch.equal(hidden[:, 0] == 0, visible(rows))
    assert (hidden[:, 0][~visible(rows)] == torch.finfo(dtype).min).all()


@seeded
@given(tokens_of_a_row, tokens_of_a_row)
def test_a_bias_between_two_layouts_agrees_with_visible(
    rows: list[tuple[int, ...]], columns: list[tuple[int, ...]]
) -> None:
    queries, keys = laid_out(rows), laid_out(columns)
    hidden = bias(queries, keys)
    assert hidden.shape == (1, 1, len(rows), len(columns))
    assert torch.equal(hidden[0, 0] == 0, visible(queries, keys))


def test_unseen_tokens_weigh_nothing_wherever_something_is_seen() -> None:
    rows = some_rows()
    seen = visible(rows)
    weights = masked_softmax(bias(rows))[:, 0]
    looking = seen.any(-1, keepdim=True)
    assert (weights[looking & ~seen] == 0).all()
    assert torch.allclose(weights.sum(-1), torch.ones(rows.rows, len(rows)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_is_never_nan_even_in_rows_of_padding_alone(dtype: torch.dtype) -> None:
    rows = some_rows()
    assert not rows.real[-1].any() and not visible(rows)[-1].any()
    assert not masked_softmax(bias(rows)).isnan().any()
    noise = torch.Generator().manual_seed(0)
    q, k, v = (10 * torch.randn(rows.rows, 2, len(rows), 4, generator=noise).to(dtype) for _ in range(3))
    assert scaled_dot_product_attention(q, k, v, attn_mask=bias(rows, dtype=dtype)).isfinite().all()


def test_attention_gives_what_is_seen_alone_and_not_a_word_of_the_rest() -> None:
    rows = some_rows()
    looking = visible(rows).any(-1)
    noise = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(rows.rows, 1, len(rows), 4, generator=noise) for _ in range(3))
    out = scaled_dot_product_attention(q, k, v, attn_mask=bias(rows))[:, 0]
    for b, i in looking.nonzero().tolist():
        seen = visible(rows)[b, i]
        weights = (k[b, 0, seen] @ q[b, 0, i] / math.sqrt(4)).softmax(0)
        assert torch.allclose(out[b, i], weights @ v[b, 0, seen], atol=1e-5)


def test_mask_mod_agrees_with_the_bias_element_by_element() -> None:
    rows = some_rows()
    hidden, mod = bias(rows), mask_mod(rows)
    for b in range(rows.rows):
        for q in range(len(rows)):
            for k in range(len(rows)):
                assert bool(mod(b, 0, q, k)) == (float(hidden[b, 0, q, k]) == 0)


def test_mask_mod_between_two_layouts_has_rows_of_one_and_columns_of_the_other() -> None:
    rows = some_rows()
    queries, keys = rows[2:4], rows[:5]
    mod = mask_mod(queries, keys)
    found = [[[bool(mod(b, 0, q, k)) for k in range(5)] for q in range(2)] for b in range(rows.rows)]
    assert found == visible(queries, keys).tolist() == visible(rows)[:, 2:4, :5].tolist()


def test_mask_mod_of_a_single_sequence_has_one_row() -> None:
    layout = masks.causal([1, 2, 3])
    mod = mask_mod(layout)
    assert [[bool(mod(0, 0, q, k)) for k in range(3)] for q in range(3)] == visible(layout).tolist()


def test_flex_attention_draws_the_same_mask() -> None:
    rows = some_rows()
    size = (rows.rows, 1, len(rows), len(rows))
    assert torch.equal(create_mask(mask_mod(rows), *size, device="cpu")[:, 0], visible(rows))
    drawn = create_block_mask(mask_mod(rows), *size, device="cpu", BLOCK_SIZE=1)
    assert torch.equal(drawn.to_dense()[:, 0].bool(), visible(rows))


# Making layouts


def test_a_field_not_given_has_its_plain_value() -> None:
    layout = Layout.of([5, 6, 7])
    for name in set(FIELDS) - {"ids", "position"}:
        assert getattr(layout, name).tolist() == [PLAIN[name]] * 3, name
    assert layout.ids.tolist() == [5, 6, 7] and layout.position.tolist() == [0, 1, 2]
    assert all(getattr(layout, name).dtype == torch.long for name in FIELDS)


def test_the_horizon_is_the_rank_unless_given() -> None:
    assert Layout.of([5, 6], rank=[3, 4]).horizon.tolist() == [3, 4]
    assert Layout.of([5, 6], rank=[3, 4], horizon=[2, 2]).horizon.tolist() == [2, 2]
    assert Layout.of([5, 6], horizon=1).rank.tolist() == [0, 0]


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "ids"])
def test_a_number_a_list_a_tensor_and_one_row_fill_a_field(name: str) -> None:
    ids = [[5, 6], [7, 8]]
    cases: list[tuple[Any, list[list[int]]]] = [
        (2, [[2, 2], [2, 2]]),
        ([1, 2], [[1, 2], [1, 2]]),
        (torch.tensor([[1, 2], [3, 0]]), [[1, 2], [3, 0]]),
    ]
    for value, filled in cases:
        assert getattr(Layout.of(torch.tensor(ids), **{name: value}), name).tolist() == filled


def test_a_layout_may_be_empty() -> None:
    layout = Layout.of([])
    assert len(layout) == 0 and layout.rows == 1
    assert visible(layout).shape == (0, 0) and bias(layout).shape == (1, 1, 0, 0)
    assert layout.first.tolist() == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Layout.of(torch.tensor(5)), r"holds \(n,\) or \(rows, n\) tokens, but the ids have shape \(\)"),
        (lambda: Layout.of(torch.zeros(1, 2, 3)), r"the ids have shape \(1, 2, 3\)"),
        (lambda: Layout.of([1, 2], rank=[0, 1, 2]), "field 'rank' has shape .3,. for tokens of shape .2,."),
        (lambda: Layout.of([1, 2], label=[0]), "field 'label' has shape .1,. for tokens of shape .2,."),
        (lambda: Layout.of([1, 2], colour=1), "no field 'colour'; it has ids, position, inner"),
        (lambda: join([]), "nothing to join"),
        (
            lambda: join([some_rows(), some_rows()[:2].select(torch.arange(2))]),
            r"Layouts of \[2, 4\] rows cannot be join",
        ),
        (lambda: pad(masks.causal([1, 2, 3]), 2), "3 tokens does not fit into 2"),
        (lambda: batch([]), "nothing to batch"),
    ],
)
def test_what_cannot_be_laid_out_is_refused_with_the_reason(make: Callable[[], Layout], message: str) -> None:
    with pytest.raises(LayoutError, match=message) as caught:
        make()
    assert isinstance(caught.value, MasqueradeError) and isinstance(caught.value, ValueError)


def test_a_masked_token_of_a_padded_batch_sees_the_real_ones_and_is_seen_by_nobody() -> None:
    ids, real = torch.tensor([[5, 6, 0], [7, 0, 0]]), torch.tensor([[1, 1, 0], [1, 0, 0]])
    layout = Layout.padded(ids, real, segment=1)
    assert torch.equal(layout.ids, ids) and (layout.segment == 1).all()
    assert torch.equal(visible(layout), real.bool()[:, None, :].expand(2, 3, 3))
    assert same(layout, Layout.padded(ids, real.bool(), segment=1))


def test_a_padded_batch_without_a_mask_is_all_real() -> None:
    ids = torch.tensor([[5, 6], [7, 0]])
    assert same(Layout.padded(ids), Layout.of(ids)) and visible(Layout.padded(ids)).all()


def test_a_padded_batch_may_be_causal() -> None:
    layout = Layout.padded(torch.tensor([[5, 6, 0]]), torch.tensor([[1, 1, 0]]), rank=[0, 1, 2])
    assert visible(layout)[0].tolist() == [[True, False, False], [True, True, False], [True, True, False]]


def test_a_layout_moves_to_another_device_and_stays_there() -> None:
    elsewhere = masks.causal([1, 2]).to("meta")
    assert all(getattr(elsewhere, name).device.type == "meta" for name in FIELDS)
    assert Layout.of(elsewhere.ids).position.device.type == "meta"
    assert pad(elsewhere, 3).document.device.type == "meta"
    assert visible(elsewhere).device.type == bias(elsewhere).device.type == "meta"


# Changing layouts


def test_replace_changes_the_named_fields_alone() -> None:
    layout = masks.two_stream([5, 6, 7], [2, 0, 1], mask=9)
    changed = layout.replace(ids=4, segment=[0, 1, 2, 3, 4, 5], rank=torch.zeros(6))
    assert changed.ids.tolist() == [4] * 6 and changed.segment.tolist() == [0, 1, 2, 3, 4, 5]
    assert changed.rank.tolist() == [0] * 6 and changed.rank.dtype == torch.long
    for name in set(FIELDS) - {"ids", "segment", "rank"}:
        assert torch.equal(getattr(changed, name), getattr(layout, name)), name
    assert layout.ids.tolist() == [5, 6, 7, 9, 9, 9]


@seeded
@given(st.lists(token, min_size=2, max_size=8), st.data())
def test_slices_and_indices_keep_who_sees_whom(tokens: list[tuple[int, ...]], data: st.DataObject) -> None:
    layout = laid_out(tokens)
    chosen = data.draw(st.lists(st.integers(0, len(tokens) - 1), min_size=1, max_size=8))
    seen = visible(layout)
    for some in (layout[chosen], layout[torch.tensor(chosen)]):
        assert torch.equal(visible(some), seen[chosen][:, chosen])
    assert torch.equal(visible(layout[1:]), seen[1:, 1:]) and len(layout[1:]) == len(tokens) - 1
    assert torch.equal(visible(layout[:2], layout), seen[:2])
    assert layout[chosen].ids.tolist() == [100 + i for i in chosen]


def test_a_slice_of_a_batch_cuts_its_tokens_and_not_its_rows() -> None:
    rows = some_rows()
    assert rows[:3].ids.shape == (4, 3) and torch.equal(rows[[2, 0]].ids, rows.ids[:, [2, 0]])


@seeded
@given(tokens_of_a_row, tokens_of_a_row)
def test_join_puts_tokens_behind_one_another_unchanged(
    front: list[tuple[int, ...]], back: list[tuple[int, ...]]
) -> None:
    one, two = laid_out(front), laid_out(back)
    both = join([one, two])
    assert same(both[: len(one)], one) and same(both[len(one) :], two)
    assert torch.equal(visible(both)[: len(one), len(one) :], visible(one, two))


def test_join_repeats_a_single_sequence_for_every_row() -> None:
    rows, one = some_rows(), masks.causal([1, 2])
    for single in (one, one.batched()):
        for both, where in ((join([rows, single]), slice(len(rows), None)), (join([single, rows]), slice(2))):
            assert both.ids.shape == (4, len(rows) + 2)
            assert both[where].ids.tolist() == [[1, 2]] * 4 and both[where].rank.tolist() == [[0, 1]] * 4
    assert join([one, one.batched()]).ids.shape == (1, 4) and join([one, one]).ids.shape == (4,)


@pytest.mark.parametrize("layout", [masks.two_stream([1, 2], [1, 0], mask=9), some_rows()], ids=["sequence", "batch"])
def test_padding_changes_nothing_that_was_there(layout: Layout) -> None:
    n = len(layout)
    longer = pad(layout, n + 2, pad_id=3)
    assert same(longer[:n], layout) and same(pad(layout, n), layout)
    filler = longer[n:]
    assert (filler.ids == 3).all() and (filler.label == IGNORE).all() and not filler.real.any()
    seen = visible(longer)
    assert torch.equal(seen[..., :n, :n], visible(layout))
    assert not seen[..., n:].any() and not seen[..., n:, :].any()


def test_padding_has_id_zero_unless_told() -> None:
    assert pad(masks.causal([1]), 3).ids.tolist() == [1, 0, 0]
    assert batch([masks.causal([1]), masks.causal([1, 2])]).ids.tolist() == [[1, 0], [1, 2]]


@seeded
@given(st.lists(st.lists(token, max_size=6), min_size=1, max_size=4), st.integers(0, 5))
def test_rows_come_back_from_a_batch_as_they_went_in(parts: list[list[tuple[int, ...]]], pad_id: int) -> None:
    layouts = [laid_out([(0, *entry[1:]) for entry in part]) for part in parts]
    rows = batch(layouts, pad_id)
    assert rows.rows == len(layouts) and len(rows) == max(len(layout) for layout in layouts)
    assert rows.ids.shape == (rows.rows, len(rows))
    for index, layout in enumerate(layouts):
        assert same(rows.row(index), layout)
        assert (rows.ids[index, len(layout) :] == pad_id).all()
        assert torch.equal(visible(rows)[index, : len(layout), : len(layout)], visible(layout))


def test_a_row_keeps_the_padding_inside_and_loses_the_padding_behind() -> None:
    layout = Layout.of([1, 2, 3, 4], document=[0, PADDING, 0, PADDING])
    assert layout.row(0).ids.tolist() == layout.batched().row(0).ids.tolist() == [1, 2, 3]
    assert len(Layout.of([1, 2], document=PADDING).row(0)) == 0


def test_batches_are_batched_row_after_row() -> None:
    rows = some_rows()
    more = batch([rows, masks.causal([1, 2]), rows[:2]])
    assert more.rows == 9 and len(more) == len(rows)
    assert same(more.row(4), masks.causal([1, 2])) and same(more.row(0), rows.row(0))


def test_a_single_sequence_becomes_a_batch_of_one_and_a_batch_stays() -> None:
    layout, rows = masks.causal([1, 2]), some_rows()
    assert layout.batched().ids.shape == (1, 2) and layout.rows == layout.batched().rows == 1
    assert rows.batched() is rows and rows.rows == 4


def test_the_first_token_of_every_document_is_marked_and_padding_never() -> None:
    packed = masks.pack([masks.causal([1, 2]), masks.causal([3]), masks.causal([4, 5])])
    assert packed.first.tolist() == [True, False, True, True, False]
    rows = batch([packed, masks.causal([6]), Layout.of([0], document=PADDING)])
    assert rows.first.tolist() == [packed.first.tolist(), [True] + [False] * 4, [False] * 5]
    late = Layout.of([0, 1, 2], document=[PADDING, 0, 0])
    assert late.first.tolist() == [False, True, False]
    assert Layout.of([1, 2, 3]).first.tolist() == [True, False, False]


def test_a_layout_names_its_size_and_kinds() -> None:
    layout = masks.two_stream([1, 2, 3], [2, 0, 1], mask=9, predict=2)
    assert repr(layout) == "Layout(1 × 5: 3 content, 2 query)"
    assert repr(Layout.of([])) == "Layout(1 × 0: empty)"


def test_one_token_can_be_taken_and_iteration_ends() -> None:
    layout = Layout.of([5, 6, 7])
    assert layout[1].ids.tolist() == [6]
    assert layout[-1].position.tolist() == [2]
    assert [int(token.ids) for token in layout] == [5, 6, 7]
    assert len(layout[[]]) == 0


def test_replacing_a_field_is_as_strict_as_making_one() -> None:
    layout = Layout.of([5, 6, 7])
    with pytest.raises(LayoutError, match="no field 'ranks'"):
        layout.replace(ranks=1)
    with pytest.raises(LayoutError, match="field 'rank' has shape"):
        layout.replace(rank=[4])


def test_mask_mod_takes_one_row_of_keys_for_many_rows_of_queries() -> None:
    queries, keys = Layout.of([[5, 6], [7, 8]], rank=[0, 1]), Layout.of([9, 9, 9], rank=[0, 1, 2])
    mod, seen = mask_mod(queries, keys), visible(queries, keys)
    got = [[[bool(mod(b, 0, q, k)) for k in range(3)] for q in range(2)] for b in range(2)]
    assert got == seen.tolist()


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 4), min_size=1, max_size=4), st.integers(-1, 1), st.integers(0, 3))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_what_is_told_of_all_pairs_is_true_of_each(tokens: list[tuple[int, ...]], document: int, kind: int) -> None:
    rank, horizon, branch, far = (torch.tensor(field) for field in zip(*tokens, strict=True))
    keys = Layout.of([5] * len(tokens), document=document, kind=kind, rank=rank, horizon=horizon, branch=branch)
    queries = keys.replace(horizon=horizon, reach=torch.where(far > 0, FAR, 0))
    if all_visible(queries, keys):
        assert visible(queries, keys).all()
    plain = Layout.of([5, 6, 7])
    assert all_visible(plain, plain)
    assert not all_visible(plain[:0], plain)


def test_no_tokens_can_be_taken_too() -> None:
    assert Layout.of([[1, 2, 3]]).take(torch.zeros(1, 0, dtype=torch.long)).shape == (1, 0)
