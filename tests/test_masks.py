"""Every constructor against the mask its paper publishes.

The definitions below are written from the papers, in their own words: tokens, spans, blocks and streams, one question
"may this row look at that token?" asked of every pair. They know nothing of ranks, horizons or kinds.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mask_cases import (
    CLS,
    GALLERY,
    MASK,
    PSEUDO,
    SEP,
    SOME,
    SPECIAL,
    Name,
    check,
    each_of_the_gallery,
    orders,
    rows_seen,
    seeded,
    sizes,
    spans_of,
    words,
)

from masquerade import masks
from masquerade.layout import FIELDS, IGNORE, PADDING, Layout, batch, join, pad, visible

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
