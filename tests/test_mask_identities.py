"""Masks that are the same by another name, and what cannot be laid out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mask_cases import (
    GALLERY,
    MASK,
    SPECIAL,
    each_of_the_gallery,
    orders,
    rows_seen,
    seeded,
    sizes,
    words,
)

from masquerade import masks
from masquerade.errors import LayoutError
from masquerade.layout import Layout, batch, visible

# Identities


@seeded
@given(st.integers(1, 9))
def test_blocks_of_one_are_gpt(n: int) -> None:
    layout = masks.blocks(words(n), 1, noisy=[MASK] * n)
    assert torch.equal(visible(layout[:n]), visible(masks.causal(words(n))))
    assert rows_seen(layout)[n:] == [{*range(i), n + i} for i in range(n)]


@seeded
@given(st.integers(1, 9), st.integers(0, 3))
def test_a_block_of_everything_is_masked_diffusion(n: int, more: int) -> None:
    layout = masks.blocks(words(n), n + more, noisy=[MASK] * n)
    assert rows_seen(layout)[n:] == [set(range(n, 2 * n))] * n
    assert rows_seen(layout)[:n] == [set(range(n))] * n


@seeded
@given(st.integers(1, 6), sizes)
def test_one_blank_at_the_end_is_seen_as_a_unilm_target(context: int, answer: int) -> None:
    blank = masks.infill(words(context), [(context - 1, words(answer, 50))])
    target = masks.prefix(words(context), words(answer, 50))
    assert torch.equal(visible(blank), visible(target)) and torch.equal(blank.ids, target.ids)


@seeded
@given(st.integers(1, 9))
def test_a_query_in_reading_order_sees_what_gpt_sees_when_it_predicts_that_token(n: int) -> None:
    layout = masks.two_stream(words(n), list(range(n)), mask=MASK)
    predicting = rows_seen(masks.causal(words(n)))
    assert rows_seen(layout)[n:] == [set(), *predicting[: n - 1]]
    assert rows_seen(layout)[:n] == predicting


@seeded
@given(orders)
def test_mpnet_with_everything_known_is_bert(order: list[int]) -> None:
    layout = masks.compensated(words(len(order)), order, known=len(order), mask=MASK)
    plain = masks.bidirectional(words(len(order)))
    assert torch.equal(visible(layout), visible(plain)) and torch.equal(layout.ids, plain.ids)


@seeded
@given(orders)
def test_a_permutation_forwards_is_gpt_and_backwards_the_reversed_model(order: list[int]) -> None:
    n = len(order)
    forwards, backwards = masks.permuted(words(n), range(n)), masks.permuted(words(n), range(n)[::-1])
    assert torch.equal(visible(forwards), visible(masks.causal(words(n))))
    assert torch.equal(visible(backwards), visible(masks.backward(words(n))))
    content = masks.two_stream(words(n), order, mask=MASK, predict=0)
    assert torch.equal(visible(content), visible(masks.permuted(words(n), order)))


def test_an_order_may_be_a_tensor_and_ids_too() -> None:
    order, ids = [2, 0, 1], words(3)
    for make in (masks.permuted, lambda i, o: masks.compensated(i, o, known=1, mask=MASK)):
        from_lists, from_tensors = make(ids, order), make(torch.tensor(ids), torch.tensor(order))
        assert torch.equal(visible(from_lists), visible(from_tensors))
        assert torch.equal(from_lists.ids, from_tensors.ids)


def test_no_constructor_changes_the_ids_it_is_given() -> None:
    ids = torch.tensor(words(4))
    masks.pseudo(ids, [[1, 2]], mask=MASK)
    masks.blocks(ids, 2, noisy=ids)
    masks.two_stream(ids, range(4), mask=MASK)
    assert ids.tolist() == words(4)


@each_of_the_gallery
def test_every_row_sees_something_but_the_query_of_the_first_word_in_an_order(name: str) -> None:
    blind = [int(row) for row in (~visible(GALLERY[name]).any(-1)).nonzero()]
    assert blind == ([4] if name == "two_stream" else [])


def test_the_whole_gallery_packs_into_one_row_and_batches_into_many() -> None:
    packed, rows = masks.pack(list(GALLERY.values())), batch(list(GALLERY.values()))
    assert Counter(packed.document.tolist()) == {i: len(layout) for i, layout in enumerate(GALLERY.values())}
    for index, layout in enumerate(GALLERY.values()):
        assert torch.equal(visible(rows.row(index)), visible(layout))


# Errors


def refusals() -> list[tuple[str, Callable[[], Layout], str]]:
    """What cannot be laid out, and a part of what is said about it."""
    four = words(4)
    one, rows = masks.causal(four), batch([masks.causal(four), masks.causal(four)])
    packed = masks.pack([one, one])
    return [
        ("ids of two rows", lambda: masks.causal(torch.ones(2, 2)), r"one sequence of ids, .* shape \(2, 2\)"),
        ("ids of none", lambda: masks.bidirectional(torch.tensor(5)), r"one sequence of ids, .* shape \(\)"),
        (
            "order too short",
            lambda: masks.permuted(four, [0, 1, 2]),
            "order of 4 tokens has to contain each of 0",
        ),
        ("order repeats", lambda: masks.two_stream(four, [0, 1, 2, 2], mask=MASK), "An order of 4 tokens"),
        ("order outside", lambda: masks.compensated(four, [1, 2, 3, 4], known=1, mask=MASK), "An order of 4 tokens"),
        ("blank behind", lambda: masks.infill(four, [(4, [5])]), "blank at index 4 is outside of its context of 4"),
        ("blank before", lambda: masks.infill(four, [(-1, [5])]), "blank at index -1 is outside"),
        ("predict more", lambda: masks.two_stream(four, range(4), mask=MASK, predict=5), "5 of 4 tokens .* predicted"),
        ("predict less", lambda: masks.two_stream(four, range(4), mask=MASK, predict=-1), "-1 of 4 tokens .* predict"),
        ("know more", lambda: masks.compensated(four, range(4), known=5, mask=MASK), "5 of 4 tokens cannot be known"),
        ("know less", lambda: masks.compensated(four, range(4), known=-1, mask=MASK), "-1 of 4 tokens cannot be known"),
        ("spans overlap", lambda: masks.pseudo(four, [[0, 1], [1]], mask=MASK), "spans of a pseudo-masked .* overlap"),
        ("blocks of none", lambda: masks.blocks(four, 0, noisy=four), "A block cannot have 0 tokens"),
        ("noise too short", lambda: masks.blocks(four, 2, noisy=[1]), "1 noisy tokens do not match 4 clean ones"),
        ("no slot to read", lambda: masks.masked_answer(four, four, 0, **SPECIAL), "answer cannot have 0 slots"),
        ("no slot to share", lambda: masks.shared_passage(four, [four], 0, **SPECIAL), "answer cannot have 0 slots"),
        (
            "passage too early",
            lambda: masks.shared_passage(four, [four, [5]], 1, start=7, **SPECIAL),
            "passage at position 7 overlaps a question of 8 tokens",
        ),
        ("pack of batches", lambda: masks.pack([one, rows]), "single sequences can be packed, .* has 2 rows"),
        ("pack of nothing", lambda: masks.pack([]), "nothing to join"),
        ("window of less", lambda: masks.window(one, -1), "A window of -1 positions is impossible"),
        ("memory of a pack", lambda: masks.with_memory(packed, 2), "memory needs one document a row, .* packed"),
        ("memory of nothing", lambda: masks.with_memory(Layout.of([]), 2), "memory needs one .* empty or packed"),
        ("memory misnamed", lambda: masks.with_memory(one, 2, [5]), "A memory of 2 tokens needs 2 ids"),
        ("memory of less", lambda: masks.with_memory(one, -1), "cannot be negative"),
        ("memory of holes", lambda: masks.with_memory(GALLERY["compensated"], 2), "cannot go with placeholders"),
        ("span outside", lambda: masks.pseudo(four, [[4]], mask=MASK), "index outside of the 4 tokens"),
        ("span before", lambda: masks.pseudo(four, [[-1]], mask=MASK), "index outside of the 4 tokens"),
        (
            "segments misfit",
            lambda: masks.bidirectional(four, [0, 1]),
            "'segment' has shape .2,. for tokens of shape .4,.",
        ),
    ]


@pytest.mark.parametrize(("make", "message"), [pytest.param(*rest, id=name) for name, *rest in refusals()])
def test_what_cannot_be_masked_is_refused_with_the_reason(make: Callable[[], Layout], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        make()
