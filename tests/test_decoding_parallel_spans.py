"""The best spans of a passage are found exactly: against trying every one of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from masquerade.decoding.spans import (
    SpanChoice,
    choose_spans,
    ends_at,
    pointers,
    span_scores,
    words_at,
)
from masquerade.errors import MasqueradeError

VOCAB, END = 7, 0


def best_spans(logs: Tensor, passage: list[int], end: int | None, n_best: int = 1) -> list[SpanChoice]:
    """The best spans by the log-probabilities of their tokens alone, (slots, vocab)."""
    ids = torch.tensor(passage)
    return choose_spans(span_scores(words_at(logs, ids, end), ends_at(logs, end)), ids, n_best)


Spans = dict[tuple[int, ...], dict[int, float]]  # the words of a span → its starts, and the score at each


def log_probs(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double).log_softmax(-1)


def every_span(logs: Tensor, passage: list[int], extra: Any = lambda start, last: 0.0, copy: Any = None) -> Spans:
    """All spans that can be, each tried by itself."""
    slots, found = len(logs), Spans()
    for start in range(len(passage)):
        for stop in range(start + 1, min(start + slots, len(passage)) + 1):
            words = passage[start:stop]
            if END in words:
                continue
            score = sum(float(logs[slot, word]) for slot, word in enumerate(words))
            if copy is not None:
                score += sum(float(copy[slot, start + slot]) for slot in range(len(words)))
            if len(words) < slots:
                score += float(logs[len(words), END])
            found.setdefault(tuple(words), {})[start] = score + extra(start, stop - 1)
    return found


def agree(choices: list[SpanChoice], expected: Spans, passage: list[int], n_best: int) -> None:
    """The choices are the best of all, each with all of its places."""
    ranked = sorted((max(starts.values()) for starts in expected.values()), reverse=True)
    assert [choice.score for choice in choices] == pytest.approx(ranked[:n_best], abs=1e-9)
    texts = [tuple(passage[choice.start : choice.start + choice.length]) for choice in choices]
    assert len(set(texts)) == len(texts)
    for text, choice in zip(texts, choices, strict=True):
        places = expected[text]
        assert choice.score == pytest.approx(max(places.values()), abs=1e-9)
        assert sorted(choice.places) == sorted(places)
        assert choice.start == choice.places[0]
        in_order = [places[place] for place in choice.places]
        assert in_order == pytest.approx(sorted(in_order, reverse=True), abs=1e-9)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=14),
    st.integers(1, 6),
    st.integers(1, 8),
    st.integers(0, 99),
)
def test_the_best_spans_are_those_that_trying_all_of_them_finds(
    passage: list[int], slots: int, n_best: int, seed: int
) -> None:
    logs = log_probs(seed, slots, VOCAB)
    agree(best_spans(logs, passage, END, n_best), every_span(logs, passage), passage, n_best)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12),
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(0, 99),
)
def test_copy_and_pointer_scores_are_summed_exactly(passage: list[int], slots: int, n_best: int, seed: int) -> None:
    logs, n = log_probs(seed, slots, VOCAB), len(passage)
    copy, starts, ends = log_probs(seed + 1, slots, n), log_probs(seed + 2, n), log_probs(seed + 3, n)
    ids = torch.tensor(passage)
    scores = span_scores(words_at(logs, ids, END) + copy, ends_at(logs, END), pointers(starts, ends, slots))
    expected = every_span(logs, passage, lambda start, last: float(starts[start] + ends[last]), copy)
    agree(choose_spans(scores, ids, n_best), expected, passage, n_best)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=9), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(0, 99),
)
def test_a_batch_of_passages_is_each_passage_alone(passages: list[list[int]], slots: int, seed: int) -> None:
    logs, longest = log_probs(seed, len(passages), slots, VOCAB), max(map(len, passages))
    padded = torch.tensor([passage + [-1] * (longest - len(passage)) for passage in passages])
    scores = span_scores(words_at(logs, padded, END), ends_at(logs, END))
    together = [choose_spans(row, ids, 3) for row, ids in zip(scores, padded, strict=True)]
    assert together == [best_spans(row, passage, END, 3) for row, passage in zip(logs, passages, strict=True)]


def test_without_an_end_token_a_span_fills_all_slots() -> None:
    logs = log_probs(1, 3, VOCAB)
    found = best_spans(logs, [1, 2, 3, 4], None, 9)
    assert {(choice.start, choice.length) for choice in found} == {(0, 3), (1, 3)}


def test_a_passage_without_a_word_has_no_span() -> None:
    logs = log_probs(1, 3, VOCAB)
    assert best_spans(logs, [END, END], END) == []
    with pytest.raises(MasqueradeError, match="The best 0 spans cannot be listed"):
        best_spans(logs, [1], END, 0)
