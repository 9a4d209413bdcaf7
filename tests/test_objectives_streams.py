"""Objectives that mask spans, pairs, orders, mixtures, blanks and blocks: what they draw, label, show and hide."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from masquerade import Layout, Model, Spec, build
from masquerade.errors import LayoutError
from masquerade.layout import FIELDS, IGNORE, Kind, visible
from masquerade.masks import bidirectional, causal
from masquerade.objectives.base import Example, Rng, Terms, chance
from masquerade.objectives.diffusion import BlockDiffusion, MaskedDiffusion
from masquerade.objectives.electra import GeneratorWords, replaced
from masquerade.objectives.glm import LongBlank, ShortBlanks
from masquerade.objectives.masked import MaskedWords
from masquerade.objectives.pairs import NextSentence, SentenceOrder
from masquerade.objectives.permutation import MaskedPermutedWords, PermutedWords
from masquerade.objectives.span import MaskedSpans
from masquerade.objectives.unilm import UnifiedWords

PAD, UNK, CLS, SEP, MASK = range(5)
TERMS = Terms(60, MASK, CLS, SEP, frozenset(range(5)), frozenset(range(50, 60)))
WORDS = dataclasses.replace(TERMS, continues=frozenset())  # the same, every token a word
OTHER = [6, 7, 8, 9, 10]
Make = Callable[[Sequence[int], Rng], Example]


def piece(n: int, seed: int = 0) -> list[int]:
    """[CLS], n ordinary tokens (some of them continuing words), [SEP]."""
    return [CLS, *np.random.default_rng(seed).integers(5, 60, n).tolist(), SEP]


def paired(objective: NextSentence | SentenceOrder) -> Make:
    """A pair objective called with one piece: its two halves are the sentences."""

    def make(ids: Sequence[int], rng: Rng) -> Example:
        words = [number for number in ids if number not in (CLS, SEP)]
        return objective(words[: len(words) // 2], words[len(words) // 2 :], OTHER, rng)

    return make


CLOZE: dict[str, Make] = {  # one row a token of the piece, in place
    "span": MaskedSpans(TERMS),
    "electra": GeneratorWords(TERMS),
    "diffusion": MaskedDiffusion(TERMS),
}
MAKERS: dict[str, Make] = CLOZE | {
    "next sentence": paired(NextSentence(TERMS)),
    "sentence order": paired(SentenceOrder(TERMS, MaskedSpans(TERMS))),
    "xlnet": PermutedWords(TERMS),
    "mpnet": MaskedPermutedWords(TERMS),
    "mpnet, noisy": MaskedPermutedWords(TERMS, rate=0.4, units=TERMS.words, noisy=True),
    "unilm": UnifiedWords(TERMS),
    "glm": ShortBlanks(TERMS),
    "glm, long": LongBlank(TERMS),
    "block 1": BlockDiffusion(TERMS, size=1),
    "block 4": BlockDiffusion(TERMS),
    "block any": BlockDiffusion(TERMS, size=None),
}


@pytest.fixture(scope="module")
def model() -> Model:
    """A tiny network in which everything matters."""
    torch.manual_seed(1)
    spec = Spec(vocab=60, width=16, layers=2, heads=2, feedforward=24, longest=128, segments=6, init_std=0.3)
    return build(dataclasses.replace(spec, positions=("learned", "inner"), outputs=("lm",))).eval()


def labelled(layout: Layout) -> list[int]:
    """The rows that predict a word."""
    return (layout.label != IGNORE).nonzero().squeeze(-1).tolist()


def restored(layout: Layout) -> list[int]:
    """The tokens with every label in its place."""
    return torch.where(layout.label == IGNORE, layout.ids, layout.label).tolist()


def same(one: Any, two: Any) -> bool:
    if isinstance(one, Layout):
        return all(torch.equal(getattr(one, name), getattr(two, name)) for name in FIELDS)
    return torch.equal(one, two) if isinstance(one, Tensor) else bool(one == two)


def fates(layout: Layout, rows: Sequence[int]) -> list[str]:
    """How each of the labelled rows is shown."""
    shown, label = layout.ids.tolist(), layout.label.tolist()
    return ["mask" if shown[r] == MASK else "kept" if shown[r] == label[r] else "drawn" for r in rows]


def assert_shares(values: Sequence[Any], expected: dict[Any, float], within: float = 0.03) -> None:
    for value, share in expected.items():
        assert sum(v == value for v in values) / len(values) == pytest.approx(share, abs=within), value


# what holds for all of them


@pytest.mark.parametrize("name", MAKERS)
def test_the_word_to_predict_does_not_move_the_row_that_predicts_it(name: str, model: Model) -> None:
    make, asked, shown, moved = MAKERS[name], 0, 0, 0
    for seed in range(12):
        ids = piece(14, seed)
        before = make(ids, chance(5, seed)).layout
        with torch.no_grad():
            scores = model.scores(before)[0]
        for index in range(1, 15):
            low, high = (50, 60) if ids[index] >= 50 else (5, 50)
            changed = [*ids]
            changed[index] = low + (ids[index] - low + 1 + seed) % (high - low)
            after = make(changed, chance(5, seed)).layout
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
    first = make(ids, chance(7, 3))
    make(ids[:9], chance(7, 3))
    torch.rand(3)
    again, elsewhere = make(ids, chance(7, 3)), make(ids, chance(7, 4))
    for field in dataclasses.fields(Example):
        assert same(getattr(first, field.name), getattr(again, field.name)), field.name
    assert not same(first.layout.label, elsewhere.layout.label) or not same(first.layout.rank, elsewhere.layout.rank)


TOKENS = st.lists(st.one_of(st.integers(5, 59), st.sampled_from([UNK, SEP])), max_size=24)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(words=TOKENS, around=st.booleans(), seed=st.integers(0, 99))
def test_special_tokens_are_never_predicted_and_labels_are_the_original_words(
    words: list[int], around: bool, seed: int
) -> None:
    ids = [CLS, *words, SEP] if around else words
    some = any(number not in TERMS.specials for number in ids)
    for name, make in MAKERS.items():
        layout = make(ids, chance(5, seed)).layout
        rows = labelled(layout)
        special = [row for row in rows if int(layout.label[row]) in TERMS.specials]
        if name.startswith("glm"):
            assert (layout.label[special] == SEP).all()  # the ends of blanks
            assert len(special) == len(set(layout.position[rows].tolist()))
        elif name == "unilm":
            assert special in ([], [len(layout) - 1])  # the end of the target
        else:
            assert special == []
        if some and name not in ("diffusion", "block 1", "block 4", "block any", "span"):
            assert rows
    for make in CLOZE.values():
        assert restored(make(ids, chance(5, seed)).layout) == ids
    for name in ("xlnet", "mpnet", "mpnet, noisy", "block 1", "block any"):
        layout = MAKERS[name](ids, chance(5, seed)).layout
        assert layout.ids[: len(ids)].tolist() == ids
        assert layout.label[: len(ids)].tolist() == [IGNORE] * len(ids)
        for row in labelled(layout):
            assert layout.label[row] == ids[layout.position[row]]


# SpanBERT


def spans_of(example: Example) -> list[list[int]]:
    assert example.spans is not None
    rows = zip(labelled(example.layout), example.spans.tolist(), strict=True)
    return [[row for row, _ in group] for _, group in groupby(rows, key=lambda pair: pair[1][:2])]


def test_spans_are_geometric_share_their_fate_and_cover_their_share() -> None:
    lengths, kinds = [], []
    for seed in range(40):
        ids = piece(2000, seed)
        layout, spans = (example := MaskedSpans(WORDS)(ids, chance(5, seed))).layout, spans_of(example)
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
    example = MaskedSpans(TERMS, rate=rate)(ids, chance(5, seed))
    chosen = labelled(example.layout)
    assert all(set(word) <= set(chosen) or not set(word) & set(chosen) for word in TERMS.words(ids))
    assert example.spans is not None and example.spans.shape == (len(chosen), 3)
    for row, (left, right, inner) in zip(chosen, example.spans.tolist(), strict=True):
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
    example = MaskedSpans(WORDS, rate=0.4, units=lambda ids: [list(range(10, 40))])(ids, chance(0))
    assert labelled(example.layout) == list(range(10, 40))
    assert example.spans is not None
    assert example.spans[:, 2].tolist() == [*range(20), *[19] * 10]


# pairs


def test_half_of_the_next_sentences_come_from_elsewhere() -> None:
    a, b, other = [11, 12, 13, 14], [21, 22, 23], [31, 32, 33, 34, 35]
    found = []
    for seed in range(400):
        example = NextSentence(TERMS)(a, b, other, chance(5, seed))
        second = other if example.verdict else b
        assert restored(example.layout) == [CLS, *a, SEP, *second, SEP]
        assert example.layout.segment.tolist() == [0] * 6 + [1] * (len(second) + 1)
        assert len(labelled(example.layout)) == 1
        assert bool(visible(example.layout).all())
        found.append(example.verdict)
    assert_shares(found, {0: 0.5, 1: 0.5}, 0.06)


def test_half_of_the_sentences_change_places() -> None:
    a, b = [11, 12, 13, 14], [21, 22, 23]
    found = []
    for seed in range(400):
        example = SentenceOrder(TERMS, MaskedSpans(TERMS))(a, b, OTHER, chance(5, seed))
        one, two = (b, a) if example.verdict else (a, b)
        assert restored(example.layout) == [CLS, *one, SEP, *two, SEP]
        assert example.layout.segment.tolist() == [0] * (len(one) + 2) + [1] * (len(two) + 1)
        assert example.spans is not None and len(example.spans) == len(labelled(example.layout)) == 1
        found.append(example.verdict)
    assert_shares(found, {0: 0.5, 1: 0.5}, 0.06)


def test_words_of_pairs_are_masked_as_berts_are() -> None:
    kinds = []
    for seed in range(100):
        layout = NextSentence(TERMS)(piece(60)[1:-1], piece(60, 1)[1:-1], piece(60, 2)[1:-1], chance(5, seed)).layout
        kinds += fates(layout, rows := labelled(layout))
        assert len(rows) == 18
    assert_shares(kinds, {"mask": 0.8, "drawn": 0.1, "kept": 0.1})


# ELECTRA


def test_the_generator_sees_nothing_but_masks() -> None:
    for seed in range(50):
        layout = GeneratorWords(TERMS)(piece(100), chance(5, seed)).layout
        assert set(fates(layout, labelled(layout))) == {"mask"}
        assert len(labelled(layout)) == 15
        assert bool(visible(layout).all())
    whole = labelled(GeneratorWords(TERMS, units=TERMS.words)(ids := piece(100), chance(0)).layout)
    assert all(set(word) <= set(whole) or not set(word) & set(whole) for word in TERMS.words(ids))


def test_the_discriminator_is_asked_which_words_were_replaced() -> None:
    ids = [CLS, 10, 11, UNK, 12, 13, 14, SEP]
    layout = GeneratorWords(TERMS, rate=0.6)(ids, chance(0)).layout
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
    with pytest.raises(LayoutError, match="3 blanks"):
        replaced(layout, sampled[:2])


# XLNet and MPNet


def test_xlnet_predicts_the_last_sixth_of_any_order_from_what_came_before() -> None:
    ids = [CLS, *range(10, 22), SEP, *range(22, 34), SEP]
    counts = np.zeros(len(ids))
    for seed in range(200):
        layout = PermutedWords(TERMS)(ids, chance(5, seed)).layout
        n, rows, seen = len(ids), labelled(layout), visible(layout)
        assert rows == list(range(n, n + 4))  # 24 / 6
        order = layout.rank[:n].argsort().tolist()
        assert sorted(order[:3]) == [0, 13, 26]
        assert layout.position[rows].tolist() == order[-4:]
        for row in rows:
            before = order[: order.index(layout.position[row])]
            assert seen[row].nonzero().squeeze(-1).tolist() == sorted(before)
            assert layout.ids[row] == MASK
            counts[layout.position[row]] += 1
    ordinary = [index for index, number in enumerate(ids) if number not in TERMS.specials]
    assert np.abs(counts[ordinary] / 200 - 1 / 6).max() < 0.1


class InOrder(np.random.Generator):
    """Chance that leaves everything as it stands."""

    def permutation(self, x: Any, axis: int = 0) -> Any:
        return np.asarray(x)


def test_xlnet_in_reading_order_is_gpt(model: Model) -> None:
    ids = list(range(10, 20))
    layout = PermutedWords(TERMS, parts=1)(ids, InOrder(np.random.PCG64(0))).layout
    assert same(layout[:10].replace(label=IGNORE), causal(ids))
    gpt = visible(causal(ids))
    assert torch.equal(visible(layout)[11:, :10], gpt[:-1])  # the query of word i sees what GPT's row i − 1 sees
    assert not visible(layout)[10].any()
    with torch.no_grad():
        torch.testing.assert_close(model.scores(layout)[0, :10], model.scores(causal(ids))[0])


def test_mpnet_predicts_as_many_words_as_bert_and_always_sees_every_position() -> None:
    ids = piece(40)
    for seed in range(100):
        layout = MaskedPermutedWords(TERMS)(ids, chance(5, seed)).layout
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
        layout = MaskedPermutedWords(TERMS, noisy=True)(piece(100), chance(5, seed)).layout
        plain = MaskedPermutedWords(TERMS)(piece(100), chance(5, seed)).layout
        assert layout.ids[102:117].tolist() == layout.ids[117:].tolist()
        assert all(same(getattr(layout, name), getattr(plain, name)) for name in FIELDS if name != "ids")
        kinds += fates(layout, labelled(layout))
    assert_shares(kinds, {"mask": 0.8, "drawn": 0.1, "kept": 0.1})


def test_mpnet_can_predict_whole_words() -> None:
    ids = piece(60)
    chosen = set(MaskedPermutedWords(TERMS, units=TERMS.words)(ids, chance(0)).layout.position[62:].tolist())
    assert all(set(word) <= chosen or not set(word) & chosen for word in TERMS.words(ids))


def test_mpnet_with_nothing_to_predict_is_bidirectional() -> None:
    ids = piece(12)
    for noisy in (False, True):
        assert same(MaskedPermutedWords(TERMS, rate=0, noisy=noisy)(ids, chance(0)).layout, bidirectional(ids))


# UniLM


def test_unilm_mixes_four_masks() -> None:
    ids, found, cuts = piece(20), [], []
    for seed in range(900):
        layout = UnifiedWords(TERMS)(ids, chance(5, seed)).layout
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
        layout = UnifiedWords(WORDS)(piece(200), chance(5, seed)).layout
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
        rows = labelled(UnifiedWords(WORDS, rate=0.01)(piece(1000), chance(5, seed)).layout)
        runs = [len(list(run)) for _, run in groupby(enumerate(rows), key=lambda pair: pair[1] - pair[0])]
        grams += runs
    assert_shares(grams, {1: 0.8, 2: 0.1, 3: 0.1}, 0.05)


def test_unilm_with_the_segments_of_a_bert_and_with_pieces_too_short_to_cut() -> None:
    seen = {
        tuple(UnifiedWords(TERMS, own_segments=False)(piece(9), chance(s)).layout.segment.unique().tolist())
        for s in range(40)
    }
    assert seen == {(0,), (0, 1)}
    assert all(len(UnifiedWords(TERMS)([CLS, 10, SEP], chance(5, seed)).layout) == 3 for seed in range(40))


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
        layout = ShortBlanks(TERMS)(ids, chance(5, seed)).layout
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
        layout = ShortBlanks(TERMS, rate=0.4, start=7, end=8)(piece(30), chance(5, seed)).layout
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
        layout = LongBlank(TERMS)(ids := piece(40, seed), chance(5, seed)).layout
        (blank,) = blanks_of(layout)
        assert refilled(layout) == ids
        assert (blank.ids[0], blank.label[-1]) == (CLS, SEP)
        context = layout[: len(layout) - len(blank)].ids.tolist()
        assert context[-2:] == [MASK, SEP] and context[:-2] == ids[: len(context) - 2]
        shares.append((len(blank) - 1) / 40)
    assert (min(shares), max(shares)) == (0.5, 1.0)
    assert np.mean(shares) == pytest.approx(0.75, abs=0.02)
    inside = LongBlank(TERMS, least=1.0)([CLS, 10, UNK, 11, SEP], chance(0)).layout
    assert inside.ids.tolist() == [CLS, MASK, SEP, CLS, 10, UNK, 11]
    assert inside.label.tolist() == [IGNORE] * 3 + [10, IGNORE, 11, SEP]


# diffusion


def test_masked_diffusion_masks_any_share_and_weighs_it() -> None:
    rates, counted = [], []
    for seed in range(300):
        example = MaskedDiffusion(TERMS)(piece(100), chance(5, seed))
        assert isinstance(example.weight, float) and example.weight >= 1
        rate = 1 / example.weight
        masked = len(labelled(example.layout))
        assert set(fates(example.layout, labelled(example.layout))) <= {"mask"}
        assert masked / 100 == pytest.approx(rate, abs=0.25)
        rates.append(rate)
        narrow = MaskedDiffusion(TERMS, rates=(0.3, 0.8))(piece(100), chance(5, seed))
        assert 1 / 0.8 <= narrow.weight < 1 / 0.3
        counted.append(len(labelled(narrow.layout)) * narrow.weight)
    assert np.mean(rates) == pytest.approx(0.5, abs=0.05)
    assert np.histogram(rates, 4, (0, 1))[0].min() > 50
    assert np.mean(counted) == pytest.approx(100, abs=3)  # every token counts once, on average


def test_blocks_have_rates_and_weights_of_their_own() -> None:
    rates = []
    for seed in range(40):
        example = BlockDiffusion(TERMS, size=50)(ids := piece(198, seed), chance(5, seed))
        layout, weight = example.layout, example.weight
        assert isinstance(weight, Tensor) and weight.shape == (400,)
        for block in range(4):
            part = slice(200 + 50 * block, 250 + 50 * block)
            assert len(set(weight[part].tolist())) == 1
            rates.append(1 / float(weight[part][0]))
            assert len(labelled(layout[part])) / 50 == pytest.approx(rates[-1], abs=0.3)
        assert restored(layout)[200:] == ids
    assert np.mean(rates) == pytest.approx(0.5, abs=0.08)
    assert len(set(rates)) == 160


@settings(derandomize=True, deadline=None, max_examples=40)
@given(n=st.integers(0, 20), size=st.integers(1, 24), seed=st.integers(0, 99))
def test_a_noisy_row_sees_the_clean_blocks_before_it_and_its_own_noisy_block(n: int, size: int, seed: int) -> None:
    ids = piece(n)
    layout = BlockDiffusion(TERMS, size=size)(ids, chance(5, seed)).layout
    block = torch.arange(n + 2) // size
    rows = visible(layout)[n + 2 :]
    assert torch.equal(rows[:, : n + 2], block[None] < block[:, None])
    assert torch.equal(rows[:, n + 2 :], block[None] == block[:, None])
    if size == 1:  # GPT: word i is predicted from the words before it
        assert torch.equal(rows[1:, : n + 2], visible(causal(ids))[:-1])


def test_one_block_for_all_is_masked_diffusion(model: Model) -> None:
    ids = piece(20)
    layout = BlockDiffusion(TERMS, size=22)(ids, chance(3)).layout
    assert labelled(layout)
    with torch.no_grad():
        whole = model.scores(bidirectional(layout.ids[22:]))[0]
        torch.testing.assert_close(model.scores(layout)[0, 22:], whole)


def test_a_network_for_all_block_sizes_sees_all_of_them() -> None:
    sizes = {
        int((BlockDiffusion(TERMS, size=None)(piece(6), chance(5, seed)).layout.rank == 0).sum()) // 2
        for seed in range(150)
    }
    assert sizes == set(range(1, 9))
    with pytest.raises(LayoutError, match="smallest block"):
        BlockDiffusion(TERMS, size=0)


def test_an_example_counts_once_unless_it_says_otherwise() -> None:
    assert MaskedWords(TERMS)(piece(9), chance(0)).weight == 1.0
