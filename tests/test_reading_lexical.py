"""BM25 over token ids, against its definition, and what it keeps of a long text."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from masquerade.reading.layouts import Window
from masquerade.reading.lexical import K1, B, LexicalIndex, WindowIndex

IDS = st.lists(st.integers(0, 6), max_size=12)


def grams(ids: list[int]) -> list[tuple[int, ...]]:
    """Tokens and pairs of neighbours, spelled out."""
    return [(one,) for one in ids] + list(pairwise(ids))


def brute_force(windows: list[list[int]], question: list[int]) -> list[float]:
    """BM25 as it is defined, one window and one gram at a time."""
    held = [Counter(grams(ids)) for ids in windows]
    mean = max(sum(sum(each.values()) for each in held) / len(held), 1.0)
    scores = []
    for counts in held:
        total = 0.0
        for gram in set(grams(question)):
            having = sum(gram in each for each in held)
            rarity = math.log(1 + (len(held) - having + 0.5) / (having + 0.5))
            norm = K1 * (1 - B + B * sum(counts.values()) / mean)
            total += rarity * counts[gram] * (K1 + 1) / (counts[gram] + norm) if counts[gram] else 0.0
        scores.append(total)
    return scores


@given(st.lists(IDS, min_size=1, max_size=8), IDS)
def test_scores_are_those_of_the_definition(windows: list[list[int]], question: list[int]) -> None:
    np.testing.assert_allclose(LexicalIndex(windows).scores(question), brute_force(windows, question), atol=1e-9)


def test_the_window_with_the_rare_pair_is_kept_and_the_order_of_the_text_stays() -> None:
    windows = [[1, 2, 3, 4], [9, 8, 1, 2], [1, 2, 1, 2], [8, 9, 3, 4], [5, 5, 5, 5]]
    index = LexicalIndex(windows)
    assert index.best([9, 8], 1) == [1]  # [8, 9, …] has the same tokens, but not the pair
    assert index.best([9, 8], 2) == [1, 3]
    assert index.best([9, 8], 10) == [0, 1, 2, 3, 4]


def test_no_window_and_an_empty_question_give_no_scores() -> None:
    assert LexicalIndex([]).best([1, 2], 3) == []
    assert LexicalIndex([[1, 2], [3]]).scores([]).tolist() == [0.0, 0.0]


def test_a_long_text_is_read_where_it_shares_words_with_the_question_and_a_short_one_whole() -> None:
    windows = [Window(0, (number, number + 1), ((0, 1), (1, 2)), (0, 2)) for number in range(0, 18, 2)]
    index = WindowIndex(windows)

    fits = index.fits([4, 5])
    assert index.best(fits, 1) == [2]
    assert len(index.best(fits, 4)) == 4
    assert index.best(fits, 0) == list(range(9))
    assert index.best(fits[:8], 4) == list(range(8))


def test_windows_fit_as_well_as_their_score_says_beside_the_best_one() -> None:
    windows = [Window(0, ids, ((0, 1),) * len(ids), (0, len(ids))) for ids in ((1, 2, 3), (4, 5, 3), (6, 7, 8))]
    index = WindowIndex(windows)
    fits = index.fits([1, 2, 3])
    assert fits[0] == 0 > fits[1] > fits[2] == -index.lexical.scores([1, 2, 3]).max()
    assert index.fits([99]).tolist() == [0, 0, 0], "where no window shares anything, all fit alike"
    assert WindowIndex(windows[2:]).fits([1]).tolist() == [0] and WindowIndex([]).fits([1]).tolist() == []


def test_capitals_make_no_difference_where_the_vocabulary_has_both() -> None:
    windows = [Window(0, ids, ((0, 1),) * 2, (0, 2)) for ids in ((1, 2), (3, 4), (5, 6))]
    assert WindowIndex(windows, small_letters=[0, 1, 2, 3, 4, 5, 6, 4]).fits([7]).argmax() == 1
    assert WindowIndex(windows).fits([7]).tolist() == [0, 0, 0]
