"""What the heads say of every span, against all spans one by one in plain Python."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mask_cases import seeded
from reader_cases import MASK, PAD, PARTS, SEP, SHEET, network, passages, questions, shared, words

from masquerade import Model
from masquerade.decoding.spans import choose_spans
from masquerade.layout import batch
from masquerade.masks import forked
from masquerade.reading.layouts import ReaderLayout
from masquerade.reading.odds import log_probabilities
from masquerade.reading.span_scores import ReaderRows, SpanScores, score_spans

Pair = tuple[Sequence[int], Sequence[int]]  # ids of a question and of a passage
PAIRS: list[Pair] = [  # questions and passages of different lengths, words that come twice, one word alone
    ([10, 11], [20, 21, 22, 20, 21, 23, 24, 21]),
    ([], [30, 31, 32]),
    ([12, 13, 14, 15, 16], [40]),
    ([17], [50, 51, 52, 53, 54, 55, 56, 57, 58, 51, 52]),
]
WEIGHTS: dict[str, Mapping[str, float]] = {
    "words": {"words": 1.0, "copies": 0.0, "pointers": 0.0},
    "copies": {"copies": 3.0},
    "pointers": {"pointers": 0.2},
    "words and copies": {"words": 1.0, "copies": 3.0},
    "copies and pointers": {"copies": 1.0, "pointers": 1.0, "words": 0.0},
    "all": PARTS,
}
FAR = replace(SHEET, reach=7)  # answers of up to seven words, four of which are filled in
each_sheet = pytest.mark.parametrize("sheet", [SHEET, FAR], ids=["slots", "reach"])
each_weights = pytest.mark.parametrize("named", list(WEIGHTS))


def rows_of(model: Model, pairs: Sequence[Pair], sheet: ReaderLayout = SHEET) -> ReaderRows:
    layout = batch([shared(passage, [question]) for question, passage in pairs], PAD)
    return ReaderRows(model.hidden(layout), forked(layout)[0], sheet)


@torch.inference_mode()
def marked(pairs: Sequence[Pair], weights: Mapping[str, float], fork: int = 1) -> SpanScores:
    model = network(fork)
    return score_spans(model, rows_of(model, pairs), weights)


def logs(scores: Sequence[float]) -> list[float]:
    """Log-probabilities of scores."""
    top = max(scores)
    whole = top + math.log(sum(math.exp(score - top) for score in scores))
    return [score - whole for score in scores]


def brute_force(
    model: Model, pair: Pair, weights: Mapping[str, float], sheet: ReaderLayout = SHEET
) -> tuple[dict[tuple[int, int], float], float]:
    """The score of every span (start, length) and of no answer, one by one, from a question read alone."""
    longest = sheet.longest_answer if weights.get("pointers") else sheet.slots
    question, passage = pair
    states = rows_of(model, [pair]).states[0]
    slots, begin, close = SHEET.slots, len(question) + SHEET.slots + 3, len(states) - 1
    assert close - begin == len(passage)
    vocabulary = [logs(row) for row in model.head("lm", states[1 : 1 + slots]).tolist()]
    keys = model.copy_scores(states[None, 1 : 1 + slots], states[None])[0].tolist()
    copies = [row[begin : close + 1] for row in keys]  # the passage's words, and its [SEP]
    ends = model.head("span", states).tolist()
    firsts, lasts = (logs([ends[place][side] for place in (0, *range(begin, close))]) for side in (0, 1))

    def score(start: int, length: int) -> float:
        said = {
            "words": sum(vocabulary[i][passage[start + i]] for i in range(min(length, slots))),
            "copies": sum(copies[i][start + i] for i in range(min(length, slots))),
            "pointers": firsts[1 + start] + lasts[start + length] if length else firsts[0] + lasts[0],
        }
        if length < slots:  # the slot behind the last word says that it was the last
            said["words"] += vocabulary[length][SEP]
            said["copies"] += copies[length][len(passage)]
        else:  # that all slots are filled may mean any length from there on
            said["words"] -= math.log(longest - slots + 1)
            said["copies"] -= math.log(longest - slots + 1)
        return sum(weights.get(name, 0.0) * value for name, value in said.items()) / sum(weights.values())

    every = product(range(len(passage)), range(1, longest + 1))
    return {(a, n): score(a, n) for a, n in every if a + n <= len(passage)}, score(0, 0)


@each_sheet
@each_weights
@torch.inference_mode()
def test_marks_are_those_of_all_spans_one_by_one(named: str, sheet: ReaderLayout) -> None:
    model, weights = network(), WEIGHTS[named]
    marks = score_spans(model, rows_of(model, PAIRS, sheet), weights)
    longest = sheet.longest_answer if weights.get("pointers") else SHEET.slots
    assert marks.spans.shape == (len(PAIRS), 11, longest)
    for row, pair in enumerate(PAIRS):
        spans, none = brute_force(model, pair, weights, sheet)
        assert marks.passage[row].tolist() == [*pair[1], *[-1] * (11 - len(pair[1]))]
        assert float(marks.none[row]) == pytest.approx(none, abs=1e-4)
        for start, number in product(range(11), range(longest)):
            found = float(marks.spans[row, start, number])
            assert found == pytest.approx(spans.get((start, number + 1), -math.inf), abs=1e-4)


@each_weights
@torch.inference_mode()
def test_the_best_spans_are_the_best_of_all(named: str) -> None:
    model, weights = network(), WEIGHTS[named]
    marks = score_spans(model, rows_of(model, PAIRS), weights)
    for row, pair in enumerate(PAIRS):
        best = dict[tuple[int, ...], float]()  # the same words at several places are one answer, the best of them
        for (start, length), score in brute_force(model, pair, weights)[0].items():
            text = tuple(pair[1][start : start + length])
            best[text] = max(score, best.get(text, -math.inf))
        expected = sorted(best, key=lambda text: -best[text])[:5]
        chosen = choose_spans(marks.spans[row], marks.passage[row], 5)
        assert [tuple(pair[1][each.start : each.start + each.length]) for each in chosen] == expected
        assert [each.score for each in chosen] == pytest.approx([best[text] for text in expected], abs=1e-4)


@each_weights
def test_one_of_the_spans_or_none_is_true(named: str) -> None:
    marks = marked(PAIRS, WEIGHTS[named])
    spans, none = log_probabilities(marks.spans, marks.none)
    assert torch.allclose(spans.exp().sum((1, 2)) + none.exp(), torch.ones(len(PAIRS)), atol=1e-5)
    ratio = spans - none[:, None, None]
    expected = marks.spans - marks.none[:, None, None]
    assert torch.allclose(ratio.exp(), expected.exp(), rtol=1e-3), "shares keep the proportions"


@each_weights
@pytest.mark.parametrize("fork", range(4))
def test_rows_of_one_batch_are_marked_as_each_would_be_alone(named: str, fork: int) -> None:
    together = marked(PAIRS, WEIGHTS[named], fork)
    for row, pair in enumerate(PAIRS):
        single, n = marked([pair], WEIGHTS[named], fork), len(pair[1])
        assert torch.allclose(together.spans[row, :n].exp(), single.spans[0].exp(), atol=1e-5)
        assert torch.allclose(together.none[row], single.none[0], atol=1e-4)
        assert torch.equal(together.passage[row, :n], single.passage[0])
        assert (together.spans[row, n:] == -torch.inf).all(), "padding is in no span"


@seeded
@given(st.lists(st.tuples(questions, passages), min_size=1, max_size=4), st.sampled_from(sorted(WEIGHTS)))
def test_no_span_reaches_beyond_its_passage_or_its_slots(pairs: list[Pair], named: str) -> None:
    marks = marked(pairs, WEIGHTS[named])
    assert marks.spans.shape[-1] == SHEET.slots
    for row, (_, passage) in enumerate(pairs):
        for start, number in product(range(marks.spans.shape[1]), range(SHEET.slots)):
            possible = start + number < len(passage)
            assert bool(marks.spans[row, start, number] > -torch.inf) == possible
        for each in choose_spans(marks.spans[row], marks.passage[row], 3):
            assert 0 <= each.start < each.start + each.length <= len(passage)


@seeded
@given(passages, words)
def test_a_separator_inside_of_a_passage_is_no_word_of_an_answer(passage: list[int], word: int) -> None:
    broken = [*passage, SEP, word]
    marks = marked([([10], broken)], WEIGHTS["words"])
    for start, number in product(range(len(broken)), range(SHEET.slots)):
        possible = start + number < len(broken) and SEP not in broken[start : start + number + 1]
        assert bool(marks.spans[0, start, number] > -torch.inf) == possible


def test_a_passage_without_words_has_no_answer() -> None:
    for weights in WEIGHTS.values():
        marks = marked([([10, 11], []), ([10], [20, 21])], weights)
        spans, none = log_probabilities(marks.spans, marks.none)
        assert float(none[0]) == pytest.approx(0.0, abs=1e-6)
        assert choose_spans(spans[0], marks.passage[0]) == []
        assert len(choose_spans(spans[1], marks.passage[1])) == 1
        alone = marked([([10, 11], [])], weights)
        assert alone.passage.tolist() == [[-1]]


@torch.inference_mode()
def test_heads_of_no_weight_are_not_asked() -> None:
    model = network(outputs=("copy", "span"))
    marks = score_spans(model, rows_of(model, PAIRS), {"words": 0.0, "copies": 1.0, "pointers": 1.0})
    assert marks.none.isfinite().all()


@torch.inference_mode()
def test_a_row_knows_where_its_parts_are() -> None:
    rows = rows_of(network(), PAIRS)
    for row, (question, passage) in enumerate(PAIRS):
        ids, begin, close = rows.layout.ids[row], int(rows.begin[row]), int(rows.close[row])
        assert ids[1 : 1 + SHEET.slots].tolist() == [MASK] * SHEET.slots
        assert begin == len(question) + SHEET.slots + 3
        assert ids[begin:close].tolist() == passage
        assert int(ids[close]) == SEP
        assert rows.passage[row].nonzero()[:, 0].tolist() == list(range(begin, close + 1))
