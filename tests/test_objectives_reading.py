"""Objectives that mask words, spans, pairs and orders: what they draw, label, show and hide."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import groupby
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_cases import (
    CLOZE,
    CLS,
    MAKERS,
    MASK,
    SEP,
    TERMS,
    UNK,
    WORDS,
    Make,
    assert_shares,
    fates,
    labelled,
    piece,
    restored,
    same,
)

from masquerade import Model, Spec, build
from masquerade.data.examples import Example
from masquerade.data.rng import rng_for
from masquerade.errors import LayoutError
from masquerade.layout import FIELDS, IGNORE, Kind, visible
from masquerade.masks import bidirectional, causal
from masquerade.objectives.electra import ReplacedTokens, replaced
from masquerade.objectives.masked import MaskedTokens
from masquerade.objectives.next_token import NextToken, PreviousToken
from masquerade.objectives.permutation import MaskedPermutedTokens, PermutedTokens
from masquerade.objectives.span import MaskedSpans
from masquerade.objectives.t5 import runs


@pytest.fixture(scope="module")
def model() -> Model:
    """A tiny network in which everything matters."""
    torch.manual_seed(1)
    spec = Spec(vocab=60, width=16, layers=2, heads=2, feedforward=24, longest=128, segments=6, init_std=0.3)
    return build(dataclasses.replace(spec, positions=("learned", "inner"), outputs=("lm",))).eval()


# what holds for all of them


@pytest.mark.parametrize("name", MAKERS)
def test_the_word_to_predict_does_not_move_the_row_that_predicts_it(name: str, model: Model) -> None:
    make, asked, shown, moved = MAKERS[name], 0, 0, 0
    for seed in range(12):
        ids = piece(14, seed)
        before = make(ids, rng_for(5, seed)).layout
        with torch.no_grad():
            scores = model.scores(before)[0]
        for index in range(1, 15):
            low, high = (50, 60) if ids[index] >= 50 else (5, 50)
            changed = [*ids]
            changed[index] = low + (ids[index] - low + 1 + seed) % (high - low)
            after = make(changed, rng_for(5, seed)).layout
            assert all(same(getattr(before, f), getattr(after, f)) for f in FIELDS if f not in ("ids", "label"))
            rows = (before.label != after.label).nonzero().squeeze(-1)
            assert before.label[rows].tolist() == [ids[index]] * len(rows)
            blind = rows[before.ids[rows] == after.ids[rows]]  # the others are the one in ten that is kept, shown
            asked, shown = asked + len(blind), shown + len(rows) - len(blind)
            if len(rows):
                with torch.no_grad():
                    now = model.scores(after)[0]
                assert torch.equal(scores[blind], now[blind])
                moved += int(not torch.equal(scores, now))
    assert asked > 15
    bare = name in ("electra", "diffusion", "xlnet", "mpnet") or name.startswith(("glm", "block"))
    assert shown == 0 if bare else 0 < shown < asked
    assert moved > 0 or name in ("electra", "diffusion")  # the network does notice, elsewhere or where it is shown


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_chance_makes_the_same_example(name: str) -> None:
    ids, make = piece(30), MAKERS[name]
    first = make(ids, rng_for(7, 3))
    make(ids[:9], rng_for(7, 3))
    torch.rand(3)
    again, elsewhere = make(ids, rng_for(7, 3)), make(ids, rng_for(7, 4))
    for field in dataclasses.fields(Example):
        assert same(getattr(first, field.name), getattr(again, field.name)), field.name
    different = not all(same(getattr(first.layout, name), getattr(elsewhere.layout, name)) for name in FIELDS)
    assert different != (name == "block 1"), "blocks of one token are all masked"


TOKENS = st.lists(st.one_of(st.integers(5, 59), st.sampled_from([UNK, SEP])), max_size=24)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(words=TOKENS, around=st.booleans(), seed=st.integers(0, 99))
def test_special_tokens_are_never_predicted_and_labels_are_the_original_words(
    words: list[int], around: bool, seed: int
) -> None:
    ids = [CLS, *words, SEP] if around else words
    some = any(number not in TERMS.specials for number in ids)
    for name, make in MAKERS.items():
        layout = make(ids, rng_for(5, seed)).layout
        rows = labelled(layout)
        special = [row for row in rows if int(layout.label[row]) in TERMS.specials]
        if name.startswith("glm"):
            assert (layout.label[special] == SEP).all()  # the ends of blanks
            assert len(special) == len(set(layout.position[rows].tolist()))
        elif name in ("unilm", "diffusion") or name.startswith("block"):
            assert special in ([], [len(layout) - 1])  # the end of the text
        else:
            assert special == []
        if some and name != "span":
            assert rows
    for make in CLOZE.values():
        assert restored(make(ids, rng_for(5, seed)).layout) == ids
    for name in ("xlnet", "mpnet", "mpnet, noisy", "block 1", "block any"):
        layout = MAKERS[name](ids, rng_for(5, seed)).layout
        assert layout.ids[: len(ids)].tolist() == ids
        assert layout.label[: len(ids)].tolist() == [IGNORE] * len(ids)
        for row in labelled(layout):
            assert layout.label[row] == ids[layout.position[row]]


# GPT and BERT


@pytest.mark.parametrize(("objective", "step"), [(NextToken(TERMS), 1), (PreviousToken(TERMS), -1)])
def test_a_token_predicts_its_neighbour_and_has_not_seen_it(objective: Make, step: int, model: Model) -> None:
    ids = piece(10)
    layout = objective(ids, rng_for(0)).layout
    for index, label in enumerate(layout.label.tolist()):
        ahead = index + step
        assert label == (ids[ahead] if 0 <= ahead < len(ids) else IGNORE)
        if label != IGNORE:
            other = objective([*ids[:ahead], (label + 1) % 60, *ids[ahead + 1 :]], rng_for(0)).layout
            with torch.no_grad():
                assert torch.equal(model.scores(layout)[0, index], model.scores(other)[0, index])


def test_bert_masks_fifteen_percent_eight_to_one_to_one() -> None:
    shown: list[str] = []
    for seed in range(200):
        layout = MaskedTokens(TERMS)(piece(100, seed), rng_for(1, seed)).layout
        rows = labelled(layout)
        assert len(rows) == 15
        shown += fates(layout, rows)
    assert_shares(shown, {"mask": 0.8, "drawn": 0.1, "kept": 0.1})


def test_whole_words_are_masked_whole_and_reach_the_share() -> None:
    for seed in range(50):
        ids = piece(100, seed)
        chosen = set(labelled(MaskedTokens(TERMS, units=TERMS.words)(ids, rng_for(1, seed)).layout))
        assert all(set(word) <= chosen or not set(word) & chosen for word in TERMS.words(ids))
        assert 12 <= len(chosen) <= 15


# SpanBERT


def boundaries(example: Example) -> list[tuple[int, ...]]:
    """For each masked token: the tokens left and right of its span, and its place in the span."""
    if "boundary_label" not in example.extra:
        return []
    left, right, place, label = (
        example.extra[f"boundary_{name}"].tensor.tolist() for name in ("left", "right", "place", "label")
    )
    assert label == [number for number in example.layout.label.tolist() if number != IGNORE]
    return list(zip(left, right, place, strict=True))


def spans_of(example: Example) -> list[list[int]]:
    rows = zip(labelled(example.layout), boundaries(example), strict=True)
    return [[row for row, _ in group] for _, group in groupby(rows, key=lambda pair: pair[1][:2])]


def test_spans_are_geometric_share_their_fate_and_cover_their_share() -> None:
    lengths, kinds = [], []
    for seed in range(40):
        ids = piece(2000, seed)
        layout, spans = (example := MaskedSpans(WORDS)(ids, rng_for(5, seed))).layout, spans_of(example)
        assert sum(map(len, spans)) == 300
        assert restored(layout) == ids
        lengths += [len(span) for span in spans]
        for span in spans:
            found = set(fates(layout, span))
            assert found == {"mask"} or "mask" not in found
            kinds.append("drawn" if "drawn" in found else found.pop())
    assert np.mean(lengths) == pytest.approx(3.8, abs=0.15)
    assert (min(lengths), max(lengths)) == (1, 10)
    whole = 1 - 0.8**10
    assert_shares(lengths, {length: 0.2 * 0.8 ** (length - 1) / whole for length in (1, 2, 5, 10)})
    assert_shares(kinds, {"mask": 0.8, "drawn": 0.1, "kept": 0.1})


@settings(derandomize=True, deadline=None, max_examples=80)
@given(words=TOKENS, around=st.booleans(), seed=st.integers(0, 99), rate=st.sampled_from([0.15, 0.5]))
def test_spans_are_whole_words_between_two_tokens_that_are_shown(
    words: list[int], around: bool, seed: int, rate: float
) -> None:
    ids = [CLS, *words, SEP] if around else words
    example = MaskedSpans(TERMS, rate=rate)(ids, rng_for(5, seed))
    chosen = labelled(example.layout)
    assert all(set(word) <= set(chosen) or not set(word) & set(chosen) for word in TERMS.words(ids))
    for row, (left, right, inner) in zip(chosen, boundaries(example), strict=True):
        assert 0 <= left < row < right < len(ids)
        assert inner == min(row - left - 1, 19)
        assert left not in chosen and right not in chosen
        assert example.layout.ids[left] == ids[left] and example.layout.ids[right] == ids[right]
        assert set(range(left + 1, right)) <= set(chosen)
    if around and any(number >= 5 for number in words):
        assert chosen
    assert bool(visible(example.layout).all())


def test_spans_can_be_counted_in_words_of_a_segmenter_and_places_are_clipped() -> None:
    ids = piece(60)
    example = MaskedSpans(WORDS, rate=0.4, units=lambda ids: [list(range(10, 40))])(ids, rng_for(0))
    assert labelled(example.layout) == list(range(10, 40))
    assert [place for _, _, place in boundaries(example)] == [*range(20), *[19] * 10]


# ELECTRA


def test_the_generator_sees_nothing_but_masks() -> None:
    for seed in range(50):
        layout = ReplacedTokens(TERMS)(piece(100), rng_for(5, seed)).layout
        assert set(fates(layout, labelled(layout))) == {"mask"}
        assert len(labelled(layout)) == 15
        assert bool(visible(layout).all())
    whole = labelled(ReplacedTokens(TERMS, units=TERMS.words)(ids := piece(100), rng_for(0)).layout)
    assert all(set(word) <= set(whole) or not set(word) & set(whole) for word in TERMS.words(ids))


def test_the_discriminator_is_asked_which_words_were_replaced() -> None:
    ids = [CLS, 10, 11, UNK, 12, 13, 14, SEP]
    layout = ReplacedTokens(TERMS, rate=0.6)(ids, rng_for(0)).layout
    places = labelled(layout)
    assert len(places) == 3
    sampled = torch.tensor([ids[places[0]], 40, 41])  # right, wrong, wrong
    shown, changed = replaced(layout, sampled)
    assert changed.nonzero().squeeze(-1).tolist() == places[1:]
    assert [shown.ids[place] for place in places] == sampled.tolist()
    assert labelled(shown) == []
    kept = [index for index in range(len(ids)) if index not in places]
    assert shown.ids[kept].tolist() == [ids[index] for index in kept]
    assert shown.rank.tolist() == layout.rank.tolist()
    with pytest.raises(LayoutError, match="3 masks"):
        replaced(layout, sampled[:2])


# XLNet and MPNet


@pytest.mark.parametrize("context", ["visible", "permuted"])
def test_xlnet_predicts_a_sixth_in_spans_from_what_came_before(context: str) -> None:
    ids = [CLS, *range(10, 22), SEP, *range(22, 34), SEP]
    counts, lengths = np.zeros(len(ids)), Counter[int]()
    for seed in range(200):
        layout = PermutedTokens(TERMS, context=context)(ids, rng_for(5, seed)).layout
        n, rows, seen = len(ids), labelled(layout), visible(layout)
        assert rows == list(range(n, n + 4))  # 24 / 6
        targets = layout.position[rows].tolist()
        known = [index for index in range(n) if index not in targets]
        for number, row in enumerate(rows):
            assert seen[row].nonzero().squeeze(-1).tolist() == sorted(known + targets[:number])
            assert layout.ids[row] == MASK
            counts[layout.position[row]] += 1
        among = seen[known][:, known]
        assert not seen[known][:, targets].any()
        assert bool(among.all()) == (context == "visible")
        if context == "permuted":
            order = layout.rank[:n].argsort().tolist()
            assert sorted(order[:3]) == [0, 13, 26]
            rank = layout.rank[known]
            assert torch.equal(among, rank[None] <= rank[:, None])
        lengths.update(len(run) for run in runs(sorted(targets)))
    ordinary = [index for index, number in enumerate(ids) if number not in TERMS.specials]
    assert np.abs(counts[ordinary] / 200 - 1 / 6).max() < 0.11
    assert set(lengths) == {1, 2, 3, 4}


class InOrder(np.random.Generator):
    """Chance that leaves everything as it stands."""

    def permutation(self, x: Any, axis: int = 0) -> Any:
        return np.arange(x) if isinstance(x, int) else np.asarray(x)


def test_xlnet_in_reading_order_is_gpt(model: Model) -> None:
    ids = list(range(10, 20))
    layout = PermutedTokens(TERMS, parts=1, context="permuted")(ids, InOrder(np.random.PCG64(0))).layout
    assert same(layout[:10].replace(label=IGNORE), causal(ids))
    gpt = visible(causal(ids))
    assert torch.equal(visible(layout)[11:, :10], gpt[:-1])  # the query of word i sees what GPT's row i − 1 sees
    assert not visible(layout)[10].any()
    with torch.no_grad():
        torch.testing.assert_close(model.scores(layout)[0, :10], model.scores(causal(ids))[0])


def test_mpnet_predicts_as_many_words_as_bert_and_always_sees_every_position() -> None:
    ids = piece(40)
    for seed in range(100):
        layout = MaskedPermutedTokens(TERMS)(ids, rng_for(5, seed)).layout
        n, rows, seen = len(ids), labelled(layout), visible(layout)
        assert rows == list(range(n + 6, n + 12))
        assert set(layout.ids[n:].tolist()) == {MASK}
        for step, row in enumerate(rows):
            keys = seen[row].nonzero().squeeze(-1)
            assert sorted(layout.position[keys].tolist()) == list(range(n))  # each position once
            unknown = keys[layout.kind[keys] == Kind.PLACEHOLDER]
            assert layout.position[unknown].tolist() == layout.position[rows[step:]].tolist()
        assert torch.equal(seen[:n].sum(1), torch.full((n,), n))


def test_mpnets_noise_is_shown_by_masks_and_queries_alike() -> None:
    kinds = []
    for seed in range(200):
        layout = MaskedPermutedTokens(TERMS, noisy=True)(piece(100), rng_for(5, seed)).layout
        plain = MaskedPermutedTokens(TERMS)(piece(100), rng_for(5, seed)).layout
        assert layout.ids[102:117].tolist() == layout.ids[117:].tolist()
        assert all(same(getattr(layout, name), getattr(plain, name)) for name in FIELDS if name != "ids")
        kinds += fates(layout, labelled(layout))
    assert_shares(kinds, {"mask": 0.8, "drawn": 0.1, "kept": 0.1})


def test_mpnet_can_predict_whole_words() -> None:
    ids = piece(60)
    chosen = set(MaskedPermutedTokens(TERMS, units=TERMS.words)(ids, rng_for(0)).layout.position[62:].tolist())
    assert all(set(word) <= chosen or not set(word) & chosen for word in TERMS.words(ids))


def test_mpnet_with_nothing_to_predict_is_bidirectional() -> None:
    ids = piece(12)
    for noisy in (False, True):
        assert same(MaskedPermutedTokens(TERMS, rate=0, noisy=noisy)(ids, rng_for(0)).layout, bidirectional(ids))
