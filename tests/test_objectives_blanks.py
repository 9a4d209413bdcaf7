"""Objectives that mix masks, take out blanks, and denoise blocks: what they draw, label, show and hide."""

from __future__ import annotations

import dataclasses
import math
from itertools import groupby, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_cases import (
    CLS,
    MASK,
    SEP,
    TERMS,
    UNK,
    WORDS,
    assert_shares,
    fates,
    labelled,
    piece,
    restored,
)
from torch import Tensor

from masquerade import Layout, Model, Spec, build
from masquerade.data.corpus import Tokens
from masquerade.data.rng import rng_for, spread
from masquerade.errors import LayoutError
from masquerade.layout import IGNORE, visible
from masquerade.masks import bidirectional, causal
from masquerade.objectives.diffusion import BlockDiffusion, MaskedDiffusion
from masquerade.objectives.glm import LongBlank, ShortBlanks
from masquerade.objectives.unilm import UnifiedMasks


@pytest.fixture(scope="module")
def model() -> Model:
    """A tiny network in which everything matters."""
    torch.manual_seed(1)
    spec = Spec(vocab=60, width=16, layers=2, heads=2, feedforward=24, longest=128, segments=6, init_std=0.3)
    return build(dataclasses.replace(spec, positions=("learned", "inner"), outputs=("lm",))).eval()


# UniLM


def test_unilm_mixes_four_masks() -> None:
    ids, found, cuts = piece(20), [], []
    for seed in range(900):
        layout = UnifiedMasks(TERMS)(ids, rng_for(5, seed)).layout
        segment = layout.segment.tolist()
        assert len(labelled(layout)) == 3
        if 5 not in segment:
            assert restored(layout) == ids
            assert len(set(segment)) == 1
            found.append(segment[0])
        else:
            cut = segment.index(5)
            assert segment == [4] * cut + [5] * (23 - cut)
            whole = restored(layout)
            assert whole[cut - 1] == SEP and whole[: cut - 1] + whole[cut:] == ids
            assert whole[cut] not in TERMS.continues
            found.append(4)
            cuts.append(cut)
        n = len(layout)
        who = torch.arange(n)
        expected = {
            0: torch.ones(n, n, dtype=torch.bool),
            2: who[None] <= who[:, None],
            3: who[None] >= who[:, None],
            4: (who[None] < segment.count(4)) | ((who[:, None] >= segment.count(4)) & (who[None] <= who[:, None])),
        }[found[-1]]
        assert torch.equal(visible(layout), expected)
    assert_shares(found, {0: 1 / 3, 4: 1 / 3, 2: 1 / 6, 3: 1 / 6}, 0.045)
    assert len(set(cuts)) == len(TERMS.words(ids)) - 1


def test_unilm_masks_in_source_and_target_and_the_end_too() -> None:
    source, ends, targets = 0, 0, 0
    kinds, grams = [], []
    for seed in range(500):
        layout = UnifiedMasks(WORDS)(piece(200), rng_for(5, seed)).layout
        if 5 not in layout.segment:
            continue
        rows = labelled(layout)
        assert len(rows) == 30  # 15 % of 200 words and the end
        kinds += fates(layout, rows)
        ends += rows[-1] == len(layout) - 1
        source += int((layout.segment[rows] == 4).sum())
        targets += int((layout.segment[rows] == 5).sum())
    assert source / targets == pytest.approx(1, abs=0.15)
    assert ends / (len(kinds) / 30) == pytest.approx(30 / 201, abs=0.06)
    assert_shares(kinds, {"mask": 0.8, "drawn": 0.1, "kept": 0.1})
    for seed in range(200):  # few enough that masks hardly ever touch by chance
        rows = labelled(UnifiedMasks(WORDS, rate=0.01)(piece(1000), rng_for(5, seed)).layout)
        runs = [len(list(run)) for _, run in groupby(enumerate(rows), key=lambda pair: pair[1] - pair[0])]
        grams += runs
    assert_shares(grams, {1: 0.8, 2: 0.1, 3: 0.1}, 0.05)


def test_unilm_with_the_segments_of_a_bert_and_with_pieces_too_short_to_cut() -> None:
    seen = {
        tuple(UnifiedMasks(TERMS, own_segments=False)(piece(9), rng_for(s)).layout.segment.unique().tolist())
        for s in range(40)
    }
    assert seen == {(0,), (0, 1)}
    assert all(len(UnifiedMasks(TERMS)([CLS, 10, SEP], rng_for(5, seed)).layout) == 3 for seed in range(40))


# GLM


def blanks_of(layout: Layout) -> list[Layout]:
    """The blanks in the order in which they are written."""
    starts = [*(layout.inner == 1).nonzero().squeeze(-1).tolist(), len(layout)]
    return [layout[a:b] for a, b in pairwise(starts)]


def refilled(layout: Layout) -> list[int]:
    """The context with the predicted words in its blanks."""
    words = {int(blank.position[0]): blank.label[:-1].tolist() for blank in blanks_of(layout)}
    context = layout[: int((layout.inner == 0).sum())].ids.tolist()
    return [number for place, token in enumerate(context) for number in words.get(place, [token])]


def test_glm_takes_out_poisson_spans_until_enough_is_gone() -> None:
    lengths, last, rising = [], [], 0
    for seed in range(100):
        ids = piece(400, seed)
        layout = ShortBlanks(TERMS)(ids, rng_for(5, seed)).layout
        blanks = blanks_of(layout)
        assert refilled(layout) == ids
        sizes = [len(blank) - 1 for blank in blanks]
        assert 60 <= sum(sizes) < 60 + max(sizes)
        places = [int(blank.position[0]) for blank in blanks]
        assert all(layout.ids[place] == MASK for place in places)
        assert min(np.diff(sorted(places))) > 1  # a token between any two masks
        lengths += sizes
        last.append(sizes[-1])
        rising += places[0] < places[1]
    assert np.mean(lengths) == pytest.approx(3 / (1 - math.exp(-3)), abs=0.15)
    zero = math.exp(-3)
    assert_shares(lengths, {k: zero * 3**k / math.factorial(k) / (1 - zero) for k in (1, 2, 3, 6)})
    assert 0.35 < rising / 100 < 0.65
    assert np.mean(last) < 3.6  # the span drawn last tends to be long, but need not be written last


def test_glm_writes_blanks_one_after_another() -> None:
    for seed in range(30):
        layout = ShortBlanks(TERMS, rate=0.4, start=7, end=8)(piece(30), rng_for(5, seed)).layout
        seen, known = visible(layout), int((layout.inner == 0).sum())
        assert labelled(layout) == list(range(known, len(layout)))
        for row in labelled(layout):
            assert seen[row].tolist() == [True] * (row + 1) + [False] * (len(layout) - row - 1)
        assert torch.equal(seen[:known], torch.arange(len(layout)).expand(known, -1) < known)
        for blank in blanks_of(layout):
            assert blank.ids[0] == 7 and blank.label[-1] == 8
            assert blank.ids[1:].tolist() == blank.label[:-1].tolist()
            assert blank.inner.tolist() == list(range(1, len(blank) + 1))


def test_a_long_blank_is_the_end_of_the_piece() -> None:
    shares = []
    for seed in range(300):
        layout = LongBlank(TERMS)(ids := piece(40, seed), rng_for(5, seed)).layout
        (blank,) = blanks_of(layout)
        assert refilled(layout) == ids
        assert (blank.ids[0], blank.label[-1]) == (CLS, SEP)
        context = layout[: len(layout) - len(blank)].ids.tolist()
        assert context[-2:] == [MASK, SEP] and context[:-2] == ids[: len(context) - 2]
        shares.append((len(blank) - 1) / 40)
    assert (min(shares), max(shares)) == (0.5, 1.0)
    assert np.mean(shares) == pytest.approx(0.75, abs=0.02)
    inside = LongBlank(TERMS, least=1.0)([CLS, 10, UNK, 11, SEP], rng_for(0)).layout
    assert inside.ids.tolist() == [CLS, MASK, SEP, CLS, 10, UNK, 11]
    assert inside.label.tolist() == [IGNORE] * 3 + [10, IGNORE, 11, SEP]


# diffusion


def test_masked_diffusion_masks_any_number_and_weights_sum_to_the_length() -> None:
    counts, narrow = [], []
    for seed in range(300):
        example = MaskedDiffusion(TERMS)(ids := piece(29, seed), rng_for(5, seed))
        rows, weight = labelled(example.layout), example.extra["weight"].tensor
        assert set(fates(example.layout, rows)) <= {"mask"}
        assert restored(example.layout) == ids
        assert float(weight[rows].sum()) == pytest.approx(30), "29 tokens and the end"
        assert example.extra["token_count"].tensor.tolist() == [30]
        counts.append(len(rows))
        narrow.append(len(labelled(MaskedDiffusion(TERMS, rates=(0.3, 0.8))(ids, rng_for(5, seed)).layout)))
    assert set(counts) == set(range(1, 31))
    assert np.histogram(counts, 3, (1, 31))[0].min() > 80
    assert (min(narrow), max(narrow)) == (10, 24)


def test_the_end_of_a_text_is_predicted_by_diffusion() -> None:
    for make in (MaskedDiffusion(TERMS), BlockDiffusion(TERMS, size=4)):
        ends = [int(make(piece(10), rng_for(5, seed)).layout.label[-1]) for seed in range(60)]
        assert set(ends) == {SEP, IGNORE}


def test_blocks_have_counts_and_weights_of_their_own() -> None:
    rates = []
    for seed in range(40):
        example = BlockDiffusion(TERMS, size=50)(ids := piece(198, seed), rng_for(5, seed))
        layout, weight = example.layout, example.extra["weight"].tensor
        assert isinstance(weight, Tensor) and weight.shape == (400,)
        counts = []
        for block in range(4):
            part = slice(200 + 50 * block, 250 + 50 * block)
            rows = [200 + 50 * block + row for row in labelled(layout[part])]
            assert float(weight[rows].sum()) == pytest.approx(49 if block == 0 else 50)  # [CLS] is never masked
            counts.append(len(rows) / 50)
        assert restored(layout)[200:] == ids
        assert np.histogram(counts, 4, (0, 1.001))[0].max() <= 2, "spread evenly over the blocks"
        rates += counts
    assert np.mean(rates) == pytest.approx(0.5, abs=0.05)
    sizes_of_one = BlockDiffusion(TERMS, size=1)(piece(9), rng_for(0))
    assert len(labelled(sizes_of_one.layout)) == 10, "blocks of one token are GPT"


def test_numbers_of_masks_are_spread_evenly_over_successive_examples() -> None:
    draws = [spread(place, 3) for place in range(64)]
    assert set(np.histogram(draws, 8, (0, 1))[0].tolist()) <= {7, 8, 9}
    tokens = Tokens(np.full(64 * 14, 20, dtype=np.uint32), np.arange(14, 64 * 14 + 1, 14))
    objective = MaskedDiffusion(TERMS)
    pieces = objective.cut(tokens, 16)
    made = [objective.example(pieces, number, rng_for(1, number), spread(number)) for number in range(64)]
    counts = np.bincount([len(labelled(example.layout)) for example in made], minlength=16)[1:]
    assert counts.min() >= 3
    assert counts.max() <= 6


@settings(derandomize=True, deadline=None, max_examples=40)
@given(n=st.integers(0, 20), size=st.integers(1, 24), seed=st.integers(0, 99))
def test_a_noisy_row_sees_the_clean_blocks_before_it_and_its_own_noisy_block(n: int, size: int, seed: int) -> None:
    ids = piece(n)
    layout = BlockDiffusion(TERMS, size=size)(ids, rng_for(5, seed)).layout
    block = torch.arange(n + 2) // size
    rows = visible(layout)[n + 2 :]
    assert torch.equal(rows[:, : n + 2], block[None] < block[:, None])
    assert torch.equal(rows[:, n + 2 :], block[None] == block[:, None])
    if size == 1:  # GPT: word i is predicted from the words before it
        assert torch.equal(rows[1:, : n + 2], visible(causal(ids))[:-1])


def test_one_block_for_all_is_masked_diffusion(model: Model) -> None:
    ids = piece(20)
    layout = BlockDiffusion(TERMS, size=22)(ids, rng_for(3)).layout
    assert labelled(layout)
    with torch.no_grad():
        whole = model.scores(bidirectional(layout.ids[22:]))[0]
        torch.testing.assert_close(model.scores(layout)[0, 22:], whole)


def test_a_network_for_all_block_sizes_sees_all_of_them() -> None:
    sizes = {
        int((BlockDiffusion(TERMS, size=None)(piece(6), rng_for(5, seed)).layout.rank == 0).sum()) // 2
        for seed in range(150)
    }
    assert sizes == set(range(1, 9))
    with pytest.raises(LayoutError, match="smallest block"):
        BlockDiffusion(TERMS, size=0)
