"""A passage that its questions share, and where it is shared no more: who sees whom, and what the network reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mask_cases import seeded
from reader_cases import (
    CLS,
    MASK,
    PAD,
    ROWS,
    SEP,
    SHEET,
    Packing,
    asked_in,
    network,
    packed,
    packings,
    passages,
    questions,
    shared,
    spec,
    words,
)  # fmt: skip

from masquerade import Cache, Layout, Spec
from masquerade.errors import LayoutError, SpecError
from masquerade.layout import IGNORE, Kind, batch, join, visible
from masquerade.masks import forked, masked_answer, opened, pack
from masquerade.reading.layouts import Window
from masquerade.reading.memory import encode_passages, encode_questions

LAYERS = 3
each_fork = pytest.mark.parametrize("fork", range(LAYERS + 1))
answers = st.lists(words, max_size=5).map(lambda ids: [*ids, SEP])  # some are longer than the slots
tellings = st.lists(st.tuples(questions, answers, st.booleans()), min_size=1, max_size=3)


def alone(question: Sequence[int], passage: Sequence[int]) -> Layout:
    return masked_answer(question, passage, SHEET.slots, cls=CLS, sep=SEP, mask=MASK)


# ---------------------------------------------------------------------------------------------------- who sees whom


@seeded
@given(packings)
def test_a_forked_layout_is_one_masked_answer_a_branch_in_order(rows: Packing) -> None:
    layout = packed(rows)
    apart, index = forked(layout)
    expected = [alone(question, passage) for question, passage in asked_in(rows)]
    assert index is not None
    assert index.shape == apart.ids.shape == (len(expected), max(map(len, expected)))
    seen, taken = visible(apart), layout.ids.flatten()[index]
    for row, whole in enumerate(expected):
        n = len(whole)
        assert apart.real[row].tolist() == [True] * n + [False] * (len(apart) - n)
        assert apart.ids[row, :n].tolist() == taken[row, :n].tolist() == whole.ids.tolist()
        head = n - len(asked_in(rows)[row][1]) - 1
        places = [*range(head), *range(SHEET.start, SHEET.start + n - head)]
        assert apart.position[row].tolist() == places + [0] * (len(apart) - n)
        assert torch.equal(seen[row, :n, :n], visible(whole))
        assert not seen[row, n:].any(), "padding sees nothing"
        assert not seen[row, :, n:].any(), "and nobody sees it"
    assert (apart.label == IGNORE).all()
    assert (apart.branch == 0).all()


@seeded
@given(packings)
def test_below_the_fork_no_passage_sees_a_question_and_no_question_another(rows: Packing) -> None:
    names: list[list[Any]] = []
    for number, row in enumerate(rows):
        names.append([])
        for document, (passage, asked) in enumerate(row):
            names[-1] += [(number, document, 0)] * (len(passage) + 1)
            for branch, ids in enumerate(asked, start=1):
                names[-1] += [(number, document, branch)] * (len(ids) + SHEET.slots + 3)
    longest = max(map(len, names))
    names = [row + [None] * (longest - len(row)) for row in names]

    def may_see(q: Any, k: Any) -> bool:
        return q is not None and k is not None and q[:2] == k[:2] and k[2] in (0, q[2])

    drawn = [[[may_see(q, k) for k in row] for q in row] for row in names]
    assert visible(packed(rows)).tolist() == drawn


@seeded
@given(st.lists(st.tuples(passages, tellings), min_size=1, max_size=3))
def test_above_the_fork_words_see_those_before_and_masks_what_they_ask_for_not_at_all(
    told: list[tuple[list[int], list[tuple[list[int], list[int], bool]]]],
) -> None:
    parts, names = [], []
    for passage, asked in told:
        inside = [SHEET.trunk(passage)]
        for number, (question, answer, written) in enumerate(asked, start=1):
            inside.append((SHEET.with_answer if written else SHEET.with_labels)(question, answer, number))
            held, slots = answer[: SHEET.slots], SHEET.slots
            own = [("known", 0)] * (len(question) + 3 + (0 if written else slots))
            own += [(kind, i) for kind in ("word", "mask") for i in range(len(held))] if written else []
            names.append(own + [("known", 0)] * (len(passage) + 1))
        parts.append(join(inside))
    layout = pack(parts)
    apart, _ = forked(layout)

    def may_see(q: Any, k: Any) -> bool:
        if k[0] == "known":
            return True
        if k[0] == "word":
            return (q[0] == "word" and k[1] <= q[1]) or (q[0] == "mask" and k[1] < q[1])
        return q == k

    for row, own in enumerate(names):
        drawn = [[may_see(q, k) for k in own] for q in own]
        assert visible(apart.row(row)).tolist() == drawn
        assert (opened(apart.row(row)).branch == 0).all()


@seeded
@given(questions, answers, st.integers(1, 3))
def test_what_is_written_is_labelled_with_the_answer_and_stands_in_the_slots_places(
    question: list[int], answer: list[int], number: int
) -> None:
    held = answer[: SHEET.slots]
    for layout in (SHEET.with_answer(question, answer, number), SHEET.with_labels(question, answer, number)):
        asked = layout.label != IGNORE
        assert layout.label[asked].tolist() == held
        assert layout.position[asked].tolist() == [1 + i for i in range(len(held))]
        assert layout.ids[asked].tolist() == [MASK] * len(held)
        assert layout.branch.tolist() == [number] * len(layout)
    written = SHEET.with_answer(question, answer, number)
    content = written.kind == Kind.CONTENT
    assert written.ids[content].tolist() == [CLS, SEP, *question, SEP, *held]
    assert not (written.position >= SHEET.start).any()


def test_without_branches_nothing_is_copied_and_all_is_opened() -> None:
    prompt = SHEET.canvas([([6, 7], [8, 9, 10]), ([6], [8])]).prompt
    rows, index = forked(prompt)
    assert index is None
    assert torch.equal(visible(rows), prompt.real[:, :, None] & prompt.real[:, None])
    assert not torch.equal(visible(rows), visible(prompt)), "before, the passage does not see its question"


# ------------------------------------------------------------------------------------------------------ the network

KINDS: dict[str, dict[str, Any]] = {
    "learned": {},
    "norm first": {"norm_first": True},
    "rotary": {"positions": ("rotary",)},
    "nezha": {"positions": ("nezha",), "max_distance": 8},
    "buckets": {"positions": ("buckets",)},
    "shared layers": {"groups": 1, "embedding": 8},
}
each_kind = pytest.mark.parametrize("kind", list(KINDS))


@each_kind
@each_fork
@torch.inference_mode()
def test_questions_of_shared_rows_are_read_as_each_would_be_alone(kind: str, fork: int) -> None:
    model = network(fork, **KINDS[kind])
    states = model.hidden(packed(ROWS))
    asked = asked_in(ROWS)
    assert len(states) == len(asked)
    for row, (question, passage) in zip(states, asked, strict=True):
        single = model.hidden(shared(passage, [question]))[0]
        assert torch.allclose(row[: len(single)], single, atol=1e-5)


@each_kind
@torch.inference_mode()
def test_sharing_through_no_layer_is_the_full_reader_and_through_all_the_plain_mask(kind: str) -> None:
    free = network(None, **KINDS[kind])
    for fork in (0, LAYERS):
        model = network(fork, **KINDS[kind])
        layout = packed(ROWS)
        rows, index = forked(layout)
        assert index is not None
        if fork:  # the plain network under the shared mask, its tokens in the forked order
            plain = free.hidden(layout).flatten(0, 1)[index]
        else:  # under masked_answer, at the same positions
            wholes = [alone(question, passage) for question, passage in asked_in(ROWS)]
            plain = free.hidden(batch(wholes, PAD).replace(position=rows.position))
        assert torch.allclose(model.hidden(layout)[rows.real], plain[rows.real], atol=1e-5)


@torch.inference_mode()
def test_every_fork_reads_in_a_way_of_its_own() -> None:
    layout = packed(ROWS)
    real = forked(layout)[0].real
    states = [network(fork).hidden(layout)[real] for fork in range(LAYERS + 1)]
    for one in range(LAYERS + 1):
        for other in range(one):
            assert not torch.allclose(states[one], states[other], atol=1e-3)


WINDOWS = [Window(0, tuple(passage), (), (0, len(passage))) for row in ROWS for passage, _ in row]
ASKED = [asked or [[12]] for row in ROWS for _, asked in row]


@each_kind
@each_fork
@torch.inference_mode()
def test_a_passage_read_first_and_its_questions_later_are_what_one_pass_gives(kind: str, fork: int) -> None:
    model = network(fork, **KINDS[kind])
    kept = encode_passages(model, SHEET, WINDOWS)
    assert [len(each.layers) for each in kept] == [fork] * len(WINDOWS)
    rows = encode_questions(model, SHEET, kept, ASKED)
    whole = batch([shared(window.ids, asked) for window, asked in zip(WINDOWS, ASKED, strict=True)], PAD)
    layout, _ = forked(whole)
    assert torch.equal(rows.layout.real, layout.real)
    for name in ("ids", "position"):
        assert torch.equal(getattr(rows.layout, name)[layout.real], getattr(layout, name)[layout.real])
    assert torch.allclose(rows.states[layout.real], model.hidden(whole)[layout.real], atol=1e-5)


@each_fork
@torch.inference_mode()
def test_layers_run_in_two_passes_give_what_one_gives(fork: int) -> None:
    model, layout = network(fork), packed(ROWS)
    whole, real = model.hidden(layout), forked(layout)[0].real
    below = model.stack(model.embed(layout), layout, steps=range(fork)).states
    assert below.shape == (*layout.ids.shape, model.spec.width), "it does not fork before its layer"
    again = model.stack(below, layout, steps=range(fork, LAYERS + 1)).states
    assert torch.allclose(again[real], whole[real], atol=1e-5)


@each_fork
@torch.inference_mode()
def test_a_question_knows_nothing_of_the_others_in_its_row(fork: int) -> None:
    model = network(fork)
    changed = [[list(document) for document in row] for row in ROWS]
    changed[0][0][1] = [[12, 13], [17, 17, 17, 17]]  # the second question of the first passage
    changed[1][0][1] = [[35], [30, 31], [38]]
    before, after = (model.hidden(packed(rows)) for rows in (ROWS, changed))  # type: ignore[arg-type]
    real = forked(packed(ROWS))[0].real
    same = [torch.allclose(a[r], b[r], atol=1e-6) for a, b, r in zip(before, after, real, strict=True)]
    assert same == [True, False, True, True, False, True, True]


@each_fork
@torch.inference_mode()
def test_a_passage_knows_its_question_above_the_fork_and_not_below(fork: int) -> None:
    model, passage = network(fork), [30, 31, 32, 33, 34]
    layouts = [shared(passage, [question]).batched() for question in ([35, 36], [40, 41])]
    trunk = len(passage) + 1
    below = [model.stack(model.embed(each), each, steps=range(fork)).states[:, :trunk] for each in layouts]
    assert torch.allclose(below[0], below[1], atol=1e-6)
    above = [model.hidden(each)[:, -trunk:] for each in layouts]
    assert torch.allclose(above[0], above[1], atol=1e-6) == (fork == LAYERS)


@each_fork
@torch.inference_mode()
def test_a_word_of_the_answer_is_known_to_later_words_and_masks_alone(fork: int) -> None:
    model, question, answer, passage = network(fork), [12, 13], [21, 22, 23, SEP], [20, 21, 22, 23, 24, 25]

    def states(ids: list[int]) -> torch.Tensor:
        layout = join(
            [SHEET.trunk(passage), SHEET.with_answer(question, ids, 1), SHEET.with_labels([14], [21, SEP], 2)]
        )
        return model.hidden(layout)

    before, head, count = states(answer), len(question) + 3, len(answer)
    for place in range(count):
        after = states([40 if index == place else word for index, word in enumerate(answer)])
        moved = ((before - after).abs().amax(-1) > 1e-6).tolist()
        assert moved[0][:head] == [False] * head, "the question"
        assert moved[0][head : head + count] == [index >= place for index in range(count)], "the words"
        masks = slice(head + count, head + 2 * count)
        assert moved[0][masks] == [index > place for index in range(count)], "the masks, none before or at it"
        assert not any(moved[0][masks.stop :]), "the passage"
        assert not any(moved[1]), "another question"


@each_fork
@torch.inference_mode()
def test_an_answer_written_behind_a_cache_is_what_one_pass_gives(fork: int) -> None:
    model, answer = network(fork), [21, 22, SEP]
    layout = join([SHEET.trunk([20, 21, 22, 23]), SHEET.with_answer([12, 13], answer, 1)])
    whole, index = model.hidden(layout), forked(layout)[1]
    assert index is not None
    words = len(layout) - 2 * len(answer)
    cache = Cache()
    parts = [model.hidden(layout[:words], cache)]
    for place in range(len(answer)):
        parts.append(model.hidden(layout[[words + place, words + len(answer) + place]], cache))
        cache.crop(len(cache) - 1)  # the mask has asked
    found = torch.cat([parts[0], *(part[:, :1] for part in parts[1:]), *(part[:, 1:] for part in parts[1:])], dim=1)
    assert torch.allclose(found[0][index[0]], whole[0], atol=1e-5)


@each_fork
def test_a_cache_of_all_layers_takes_what_is_exact_and_refuses_the_rest(fork: int) -> None:
    model = network(fork)
    trunk, question, other = SHEET.trunk([20, 21, 22]), SHEET.branch([12]), SHEET.branch([13], 2)
    cache = Cache()
    model.hidden(trunk, cache)
    if fork == LAYERS:  # the passage never sees a question: any number of them may come later
        model.hidden(question, cache)
        model.hidden(other, cache)
        return
    with pytest.raises(LayoutError, match="no longer shared sees its question"):
        model.hidden(question, cache)
    with pytest.raises(LayoutError, match="a question a row"):
        model.hidden(join([trunk, question, other]), Cache())
    both = Cache()
    model.hidden(join([trunk, question]), both)
    assert len(both) == len(trunk) + len(question)


def test_a_passage_cannot_be_shared_through_more_layers_than_there_are() -> None:
    with pytest.raises(SpecError, match="before layer 4 of 3"):
        spec(LAYERS + 1)
    with pytest.raises(SpecError, match="before layer -1 of 3"):
        spec(-1)
    assert Spec.of(json.loads(spec(2).json())) == spec(2)
    old = json.loads(spec(None).json()) | {"fork": 2}  # as configurations said it before
    del old["between"]
    assert Spec.of(old) == spec(2)


def test_tokens_cannot_be_asked_for_before_a_passage_is_taken_apart() -> None:
    layout = shared([5, 6], [[7], [8]])
    with pytest.raises(LayoutError, match="leave 'at' out"):
        network(fork=1).hidden(layout, at=layout.real)


def test_the_token_type_of_a_passage_is_the_settings_and_that_of_a_question_is_0() -> None:
    sizes = replace(SHEET, segment=1)
    whole = join([sizes.trunk([7, 8]), sizes.branch([9])])
    assert whole.segment.tolist() == (whole.branch == 0).long().tolist()
    assert SHEET.trunk([7, 8]).segment.tolist() == [0, 0, 0]
