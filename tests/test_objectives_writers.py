"""Objectives of encoder–decoders: their published statistics, exact reconstruction of the text, what is labelled, and
that nothing labelled can be seen by the row that predicts it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from writing_cases import (
    CLS,
    ENDS,
    EVERY,
    GAP,
    HOLED,
    LONG,
    MASK,
    PAD,
    PAIRS,
    SENTINELS,
    SEP,
    SHORT,
    TALE,
    TERMS,
    UNK,
    WORDS,
    labels_of,
    read,
    same,
    samples,
    source_of,
    text,
)

from masquerade import Model, Spec, build
from masquerade.data.examples import Example
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.families.own import mass
from masquerade.layout import IGNORE, visible
from masquerade.masks import causal
from masquerade.objectives.bart import (
    Denoise,
    Noise,
    decoder_layout,
    delete_tokens,
    infill_text,
    mask_tokens,
    permute_sentences,
    rotate,
)
from masquerade.objectives.masked import MaskedTokens
from masquerade.objectives.mass import Mass
from masquerade.objectives.palm import Palm
from masquerade.objectives.pegasus import STRATEGIES, GapSentences
from masquerade.objectives.t5 import SpanCorruption, runs, segments

# What holds for all of them


@pytest.mark.parametrize("name", EVERY)
def test_the_same_chance_gives_the_same_example(name: str) -> None:
    ids = text(80, every=4)
    first, again = (EVERY[name](ids, rng_for(3, 1, 4)) for _ in range(2))
    assert same(first.layout, again.layout)
    assert same(first.source, again.source)
    made = samples(EVERY[name], ids, 20)
    different = {(*example.layout.ids.tolist(), *example.layout.label.tolist(), *read(example)) for example in made}
    fixed = name.startswith("pegasus") and name != "pegasus random"  # these choose by the words alone
    assert len(different) == 1 if fixed else len(different) > 1


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("ids", [TALE, TALE[1:-1], HOLED], ids=["specials around", "bare", "specials inside"])
def test_special_tokens_are_never_predicted_but_for_ends_and_sentinels(name: str, ids: list[int]) -> None:
    for example in samples(EVERY[name], ids, 20):
        decoder = example.source is not None
        allowed = {SEP, *SENTINELS} if name == "t5" else {SEP} if decoder else set()
        assert set(labels_of(example.layout)) & TERMS.specials <= allowed
        assert not decoder or labels_of(example.layout)[-1] == SEP, "every decoder learns to stop"
        if example.source is not None:
            assert not labels_of(example.source)
            kept = [number for number in source_of(example) if number in (UNK, CLS)]
            if not name.startswith(("palm", "pegasus")):  # there the decoder may get them, to read
                assert kept == [number for number in ids if number in (UNK, CLS)]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("ids", [[], [CLS, SEP], [CLS, 60, SEP], [60], [60, 61], [CLS, UNK, SEP]])
def test_the_shortest_texts_are_no_trouble(name: str, ids: list[int]) -> None:
    for example in samples(EVERY[name], ids, 5):
        assert len(example.layout.label) == len(example.layout.ids)
        predicted = set(labels_of(example.layout)) - TERMS.specials
        assert predicted <= set(ids)


@pytest.mark.parametrize("name", PAIRS)
def test_a_decoder_reads_the_words_before_the_one_it_predicts(name: str) -> None:
    for example in samples(PAIRS[name], TALE, 10):
        target = example.layout
        assert torch.equal(visible(target), torch.ones(len(target), len(target)).tril().bool())
        followed = target.label[:-1] != IGNORE
        assert torch.equal(target.ids[1:][followed], target.label[:-1][followed])
        assert example.source is not None
        assert bool(visible(example.source).all())


# No leak: the logits that predict a word do not depend on it


def network(pair: bool) -> Model:
    sizes = {"vocab": 600, "width": 16, "heads": 2, "feedforward": 24, "layers": 1, "longest": 128, "init_std": 0.3}
    return build(mass(**sizes) if pair else Spec(outputs=("lm",), **sizes)).eval()


def scores(model: Model, example: Example) -> torch.Tensor:
    with torch.no_grad():
        return model.scores(example.layout, source=example.source)[0]


@pytest.mark.parametrize("name", [name for name in EVERY if "-orig" not in name and "-uniq" not in name])
def test_a_word_cannot_be_seen_by_the_row_that_predicts_it(name: str) -> None:
    objective = EVERY[name]
    model = network(pair=name in PAIRS)
    hidden = shown = 0
    for seed in range(3 if name in PAIRS else 8):
        example = objective(TALE, rng_for(11, seed))
        before = scores(model, example)
        for row, word in enumerate(example.layout.label.tolist()):
            if word == IGNORE or word in TERMS.specials | ENDS:
                continue
            changed = [599 if number == word else number for number in TALE]
            other = objective(changed, rng_for(11, seed))
            assert int(other.layout.label[row]) == 599
            moved = (scores(model, other)[row] - before[row]).abs().max()
            if word in read(example):  # by design: not masked, or only moved
                shown += 1
                assert moved > 0  # so the test would notice a leak
            else:
                hidden += 1
                assert moved == 0
    if name in ("bart permutes", "bart rotates"):
        assert shown and not hidden
    else:
        assert hidden > 2
    if name.startswith(("t5", "pegasus", "salient")) or name == "palm":  # these never show what is to be written
        assert not shown


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_gap_sentence_is_left_in_its_source(strategy: str) -> None:
    for example in samples(GapSentences(TERMS, ENDS, GAP, strategy), TALE, 10):
        taken = set(labels_of(example.layout)) - ENDS - {SEP}
        assert taken
        assert not taken & set(source_of(example))


# MASS


def test_mass_takes_one_fragment_of_half_the_words_from_anywhere() -> None:
    made = samples(Mass(TERMS), SHORT, 400)
    starts = Counter(labels_of(example.layout)[0] - WORDS for example in made)
    for example in made:
        *fragment, end = labels_of(example.layout)
        assert len(fragment) == 12
        assert end == SEP
        assert all(b == a + 1 for a, b in pairwise(fragment))
    assert set(starts) == set(range(13))
    assert max(starts.values()) < 2.2 * 400 / 13


def test_mass_shows_the_encoder_the_noise_of_bert_in_the_hole_and_all_else() -> None:
    fates = Counter[str]()
    for example in samples(Mass(TERMS), LONG, 50):
        fragment = set(labels_of(example.layout)[:-1])
        for was, now in zip(LONG, source_of(example), strict=True):
            assert was in fragment or was == now
            if was in fragment:
                fates["masked" if now == MASK else "kept" if now == was else "drawn"] += 1
    total = fates.total()
    assert total == 50 * 200
    for fate, share in (("masked", 0.8), ("drawn", 0.1), ("kept", 0.1)):
        assert abs(fates[fate] / total - share) < 0.02


@pytest.mark.parametrize("ids", [SHORT, SHORT[1:-1], HOLED])
def test_mass_keeps_every_word_where_it_stood(ids: list[int]) -> None:
    for example in samples(Mass(TERMS, only_masks=True), ids, 30):
        target, restored = example.layout, source_of(example)
        assert int(target.ids[0]) == MASK
        for place, number in list(zip(target.position.tolist(), target.ids.tolist(), strict=True))[1:]:
            assert ids[place] == number
        for word in labels_of(target)[:-1]:
            assert restored[ids.index(word)] == MASK
            restored[ids.index(word)] = word
        assert restored == ids
        rows = [row for row, word in enumerate(target.label.tolist()) if word not in (IGNORE, SEP)]
        assert all(max(0, ids.index(int(target.label[row])) - 1) == int(target.position[row]) for row in rows)


def test_a_fragment_of_one_word_is_the_case_of_bert() -> None:
    for example in samples(Mass(TERMS, share=0.0, only_masks=True), SHORT, 20):
        word, end = labels_of(example.layout)
        assert example.layout.ids.tolist() == [MASK, word]  # the decoder has no token to predict it from
        assert end == SEP
        assert source_of(example) == [MASK if number == word else number for number in SHORT]


def test_a_fragment_of_all_words_is_the_case_of_gpt() -> None:
    example = Mass(TERMS, share=1.0, only_masks=True)(SHORT, rng_for(1))
    assert source_of(example) == [CLS, *[MASK] * 24, SEP]  # the encoder has no word to tell
    words = SHORT[1:-1]
    same_as = causal([MASK, *words]).replace(label=[*words, SEP])
    assert same(example.layout, same_as)


# T5


def fill(source: Sequence[int], target: Sequence[int]) -> list[int]:
    """The source with each sentinel replaced by what the target says behind it."""
    said: dict[int, list[int]] = {}
    for number in target[:-1]:
        if number in SENTINELS:
            said[number] = current = []
        else:
            current.append(number)
    return [word for number in source for word in (said[number] if number in SENTINELS else [number])]


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    words=st.integers(1, 200),
    rate=st.sampled_from([0.15, 0.3, 0.5]),
    mean=st.sampled_from([3.0, 10.0]),
    seed=st.integers(0, 99),
)
def test_t5_loses_an_exact_number_of_words_in_an_exact_number_of_spans(
    words: int, rate: float, mean: float, seed: int
) -> None:
    ids, objective = text(words), SpanCorruption(TERMS, SENTINELS, rate, mean)
    example = objective(ids, rng_for(seed))
    source, target = source_of(example), example.layout.label.tolist()
    lost, spans = objective.amounts(words)
    if words > 6:
        assert lost == round(rate * words)
        assert spans == max(1, round(lost / mean))
    assert [number for number in source if number in SENTINELS] == SENTINELS[:spans]
    assert [number for number in target if number in SENTINELS] == SENTINELS[: spans + 1]
    assert len(target) == lost + spans + 2
    assert target[-2:] == [SENTINELS[spans], SEP]
    assert not any(a in SENTINELS and b in SENTINELS for a, b in pairwise(source))
    assert not any(a in SENTINELS and b in SENTINELS for a, b in pairwise(target))
    assert fill(source, target) == ids
    assert example.layout.ids.tolist() == [0, *target[:-1]]
    assert example.layout.position.tolist() == list(range(len(target)))


def test_t5_spans_are_three_words_long_and_cut_in_every_way_alike() -> None:
    lengths = Counter[int]()
    for example in samples(SpanCorruption(TERMS, SENTINELS), LONG, 100):
        said = example.layout.label.tolist()
        marks = [row for row, number in enumerate(said) if number in SENTINELS]
        lengths.update(b - a - 1 for a, b in pairwise(marks))
    assert sum(length * count for length, count in lengths.items()) == 3 * lengths.total()  # 60 words in 20 spans
    first = math.comb(58, 18) / math.comb(59, 19)  # of all cuts of 60 into 20, those whose first piece is one
    assert abs(lengths[1] / lengths.total() - first) < 0.03
    ways = Counter(tuple(segments(5, 3, rng_for(5, number))) for number in range(600))
    assert set(ways) == {way for way in ((a, b, 5 - a - b) for a in (1, 2, 3) for b in (1, 2, 3)) if way[2] > 0}
    assert min(ways.values()) > 70


def test_t5_cuts_a_span_at_a_special_token_inside_of_it() -> None:
    for example in samples(SpanCorruption(TERMS, SENTINELS, rate=0.6), HOLED, 40):
        assert fill(source_of(example), example.layout.label.tolist()) == HOLED
        assert source_of(example).count(UNK) == 2


def test_t5_says_when_sentinels_run_out() -> None:
    with pytest.raises(MasqueradeError, match="needs 21 sentinels, but there are 20"):
        SpanCorruption(TERMS, SENTINELS[:20])(LONG, rng_for(0))


@settings(derandomize=True, deadline=None)
@given(st.sets(st.integers(0, 60)))
def test_runs_are_neighbours_and_nothing_is_lost(indices: set[int]) -> None:
    found = runs(sorted(indices))
    assert [index for run in found for index in run] == sorted(indices)
    assert all(run == list(range(run[0], run[0] + len(run))) for run in found)
    assert all(b[0] > a[-1] + 1 for a, b in pairwise(found))


# BART


@pytest.mark.parametrize("name", [name for name in PAIRS if name.startswith("bart")])
@pytest.mark.parametrize("ids", [TALE, TALE[1:-1], HOLED], ids=["specials around", "bare", "specials inside"])
def test_the_target_of_bart_is_the_clean_text(name: str, ids: list[int]) -> None:
    for example in samples(PAIRS[name], ids, 10):
        clean = ids if ids[-1] == SEP else [*ids, SEP]
        assert example.layout.ids.tolist() == [SEP, *clean[:-1]]
        silent = {CLS, UNK}
        assert example.layout.label.tolist() == [IGNORE if number in silent else number for number in clean]
    assert Denoise(TERMS, (), start=9)(ids, rng_for(0)).layout.ids[0] == 9
    assert source_of(Denoise(TERMS, ())(ids, rng_for(0))) == ids


def noisy(noise: Noise, ids: Sequence[int], count: int) -> list[list[int]]:
    return [noise(ids, TERMS, rng_for(9, number)) for number in range(count)]


def test_bart_masks_and_deletes_its_share_of_the_words_alike() -> None:
    hit = Counter[int]()
    for made in noisy(mask_tokens, LONG, 100):
        hidden = [was for was, now in zip(LONG, made, strict=True) if now == MASK]
        assert len(hidden) == 60
        assert [now for now in made if now != MASK] == [was for was in LONG if was not in hidden]
        hit.update(hidden)
    assert len(hit) == 400
    for made in noisy(partial(delete_tokens, rate=0.25), LONG, 20):
        assert len(made) == len(LONG) - 100
        assert made == [number for number in LONG if number in made]


def lengths_of(made: Sequence[int], ids: Sequence[int]) -> list[int]:
    """How many words each [MASK], or run of masks taken together, stands for."""
    found: list[int] = []
    place, masks = 0, 0
    for number in [*made, None]:
        if number == MASK:
            masks += 1
            continue
        here = len(ids) if number is None else list(ids).index(number)
        assert masks or here == place
        if masks == 1:
            found.append(here - place)
        place, masks = here + 1, 0
    return found


def test_bart_infills_spans_of_poisson_lengths_until_the_share_is_covered() -> None:
    single, masks = Counter[int](), 0
    for made in noisy(infill_text, LONG, 150):
        kept = [number for number in made if number != MASK]
        assert len(LONG) - len(kept) == 120
        assert kept == [number for number in LONG if number in kept]
        assert made[0] == CLS
        assert made[-1] == SEP
        masks += made.count(MASK)
        single.update(lengths_of(made, LONG))
    assert abs(150 * 120 / masks - 3) < 0.15
    for length in range(6):  # masks that stand alone show the length of their span
        poisson = math.exp(-3) * 3**length / math.factorial(length)
        assert abs(single[length] / single.total() - poisson) < 0.02
    with pytest.raises(MasqueradeError, match="give a number above 0"):
        infill_text(LONG, TERMS, rng_for(0), mean=0)


def test_infilling_keeps_special_tokens_inside_of_a_span() -> None:
    for made in noisy(partial(infill_text, rate=0.7), HOLED, 50):
        assert [number for number in made if number in (CLS, UNK, SEP)] == [CLS, UNK, UNK, SEP]
        assert len([number for number in made if number >= WORDS]) == 12 - round(0.7 * 12)


def test_bart_permutes_whole_sentences() -> None:
    ids = [CLS, 50, 51, 5, 52, 6, 6, 53, 54, SEP]
    orders = {tuple(made) for made in noisy(partial(permute_sentences, ends=ENDS), ids, 100)}
    parts = [(50, 51, 5), (52, 6, 6), (53, 54)]
    assert len(orders) == 6
    assert {frozenset(parts)} == {frozenset(part for part in parts if _holds(order, part)) for order in orders}
    assert permute_sentences([CLS, SEP], TERMS, rng_for(0), ends=ENDS) == [CLS, SEP]


def _holds(order: tuple[int, ...], part: tuple[int, ...]) -> bool:
    return any(order[start : start + len(part)] == part for start in range(len(order)))


def test_bart_rotates_to_any_word() -> None:
    ids = [CLS, 50, 51, UNK, 52, 53, SEP]
    assert {tuple(made) for made in noisy(rotate, ids, 100)} == {
        (CLS, 50, 51, UNK, 52, 53, SEP),
        (CLS, 51, UNK, 52, 53, 50, SEP),
        (CLS, 52, 53, 50, 51, UNK, SEP),
        (CLS, 53, 50, 51, UNK, 52, SEP),
    }


def test_noises_are_put_on_one_after_the_other() -> None:
    both = Denoise(TERMS, (rotate, mask_tokens))(SHORT, rng_for(4))
    rng = rng_for(4)
    assert source_of(both) == mask_tokens(rotate(SHORT, TERMS, rng), TERMS, rng)


def test_what_is_written_ends_once() -> None:
    for target in ([50, UNK, 51], [50, UNK, 51, SEP]):
        layout = decoder_layout(target, TERMS, start=PAD)
        assert layout.ids.tolist() == [PAD, 50, UNK, 51]
        assert layout.label.tolist() == [50, IGNORE, 51, SEP]


# PALM


def test_palm_first_trains_its_encoder_as_bert() -> None:
    for number in range(5):
        first, bert = Palm(TERMS, stage=1)(SHORT, rng_for(number)), MaskedTokens(TERMS)(SHORT, rng_for(number))
        assert first.source is None
        assert same(first.layout, bert.layout)
    with pytest.raises(MasqueradeError, match="'stage' is 3"):
        Palm(TERMS, stage=3)


def test_palm_reads_four_fifths_and_writes_the_rest() -> None:
    masked = 0
    for example in samples(Palm(TERMS), LONG, 60):
        source = source_of(example)
        assert len(source) == 1 + 320 + 1
        assert (source[0], source[-1]) == (CLS, SEP)
        assert example.layout.label.tolist() == [*LONG[321:-1], SEP]
        assert example.layout.ids.tolist() == [CLS, *LONG[321:-1]]
        changed = [now for was, now in zip(LONG[:321], source, strict=False) if was != now]
        assert len(changed) <= 48
        masked += changed.count(MASK)
    assert abs(masked / (60 * 320) - 0.15 * 0.8) < 0.01
    bare = Palm(TERMS, rate=0.0)(LONG[1:-1], rng_for(0))
    assert len(source_of(bare)) == 320
    assert bare.layout.label.tolist() == [*LONG[321:-1], SEP]
