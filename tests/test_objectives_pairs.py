"""Objectives of encoder–decoders, salient spans, groupings and static masks: their published statistics, exact
reconstruction of the text, what is labelled, and that nothing labelled can be seen by the row that predicts it."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade import Model, Spec, build
from masquerade.errors import MasqueradeError
from masquerade.families.own import mass
from masquerade.layout import IGNORE, Layout, visible
from masquerade.masks import bidirectional, causal
from masquerade.objectives.bart import (
    Denoise,
    Noise,
    delete_tokens,
    infill_text,
    mask_tokens,
    permute_sentences,
    rotate,
    written,
)
from masquerade.objectives.base import Example, Objective, Terms, chance
from masquerade.objectives.masked import MaskedWords
from masquerade.objectives.mass import Mass
from masquerade.objectives.palm import Palm
from masquerade.objectives.pegasus import STRATEGIES, GapSentences, rouge1
from masquerade.objectives.salient import Salient, dates_and_numbers, names
from masquerade.objectives.static import Dynamic, Static
from masquerade.objectives.t5 import SpanCorruption, runs, segments
from masquerade.objectives.units import (
    MaskedNgrams,
    chinese_words,
    entity_units,
    jieba_words,
    ngrams,
    sentence_ends,
    sentences,
)
from masquerade.text.tokenizer import Tokenizer, word_pieces

# ids 0 … 4 are special, 5 and 6 end sentences, 7 … 46 are sentinels (the last of them the gap), words come behind
PAD, UNK, CLS, SEP, MASK = range(5)
ENDS, SENTINELS, WORDS = frozenset({5, 6}), list(range(7, 47)), 50
GAP = SENTINELS[-1]
TERMS = Terms(vocab=600, mask=MASK, cls=CLS, sep=SEP, specials=frozenset({PAD, UNK, CLS, SEP, MASK, *SENTINELS}))
LONG = [CLS, *range(WORDS, WORDS + 400), SEP]


def text(words: int, every: int = 0) -> list[int]:
    """[CLS] words [SEP], all words different, with an end after every so many of them."""
    inner: list[int] = []
    for number in range(words):
        inner.append(WORDS + number)
        if every and number % every == every - 1:
            inner.append(5)
    return [CLS, *inner, SEP]


SHORT, TALE = text(24), text(24, every=4)
HOLED = [CLS, 50, 51, UNK, 52, 53, 54, 55, UNK, 56, 57, 58, 59, 60, 61, SEP]  # with special tokens inside
MIXED = (partial(permute_sentences, ends=ENDS), infill_text)

PAIRS: dict[str, Objective] = {
    "mass": Mass(TERMS),
    "t5": SpanCorruption(TERMS, SENTINELS),
    "bart masks": Denoise(TERMS, (mask_tokens,)),
    "bart deletes": Denoise(TERMS, (delete_tokens,)),
    "bart infills": Denoise(TERMS, (infill_text,)),
    "bart permutes": Denoise(TERMS, (partial(permute_sentences, ends=ENDS),)),
    "bart rotates": Denoise(TERMS, (rotate,)),
    "bart": Denoise(TERMS, MIXED),
    "palm": Palm(TERMS),
    **{f"pegasus {strategy}": GapSentences(TERMS, ENDS, GAP, strategy) for strategy in STRATEGIES},
}
ALONE: dict[str, Objective] = {
    "palm, first stage": Palm(TERMS, stage=1),
    "salient": Salient(TERMS, lambda ids: [[3, 4, 5], [9]] if len(ids) > 9 else []),
    "salient, nothing found": Salient(TERMS, lambda ids: []),
    "n-grams": MaskedNgrams(TERMS),
}
EVERY = PAIRS | ALONE


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Networks this small only wait for each other on several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def read(example: Example) -> list[int]:
    """What the encoder reads."""
    layout = example.layout if example.source is None else example.source
    return [int(number) for number in layout.ids]


def source_of(example: Example) -> list[int]:
    assert example.source is not None
    return read(example)


def labels_of(layout: Layout) -> list[int]:
    return [int(number) for number in layout.label if number != IGNORE]


def samples(objective: Objective, ids: Sequence[int], count: int) -> list[Example]:
    return [objective(ids, chance(7, number)) for number in range(count)]


# What holds for all of them


def same(one: Layout | None, other: Layout | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)


@pytest.mark.parametrize("name", EVERY)
def test_the_same_chance_gives_the_same_example(name: str) -> None:
    ids = text(80, every=4)
    first, again = (EVERY[name](ids, chance(3, 1, 4)) for _ in range(2))
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
        allowed = set(SENTINELS) if name == "t5" else {SEP} if name.startswith(("bart", "pegasus", "palm")) else set()
        assert set(labels_of(example.layout)) & TERMS.specials <= allowed
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
        example = objective(TALE, chance(11, seed))
        before = scores(model, example)
        for row, word in enumerate(example.layout.label.tolist()):
            if word == IGNORE or word in TERMS.specials | ENDS:
                continue
            changed = [599 if number == word else number for number in TALE]
            other = objective(changed, chance(11, seed))
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
        fragment = labels_of(example.layout)
        assert len(fragment) == 12
        assert all(b == a + 1 for a, b in pairwise(fragment))
    assert set(starts) == set(range(13))
    assert max(starts.values()) < 2.2 * 400 / 13


def test_mass_shows_the_encoder_the_noise_of_bert_in_the_hole_and_all_else() -> None:
    fates = Counter[str]()
    for example in samples(Mass(TERMS), LONG, 50):
        fragment = set(labels_of(example.layout))
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
        for word in labels_of(target):
            assert restored[ids.index(word)] == MASK
            restored[ids.index(word)] = word
        assert restored == ids
        rows = [row for row, word in enumerate(target.label.tolist()) if word != IGNORE]
        assert all(max(0, ids.index(int(target.label[row])) - 1) == int(target.position[row]) for row in rows)


def test_a_fragment_of_one_word_is_the_case_of_bert() -> None:
    for example in samples(Mass(TERMS, share=0.0, only_masks=True), SHORT, 20):
        assert example.layout.ids.tolist() == [MASK]  # the decoder has no word to go by
        (word,) = labels_of(example.layout)
        assert source_of(example) == [MASK if number == word else number for number in SHORT]


def test_a_fragment_of_all_words_is_the_case_of_gpt() -> None:
    example = Mass(TERMS, share=1.0, only_masks=True)(SHORT, chance(1))
    assert source_of(example) == [CLS, *[MASK] * 24, SEP]  # the encoder has no word to tell
    words = SHORT[1:-1]
    same_as = causal([MASK, *words[:-1]]).replace(label=words)
    assert same(example.layout, same_as)


# T5


def fill(source: Sequence[int], target: Sequence[int]) -> list[int]:
    """The source with each sentinel replaced by what the target says behind it."""
    said: dict[int, list[int]] = {}
    for number in target:
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
    example = objective(ids, chance(seed))
    source, target = source_of(example), example.layout.label.tolist()
    lost, spans = objective.amounts(words)
    if words > 6:
        assert lost == round(rate * words)
        assert spans == max(1, round(lost / mean))
    assert [number for number in source if number in SENTINELS] == SENTINELS[:spans]
    assert [number for number in target if number in SENTINELS] == SENTINELS[: spans + 1]
    assert len(target) == lost + spans + 1
    assert target[-1] == SENTINELS[spans]
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
    ways = Counter(tuple(segments(5, 3, chance(5, number))) for number in range(600))
    assert set(ways) == {way for way in ((a, b, 5 - a - b) for a in (1, 2, 3) for b in (1, 2, 3)) if way[2] > 0}
    assert min(ways.values()) > 70


def test_t5_cuts_a_span_at_a_special_token_inside_of_it() -> None:
    for example in samples(SpanCorruption(TERMS, SENTINELS, rate=0.6), HOLED, 40):
        assert fill(source_of(example), example.layout.label.tolist()) == HOLED
        assert source_of(example).count(UNK) == 2


def test_t5_says_when_sentinels_run_out() -> None:
    with pytest.raises(MasqueradeError, match="needs 21 sentinels, but there are 20"):
        SpanCorruption(TERMS, SENTINELS[:20])(LONG, chance(0))


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
    assert Denoise(TERMS, (), start=9)(ids, chance(0)).layout.ids[0] == 9
    assert source_of(Denoise(TERMS, ())(ids, chance(0))) == ids


def noisy(noise: Noise, ids: Sequence[int], count: int) -> list[list[int]]:
    return [noise(ids, TERMS, chance(9, number)) for number in range(count)]


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
    with pytest.raises(MasqueradeError, match="give a mean above 0"):
        infill_text(LONG, TERMS, chance(0), mean=0)


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
    assert permute_sentences([CLS, SEP], TERMS, chance(0), ends=ENDS) == [CLS, SEP]


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
    both = Denoise(TERMS, (rotate, mask_tokens))(SHORT, chance(4))
    rng = chance(4)
    assert source_of(both) == mask_tokens(rotate(SHORT, TERMS, rng), TERMS, rng)


def test_what_is_written_ends_once() -> None:
    for target in ([50, UNK, 51], [50, UNK, 51, SEP]):
        layout = written(target, TERMS, start=PAD)
        assert layout.ids.tolist() == [PAD, 50, UNK, 51]
        assert layout.label.tolist() == [50, IGNORE, 51, SEP]


# PEGASUS


@settings(derandomize=True, deadline=None)
@given(st.lists(st.sampled_from([5, 6, 50, 51, UNK]), max_size=30), st.booleans())
def test_sentences_cover_the_text_and_end_at_ends(inner: list[int], around: bool) -> None:
    ids = [CLS, *inner, SEP] if around else inner
    parts = sentences(ids, TERMS, ENDS)
    words = TERMS.maskable(ids)
    assert [index for part in parts for index in part] == (list(range(words[0], words[-1] + 1)) if words else [])
    for part in parts[:-1]:
        assert ids[part[-1]] in ENDS
    for part in parts:
        assert len(part)
        inside = [index for index in list(part)[:-1] if ids[index] in ENDS and ids[index + 1] not in ENDS]
        assert not inside


def brute_rouge(candidate: list[int], reference: list[int], unique: bool) -> Fraction:
    """ROUGE-1 F1 by crossing out shared words one by one, as a fraction."""
    if unique:
        candidate, reference = sorted(set(candidate)), sorted(set(reference))
    left, overlap = list(reference), 0
    for word in candidate:
        if word in left:
            left.remove(word)
            overlap += 1
    if not overlap:
        return Fraction(0)
    precision, recall = Fraction(overlap, len(candidate)), Fraction(overlap, len(reference))
    return 2 * precision * recall / (precision + recall)


def brute_choice(parts: list[list[int]], count: int, strategy: str) -> list[int]:
    """PEGASUS' choice from its definition: every candidate tried against all that is left."""
    unique, chosen = strategy.endswith("uniq"), list[int]()

    def value(numbers: Sequence[int]) -> Fraction:
        inside = [word for number in numbers for word in parts[number]]
        outside = [word for number, part in enumerate(parts) if number not in numbers for word in part]
        return brute_rouge(inside, outside, unique)

    if strategy.startswith("ind"):
        ranked = sorted(range(len(parts)), key=lambda number: value([number]), reverse=True)  # stable: ties stay
        return sorted(ranked[:count])
    while len(chosen) < count:
        left = [number for number in range(len(parts)) if number not in chosen]
        values = [value([*chosen, number]) for number in left]
        chosen.append(left[values.index(max(values))])
    return sorted(chosen)


def taken(example: Example, parts: list[list[int]]) -> list[int]:
    """Which sentences, all different, were written: read off the target."""
    target = example.layout.label.tolist()[:-1]
    for count in range(len(parts) + 1):
        for numbers in combinations(range(len(parts)), count):
            if [word for number in numbers for word in parts[number]] == target:
                return list(numbers)
    raise AssertionError(target)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(50, 58), min_size=1, max_size=5), min_size=2, max_size=7, unique_by=tuple),
    st.sampled_from([way for way in STRATEGIES if "-" in way]),
    st.sampled_from([0.3, 0.5]),
)
def test_pegasus_chooses_what_brute_force_chooses(parts: list[list[int]], strategy: str, rate: float) -> None:
    ended = [[*part, 5] for part in parts]
    ids = [CLS, *(word for part in ended for word in part), SEP]
    example = GapSentences(TERMS, ENDS, GAP, strategy, rate)(ids, chance(0))
    count = max(1, min(len(parts) - 1, round(rate * len(parts))))
    chosen = brute_choice(parts, count, strategy)
    assert taken(example, ended) == chosen
    gapped = [[GAP] if number in chosen else part for number, part in enumerate(ended)]
    assert source_of(example) == [CLS, *(word for part in gapped for word in part), SEP]


def test_rouge_counts_a_repeated_word_as_often_as_both_have_it() -> None:
    chosen, rest = Counter([1, 1, 2]), Counter([1, 1, 1, 3])
    assert rouge1(chosen, chosen + rest) == pytest.approx(4 / 7)
    assert rouge1(chosen, chosen + rest, unique=True) == pytest.approx(2 / 4)
    assert rouge1(Counter(), Counter()) == rouge1(Counter([1]), Counter([1, 2])) == 0


def test_pegasus_takes_thirty_percent_of_the_sentences_and_gives_them_back() -> None:
    ids = text(40, every=4)  # ten sentences
    parts = [list(ids[part.start : part.stop]) for part in sentences(ids, TERMS, ENDS)]
    firsts = Counter[int]()
    for example in samples(GapSentences(TERMS, ENDS, GAP, "random"), ids, 150):
        chosen = taken(example, parts)
        assert len(chosen) == 3
        firsts.update(chosen)
        waiting = iter(parts[number] for number in chosen)
        restored = [word for number in source_of(example) for word in (next(waiting) if number == GAP else [number])]
        assert restored == ids
        assert int(example.layout.ids[0]) == PAD
        assert int(example.layout.label[-1]) == SEP
    assert set(firsts) == set(range(10))
    assert max(firsts.values()) < 2 * min(firsts.values())
    assert taken(GapSentences(TERMS, ENDS, GAP, "lead")(ids, chance(0)), parts) == [0, 1, 2]
    with pytest.raises(MasqueradeError, match="No strategy 'best'"):
        GapSentences(TERMS, ENDS, GAP, "best")


# PALM


def test_palm_first_trains_its_encoder_as_bert() -> None:
    for number in range(5):
        first, bert = Palm(TERMS, stage=1)(SHORT, chance(number)), MaskedWords(TERMS)(SHORT, chance(number))
        assert first.source is None
        assert same(first.layout, bert.layout)
    with pytest.raises(MasqueradeError, match="no stage 3"):
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
    bare = Palm(TERMS, rate=0.0)(LONG[1:-1], chance(0))
    assert len(source_of(bare)) == 320
    assert bare.layout.label.tolist() == [*LONG[321:-1], SEP]


# Salient spans and groupings, over a small vocabulary in English and Chinese

VOCABULARY = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "。", "，", "-", "%", "the", "The", "in", "In", "was",
    "born", "on", "of", "March", "5", "12", "000", "3", "1998", "##5", "05", "Jean", "Paul", "Sart", "##re", "Paris",
    "may", "go", "covid", "##19", "play", "##ing", "北", "京", "大", "学", "在", "年", "月", "日", "上", "海", "他",
    "生", "于", "人", "十", "二", "王", "小",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path: Path = tmp_path_factory.mktemp("words") / "vocab.txt"
    path.write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return Tokenizer(word_pieces(path))


Finder = Callable[[Sequence[int]], list[list[int]]]


def phrases(tokenizer: Tokenizer, find: Finder, sentence: str) -> list[str]:
    """What is found, as the tokens spell it."""
    ids = tokenizer.encode(sentence, specials=True)
    tokens = tokenizer.tokens(ids)
    return [" ".join(tokens[index] for index in unit) for unit in find(ids)]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The born was on March 5, 1998.", ["March 5 , 1998"]),
        ("on 5 March 1998, Paris", ["5 March 1998"]),
        ("in 1998, 12 go", ["1998", "12"]),
        ("in 35, Paris", ["3 ##5"]),
        ("1998-3-05 in March 1998", ["1998 - 3 - 05", "March 1998"]),
        ("12,000 go, 3.5% play", ["12 , 000", "3 . 5 %"]),
        ("covid19 was in March", []),
        ("他生于1998年3月5日，北京", ["1998 年 3 月 5 日"]),
        ("1998年3月在上海", ["1998 年 3 月"]),
        ("1998年12人", ["1998 年", "12"]),
        ("十二月在北京大学12年", ["十 二 月", "12 年"]),
        ("3[MASK]5", ["3", "5"]),
    ],
)
def test_dates_and_numbers_are_found_in_both_languages(
    tokenizer: Tokenizer, sentence: str, expected: list[str]
) -> None:
    assert phrases(tokenizer, dates_and_numbers(tokenizer), sentence) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The Jean Paul Sartre was born in Paris.", ["Jean Paul Sart ##re", "Paris"]),
        ("In Paris the play was on.", ["Paris"]),
        ("Paris was on. Paris may go in Paris", ["Paris"]),
        ("Jean Paul may go", ["Jean Paul"]),
        ("他在Paris生", ["Paris"]),
        ("in the may", []),
    ],
)
def test_names_are_runs_of_capitals(tokenizer: Tokenizer, sentence: str, expected: list[str]) -> None:
    assert phrases(tokenizer, names(tokenizer), sentence) == expected


def test_one_salient_span_is_masked_as_a_whole(tokenizer: Tokenizer) -> None:
    terms, find = Terms.of(tokenizer), dates_and_numbers(tokenizer)
    ids = tokenizer.encode("他生于1998年3月5日，12人在北京大学。", specials=True)
    spans = find(ids)
    seen = Counter[int]()
    for example in samples(Salient(terms, find), ids, 200):
        chosen = [index for index, label in enumerate(example.layout.label.tolist()) if label != IGNORE]
        seen[spans.index(chosen)] += 1
        assert all(int(example.layout.ids[index]) == terms.mask for index in chosen)
        restored = torch.where(example.layout.label == IGNORE, example.layout.ids, example.layout.label)
        assert restored.tolist() == ids
    assert len(seen) == 2
    assert min(seen.values()) > 70


def test_where_nothing_is_salient_one_whole_word_is_masked(tokenizer: Tokenizer) -> None:
    terms = Terms.of(tokenizer)
    ids = tokenizer.encode("the playing was born", specials=True)
    found = set()
    for example in samples(Salient(terms, names(tokenizer)), ids, 60):
        found.add(tuple(labels_of(example.layout)))
    assert found == {tuple(ids[index] for index in word) for word in terms.words(ids)}


def test_chinese_words_are_those_of_the_segmenter(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    known = ["北京", "大学", "playing", "1998", "上海"]

    def cut(sentence: str) -> list[str]:
        words: list[str] = []
        while sentence:
            word = next((word for word in known if sentence.startswith(word)), sentence[0])
            words.append(word)
            sentence = sentence[len(word) :]
        return words

    sentence = "他在北京大学playing，生于1998年[SEP]北[MASK]京，上海"
    ids = tokenizer.encode(sentence, specials=True)
    grouped = chinese_words(tokenizer, cut)(ids)
    tokens = tokenizer.tokens(ids)
    spelled = ["".join(tokens[index] for index in unit) for unit in grouped]
    assert " ".join(spelled) == "他 在 北京 大学 play##ing ， 生 于 1998 年 北 京 ， 上海"
    assert sorted(index for unit in grouped for index in unit) == Terms.of(tokenizer).maskable(ids)
    letters = chinese_words(tokenizer, list)(ids)  # a token that is cut apart is in one unit still
    assert letters == [[index] for index in Terms.of(tokenizer).maskable(ids)]
    monkeypatch.setitem(sys.modules, "jieba", SimpleNamespace(cut=cut))
    assert jieba_words(tokenizer)(ids) == grouped
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(MasqueradeError, match="pip install jieba"):
        jieba_words(tokenizer)


def test_the_longest_entity_is_one_unit(tokenizer: Tokenizer) -> None:
    terms = Terms.of(tokenizer)
    names_known = ["北京", "北京大学", "Jean Paul", "play", "王王王", "Zanzibar"]
    sentence = "他在北京大学，北京，Jean Paul playing"
    assert phrases(tokenizer, entity_units(tokenizer, names_known), sentence) == [
        "他", "在", "北 京 大 学", "，", "北 京", "，", "Jean Paul", "play", "##ing",
    ]  # fmt: skip
    words = entity_units(tokenizer, names_known, rest=terms.words)
    assert phrases(tokenizer, words, sentence)[-1] == "play ##ing"
    ids = tokenizer.encode(sentence, specials=True)
    for example in samples(MaskedWords(terms, units=words), ids, 40):
        chosen = [label != IGNORE for label in example.layout.label.tolist()]
        assert all(len({chosen[index] for index in unit}) == 1 for unit in words(ids))


def test_sentence_ends_are_found_in_the_vocabulary(tokenizer: Tokenizer) -> None:
    assert sorted(tokenizer.tokens(sorted(sentence_ends(tokenizer)))) == [".", "。"]
    terms = Terms.of(tokenizer)
    ids = tokenizer.encode("他在北京。北京在上海。王小人。上海北京。", specials=True)
    objective = GapSentences(terms, sentence_ends(tokenizer), gap=terms.mask, strategy="ind-uniq")
    parts = ["他在北京。", "北京在上海。", "王小人。", "上海北京。"]
    choice = brute_choice([tokenizer.encode(part)[:-1] for part in parts], 1, "ind-uniq")
    assert choice == [1]
    assert tokenizer.decode(objective(ids, chance(0)).layout.label.tolist()) == parts[1]


def test_ngrams_have_the_weights_of_albert_and_stop_at_special_tokens() -> None:
    words = TERMS.words(LONG)
    lengths = Counter(len(unit) for number in range(40) for unit in ngrams(words, (1, 1 / 2, 1 / 3), chance(number)))
    for length in (1, 2, 3):
        assert abs(lengths[length] / lengths.total() - (1 / length) / (11 / 6)) < 0.02
    for number in range(20):
        units = ngrams(TERMS.words(HOLED), (0, 0, 1), chance(number))
        assert [len(unit) for unit in units] == [2, 3, 1, 3, 3]
    made = [len(labels_of(example.layout)) for example in samples(MaskedNgrams(TERMS), LONG, 20)]
    assert min(made) >= 58
    assert max(made) <= 60


# Static and dynamic masks


def test_static_masks_come_back_and_dynamic_ones_do_not() -> None:
    objective = MaskedWords(TERMS)

    def masks(chances: Static | Dynamic, epochs: int, document: int = 3) -> list[tuple[int, ...]]:
        return [tuple(objective(LONG, chances(epoch, document)).layout.ids.tolist()) for epoch in range(epochs)]

    static, dynamic = masks(Static(1), 40), masks(Dynamic(1), 40)
    assert len(set(static)) == 10
    assert set(Counter(static).values()) == {4}  # BERT's forty epochs over ten copies
    assert static[:10] == static[30:]
    assert len(set(dynamic)) == 40
    assert masks(Static(1, copies=40), 40) == dynamic
    assert len(set(masks(Static(1, copies=1), 5))) == 1
    assert not set(static) & set(masks(Static(1), 10, document=4))
    assert not set(static) & set(masks(Static(2), 10))
    with pytest.raises(MasqueradeError, match="make one copy or more"):
        Static(1, copies=0)


def test_any_objective_takes_its_chance_from_either() -> None:
    for objective in EVERY.values():
        assert same(objective(TALE, Static(5)(12, 8)).layout, objective(TALE, Dynamic(5)(2, 8)).layout)
    assert same(bidirectional(TALE), Denoise(TERMS, ())(TALE, Static(5)(0, 0)).source)
