"""Every constructor against the mask its paper publishes.

The definitions below are written from the papers, in their own words: tokens, spans, blocks and streams, one question
"may this row look at that token?" asked of every pair. They know nothing of ranks, horizons or kinds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade import masks
from masquerade.errors import LayoutError
from masquerade.layout import FIELDS, IGNORE, PADDING, Layout, batch, join, pad, visible

seeded = settings(derandomize=True, deadline=None, max_examples=50)

MASK, PSEUDO, CLS, SEP = 3, 4, 1, 2  # ids of special tokens; words begin at 10
SPECIAL: dict[str, Any] = {"cls": CLS, "sep": SEP, "mask": MASK}  # those that a reader is given

Name = Any  # what a definition calls a token: its index, or its stream and its place there


def words(n: int, first: int = 10) -> list[int]:
    """n ids, all different."""
    return list(range(first, first + n))


def check(layout: Layout, tokens: Sequence[Name], may_see: Callable[[Name, Name], bool], **fields: Any) -> None:
    """The layout has these tokens, sees as the definition says, and its other fields are these lists."""
    assert len(layout) == len(tokens)
    drawn = [[bool(may_see(row, column)) for column in tokens] for row in tokens]
    assert visible(layout).tolist() == drawn
    plain = {"inner": 0, "segment": 0, "task": 0, "document": 0, "label": IGNORE}
    for name, value in plain.items():
        fields.setdefault(name, [value] * len(tokens))
    for name, values in fields.items():
        assert getattr(layout, name).tolist() == values, name


def rows_seen(layout: Layout) -> list[set[int]]:
    """Which tokens each row sees."""
    return [{k for k, seen in enumerate(row) if seen} for row in visible(layout).tolist()]


sizes = st.integers(0, 9)
orders = st.integers(1, 8).flatmap(lambda n: st.permutations(range(n)))


@st.composite
def spans_of(draw: st.DrawFn) -> tuple[int, list[list[int]]]:
    """A sentence length and disjoint spans of it (indices in any order), which need not cover it."""
    n = draw(st.integers(1, 9))
    chosen = draw(st.permutations(range(n)))[: draw(st.integers(0, n))]
    cuts = sorted(draw(st.sets(st.integers(1, max(len(chosen) - 1, 1)), max_size=4)))
    edges = [0, *(cut for cut in cuts if cut < len(chosen)), len(chosen)]
    return n, [list(chosen[a:b]) for a, b in pairwise(edges) if a < b]


# One stream


@seeded
@given(sizes)
def test_bert_sees_everything(n: int) -> None:
    check(masks.bidirectional(words(n)), words(n), lambda q, k: True, ids=words(n), position=list(range(n)))


def test_bert_has_the_segments_it_is_given() -> None:
    check(masks.bidirectional(words(3), [0, 0, 1]), words(3), lambda q, k: True, segment=[0, 0, 1])
    check(masks.bidirectional(words(3), 1), words(3), lambda q, k: True, segment=[1, 1, 1])


@seeded
@given(sizes)
def test_gpt_sees_itself_and_the_past(n: int) -> None:
    check(masks.causal(words(n)), range(n), lambda q, k: k <= q, ids=words(n), position=list(range(n)))


@seeded
@given(sizes)
def test_the_reversed_model_sees_itself_and_the_future(n: int) -> None:
    check(masks.backward(words(n)), range(n), lambda q, k: k >= q, ids=words(n), position=list(range(n)))


@seeded
@given(orders)
def test_a_permuted_model_sees_what_comes_before_in_its_order(order: list[int]) -> None:
    n = len(order)

    def may_see(q: int, k: int) -> bool:
        return order.index(k) <= order.index(q)

    layout = masks.permuted(words(n), order)
    check(layout, range(n), may_see, ids=words(n), position=list(range(n)))
    assert rows_seen(layout[order]) == rows_seen(masks.causal(words(n)))
    assert layout[order].position.tolist() == order


@seeded
@given(sizes, sizes)
def test_unilm_target_sees_the_source_and_its_own_past(source: int, target: int) -> None:
    tokens = [("source", i) for i in range(source)] + [("target", i) for i in range(target)]

    def may_see(q: Name, k: Name) -> bool:
        if k[0] == "source":
            return True
        return q[0] == "target" and k[1] <= q[1]

    check(
        masks.prefix(words(source), words(target, 50)),
        tokens,
        may_see,
        ids=words(source) + words(target, 50),
        position=list(range(source + target)),
        segment=[0] * source + [1] * target,
    )


@seeded
@given(st.integers(1, 6), st.data())
def test_glm_blanks_see_the_context_the_blanks_before_and_their_own_past(n: int, data: st.DataObject) -> None:
    places = data.draw(st.permutations(range(n)))[: data.draw(st.integers(0, min(n, 3)))]
    lengths = [data.draw(st.integers(0, 4)) for _ in places]
    part_a = [("A", i) for i in range(n)]
    part_b = [("B", s, i) for s, length in enumerate(lengths) for i in range(length)]

    def may_see(q: Name, k: Name) -> bool:
        if k[0] == "A":
            return True
        if q[0] == "A":
            return False
        _, q_span, q_place = q
        _, k_span, k_place = k
        return k_span < q_span or (k_span == q_span and k_place <= q_place)

    spans = [(place, words(lengths[s], 100 * (s + 1))) for s, place in enumerate(places)]
    check(
        masks.infill(words(n), spans),
        part_a + part_b,
        may_see,
        ids=words(n) + [token for _, ids in spans for token in ids],
        position=list(range(n)) + [places[s] for _, s, _ in part_b],
        inner=[0] * n + [i + 1 for _, _, i in part_b],
    )


# Several streams


@seeded
@given(orders, st.data())
def test_xlnet_content_and_queries(order: list[int], data: st.DataObject) -> None:
    n = len(order)
    predict = data.draw(st.one_of(st.none(), st.integers(0, n)))
    predicted = order if predict is None else order[n - predict :]
    tokens = [("content", i) for i in range(n)] + [("query", i) for i in predicted]

    def may_see(q: Name, k: Name) -> bool:
        if k[0] == "query":
            return False
        before, own = order[: order.index(q[1])], q[1]
        return k[1] in before or (q[0] == "content" and k[1] == own)

    check(
        masks.two_stream(words(n), order, mask=MASK, predict=predict),
        tokens,
        may_see,
        ids=words(n) + [MASK] * len(predicted),
        position=list(range(n)) + list(predicted),
        label=[IGNORE] * n + [10 + i for i in predicted],
    )


@seeded
@given(orders, st.data())
def test_mpnet_words_placeholders_and_queries(order: list[int], data: st.DataObject) -> None:
    n = len(order)
    known = data.draw(st.integers(0, n))
    given_words, predicted = order[:known], order[known:]
    tokens = [("word", i) for i in range(n)]
    tokens += [("placeholder", i) for i in predicted] + [("query", i) for i in predicted]

    def knows(q: Name) -> list[int]:
        """The words a row knows: those of the non-predicted part, and the predicted ones up to its own."""
        stream, i = q
        if stream == "placeholder" or i in given_words:
            return given_words
        before = order[: order.index(i)]
        return [*before, i] if stream == "word" else before

    def may_see(q: Name, k: Name) -> bool:
        stream, i = k
        if stream == "query":
            return False
        return i in knows(q) if stream == "word" else i not in knows(q)

    layout = masks.compensated(words(n), order, known=known, mask=MASK)
    check(
        layout,
        tokens,
        may_see,
        ids=words(n) + [MASK] * (2 * len(predicted)),
        position=list(range(n)) + 2 * list(predicted),
        label=[IGNORE] * (n + len(predicted)) + [10 + i for i in predicted],
    )
    for row in rows_seen(layout):
        assert sorted(int(layout.position[k]) for k in row) == list(range(n)), "a row misses or repeats a position"


@seeded
@given(spans_of(), st.booleans())
def test_unilmv2_sentence_words_and_pseudo_masks(drawn: tuple[int, list[list[int]]], own_mask: bool) -> None:
    n, spans = drawn
    masked = {i for span in spans for i in span}
    pseudo_id = PSEUDO if own_mask else MASK
    tokens: list[Name] = [("sentence", None, i) for i in range(n)]
    ids = [MASK if i in masked else 10 + i for i in range(n)]
    label = [10 + i if i in masked else IGNORE for i in range(n)]
    for step, span in enumerate(spans):
        tokens += [("word", step, i) for i in span] + [("pseudo", step, i) for i in span]
        ids += [10 + i for i in span] + [pseudo_id] * len(span)
        label += [IGNORE] * len(span) + [10 + i for i in span]

    def may_see(q: Name, k: Name) -> bool:
        if k[0] == "sentence":
            return True
        if q[0] == "sentence":
            return False
        if k[0] == "word":
            return k[1] < q[1] or (q[0] == "word" and k[1] == q[1])
        return q[0] == "pseudo" and k[1] == q[1]

    layout = masks.pseudo(words(n), spans, mask=MASK, pseudo_mask=PSEUDO if own_mask else None)
    check(layout, tokens, may_see, ids=ids, position=[i for _, _, i in tokens], label=label)


@seeded
@given(st.integers(0, 9), st.integers(1, 10), st.data())
def test_block_diffusion_is_block_diagonal_offset_block_causal_and_block_causal(
    n: int, size: int, data: st.DataObject
) -> None:
    hidden = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    noisy = [MASK if gone else 10 + i for i, gone in enumerate(hidden)]
    tokens = [("clean", i) for i in range(n)] + [("noisy", i) for i in range(n)]

    def may_see(q: Name, k: Name) -> bool:
        q_block, k_block = q[1] // size, k[1] // size
        block_diagonal = q[0] == k[0] == "noisy" and q_block == k_block
        offset_block_causal = q[0] == "noisy" and k[0] == "clean" and k_block < q_block
        block_causal = q[0] == k[0] == "clean" and k_block <= q_block
        return block_diagonal or offset_block_causal or block_causal

    check(
        masks.blocks(words(n), size, noisy=noisy),
        tokens,
        may_see,
        ids=words(n) + noisy,
        position=2 * list(range(n)),
        label=[IGNORE] * n + [10 + i if gone else IGNORE for i, gone in enumerate(hidden)],
    )


# Readers


@seeded
@given(sizes, sizes, st.integers(1, 4))
def test_a_masked_answer_is_read_by_all_with_its_masks_first(question: int, passage: int, length: int) -> None:
    asked, text = words(question, 50), words(passage, 100)
    ids = [CLS, *[MASK] * length, SEP, *asked, SEP, *text, SEP]
    layout = masks.masked_answer(asked, text, length, **SPECIAL)
    check(layout, ids, lambda q, k: True, ids=ids, position=list(range(len(ids))))
    assert layout.position[layout.ids == MASK].tolist() == list(range(1, length + 1))


@seeded
@given(sizes, st.lists(st.integers(0, 4), max_size=3), st.integers(1, 3), st.one_of(st.none(), st.integers(0, 5)))
def test_questions_of_a_shared_passage_see_it_and_themselves_and_not_each_other(
    passage: int, lengths: list[int], length: int, later: int | None
) -> None:
    text = [*words(passage, 100), SEP]
    questions = [words(size, 50) for size in lengths]
    asked = [[CLS, *[MASK] * length, SEP, *question, SEP] for question in questions]
    longest = max((len(ids) for ids in asked), default=0)
    start = None if later is None else longest + later
    tokens = [("passage", i) for i in range(len(text))]
    tokens += [(f"question {j}", i) for j, ids in enumerate(asked) for i in range(len(ids))]
    begin = longest if start is None else start
    layout = masks.shared_passage(text[:-1], questions, length, start=start, **SPECIAL)
    check(
        layout,
        tokens,
        lambda q, k: k[0] in ("passage", q[0]),
        ids=text + [token for ids in asked for token in ids],
        position=[begin + i for i in range(len(text))] + [i for ids in asked for i in range(len(ids))],
    )
    slots = layout.position[layout.ids == MASK].tolist()
    assert slots == list(range(1, length + 1)) * len(questions)


@seeded
@given(sizes, sizes, st.integers(1, 3))
def test_a_shared_passage_of_one_question_has_the_tokens_and_positions_of_the_full_reader(
    question: int, passage: int, length: int
) -> None:
    asked, text = words(question, 50), words(passage, 100)
    shared = masks.shared_passage(text, [asked], length, **SPECIAL)
    full = masks.masked_answer(asked, text, length, **SPECIAL)
    where = shared.position.argsort()
    assert torch.equal(shared[where].position, full.position) and torch.equal(shared[where].ids, full.ids)


# Layouts from layouts

GALLERY: dict[str, Layout] = {
    "bidirectional": masks.bidirectional(words(4)),
    "causal": masks.causal(words(4)),
    "backward": masks.backward(words(4)),
    "permuted": masks.permuted(words(4), [2, 0, 3, 1]),
    "prefix": masks.prefix(words(3), words(2, 50)),
    "infill": masks.infill(words(4), [(2, words(2, 50)), (0, words(3, 60))]),
    "two_stream": masks.two_stream(words(4), [2, 0, 3, 1], mask=MASK),
    "compensated": masks.compensated(words(4), [2, 0, 3, 1], known=2, mask=MASK),
    "pseudo": masks.pseudo(words(5), [[3, 1], [4]], mask=MASK),
    "blocks": masks.blocks(words(5), 2, noisy=[MASK] * 5),
    "masked_answer": masks.masked_answer(words(2), words(3), 2, **SPECIAL),
    "shared_passage": masks.shared_passage(words(3), [words(1), words(2)], 1, **SPECIAL),
}
SOME = st.sampled_from(sorted(GALLERY))
each_of_the_gallery = pytest.mark.parametrize("name", list(GALLERY))


@seeded
@given(st.lists(SOME, min_size=1, max_size=4))
def test_a_pack_is_its_sequences_side_by_side_unseen_by_each_other(names: list[str]) -> None:
    parts = [GALLERY[name] for name in names]
    alone = [visible(part).tolist() for part in parts]
    tokens = [(number, i) for number, part in enumerate(parts) for i in range(len(part))]
    packed = masks.pack(parts)
    check(
        packed,
        tokens,
        lambda q, k: q[0] == k[0] and alone[q[0]][q[1]][k[1]],
        document=[number for number, _ in tokens],
        **{name: getattr(join(parts), name).tolist() for name in FIELDS if name != "document"},
    )
    assert packed.first.tolist() == [i == 0 for _, i in tokens]


def test_a_pack_of_packs_is_one_pack_and_padding_inside_it_stays_padding() -> None:
    one, two, three = masks.causal(words(2)), masks.bidirectional(words(3)), masks.causal(words(1))
    nested = masks.pack([masks.pack([one, pad(two, 4)]), Layout.of([]), three])
    assert nested.document.tolist() == [0, 0, 1, 1, 1, PADDING, 2]
    everything_padding = masks.pack([Layout.of([0], document=PADDING), three])
    assert everything_padding.document.tolist() == [PADDING, 0]


@seeded
@given(sizes, st.integers(0, 10))
def test_a_window_is_local_attention(n: int, width: int) -> None:
    check(masks.window(masks.bidirectional(words(n)), width), range(n), lambda q, k: abs(q - k) <= width)
    check(masks.window(masks.causal(words(n)), width), range(n), lambda q, k: q - width <= k <= q)


@each_of_the_gallery
@pytest.mark.parametrize("width", [0, 1, 3])
def test_a_window_takes_away_what_is_farther_and_nothing_else(name: str, width: int) -> None:
    layout = GALLERY[name]
    position, before = layout.position.tolist(), visible(layout).tolist()
    narrow = masks.window(layout, width)
    check(
        narrow,
        range(len(layout)),
        lambda q, k: before[q][k] and abs(position[q] - position[k]) <= width,
        **{field: getattr(layout, field).tolist() for field in FIELDS if field != "reach"},
    )
    for again in (masks.window(narrow, width + 1), masks.window(masks.window(layout, width + 1), width)):
        assert torch.equal(visible(again), visible(narrow))


@seeded
@given(SOME.filter(lambda name: name != "compensated"), st.integers(0, 4), st.integers(-3, 9), st.booleans())
def test_a_memory_is_seen_by_every_row_and_sees_only_itself(name: str, n: int, shift: int, named: bool) -> None:
    layout = GALLERY[name].replace(position=GALLERY[name].position + shift)
    without = visible(layout).tolist()
    tokens = [("memory", i) for i in range(n)] + [("segment", i) for i in range(len(layout))]

    def may_see(q: Name, k: Name) -> bool:
        if k[0] == "memory":
            return True
        return q[0] == "segment" and without[q[1]][k[1]]

    first = min(layout.position.tolist())
    memory_ids = words(n, 70) if named else [0] * n
    check(
        masks.with_memory(layout, n, memory_ids if named else None),
        tokens,
        may_see,
        ids=memory_ids + layout.ids.tolist(),
        position=[first - n + i for i in range(n)] + layout.position.tolist(),
        label=[IGNORE] * n + layout.label.tolist(),
        inner=[0] * n + layout.inner.tolist(),
        segment=[0] * n + layout.segment.tolist(),
    )


def test_a_memory_stands_before_each_row_of_a_batch_and_padding_does_not_see_it() -> None:
    late = masks.causal(words(2)).replace(position=[5, 6])
    rows = batch([masks.causal(words(3)), late])
    longer = masks.with_memory(rows, 2, words(2, 70))
    assert longer.ids.tolist() == [[70, 71, 10, 11, 12], [70, 71, 10, 11, 0]]
    assert longer.position.tolist() == [[-2, -1, 0, 1, 2], [3, 4, 5, 6, 0]]
    for index in range(2):
        single = masks.with_memory(rows.row(index), 2)
        n = len(single)
        assert torch.equal(visible(longer)[index, :n, :n], visible(single))
    assert not visible(longer)[1, 4].any() and not visible(longer)[1, :, 4].any()


def test_a_memory_belongs_to_the_document_it_goes_before() -> None:
    second = masks.pack([masks.causal(words(2)), masks.causal(words(3))])[2:]
    assert masks.with_memory(second, 2).document.tolist() == [1] * 5


def test_a_memory_is_seen_by_a_row_that_looks_at_nothing_else() -> None:
    layout = Layout.of(words(2), rank=[0, 1], horizon=[-3, 1])
    assert rows_seen(layout) == [set(), {0, 1}]
    assert rows_seen(masks.with_memory(layout, 2)) == [{0, 1}, {0, 1}, {0, 1}, {0, 1, 2, 3}]


def test_a_window_over_a_memory_forgets_what_is_too_far() -> None:
    layout = masks.window(masks.with_memory(masks.causal(words(3)), 3), 2)
    assert rows_seen(layout)[3:] == [{1, 2, 3}, {2, 3, 4}, {3, 4, 5}]


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
        ("order too short", lambda: masks.permuted(four, [0, 1, 2]), "An order of 4 tokens has to name each of 0 … 3"),
        ("order repeats", lambda: masks.two_stream(four, [0, 1, 2, 2], mask=MASK), "An order of 4 tokens"),
        ("order outside", lambda: masks.compensated(four, [1, 2, 3, 4], known=1, mask=MASK), "An order of 4 tokens"),
        ("blank behind", lambda: masks.infill(four, [(4, [5])]), "blank at index 4 lies outside of its context of 4"),
        ("blank before", lambda: masks.infill(four, [(-1, [5])]), "blank at index -1 lies outside"),
        ("predict more", lambda: masks.two_stream(four, range(4), mask=MASK, predict=5), "5 of 4 tokens .* predicted"),
        ("predict less", lambda: masks.two_stream(four, range(4), mask=MASK, predict=-1), "-1 of 4 tokens .* predict"),
        ("know more", lambda: masks.compensated(four, range(4), known=5, mask=MASK), "5 of 4 tokens cannot be known"),
        ("know less", lambda: masks.compensated(four, range(4), known=-1, mask=MASK), "-1 of 4 tokens cannot be known"),
        ("spans overlap", lambda: masks.pseudo(four, [[0, 1], [1]], mask=MASK), "spans of a pseudo-masked .* overlap"),
        ("blocks of none", lambda: masks.blocks(four, 0, noisy=four), "Blocks of 0 tokens do not exist"),
        ("noise too short", lambda: masks.blocks(four, 2, noisy=[1]), "1 noisy tokens do not match 4 clean ones"),
        ("no slot to read", lambda: masks.masked_answer(four, four, 0, **SPECIAL), "answer of 0 tokens cannot be read"),
        ("no slot to share", lambda: masks.shared_passage(four, [four], 0, **SPECIAL), "answer of 0 tokens"),
        (
            "passage too early",
            lambda: masks.shared_passage(four, [four, [5]], 1, start=7, **SPECIAL),
            "passage from position 7 on runs into a question of 8 tokens",
        ),
        ("pack of batches", lambda: masks.pack([one, rows]), "single sequences can be packed, .* has 2 rows"),
        ("pack of nothing", lambda: masks.pack([]), "nothing to join"),
        ("window of less", lambda: masks.window(one, -1), "A window of -1 positions sees nothing"),
        ("memory of a pack", lambda: masks.with_memory(packed, 2), "memory goes before one document a row; .* packed"),
        ("memory of nothing", lambda: masks.with_memory(Layout.of([]), 2), "memory goes before one .* empty or packed"),
        ("memory misnamed", lambda: masks.with_memory(one, 2, [5]), "A memory of 2 tokens needs 2 ids"),
        ("memory of less", lambda: masks.with_memory(one, -1), "cannot be negative"),
        ("memory of holes", lambda: masks.with_memory(GALLERY["compensated"], 2), "cannot stand before placeholders"),
        ("span outside", lambda: masks.pseudo(four, [[4]], mask=MASK), "token outside of the 4 there are"),
        ("span before", lambda: masks.pseudo(four, [[-1]], mask=MASK), "token outside of the 4 there are"),
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
