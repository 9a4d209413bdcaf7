"""PEGASUS: which sentences are gaps, checked by brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from writing_cases import (
    CLS,
    ENDS,
    GAP,
    PAD,
    SEP,
    TERMS,
    UNK,
    samples,
    source_of,
    text,
)

from masquerade.data.examples import Example
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.objectives.grouping import (
    sentences,
)
from masquerade.objectives.pegasus import STRATEGIES, GapSentences, rouge1

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
    example = GapSentences(TERMS, ENDS, GAP, strategy, rate)(ids, rng_for(0))
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
    assert taken(GapSentences(TERMS, ENDS, GAP, "lead")(ids, rng_for(0)), parts) == [0, 1, 2]
    with pytest.raises(MasqueradeError, match="There is no strategy 'best'"):
        GapSentences(TERMS, ENDS, GAP, "best")
