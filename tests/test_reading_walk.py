"""The greedy walk along a passage's n-grams: what it is, and that the exact search is never behind it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mask_cases import seeded
from torch import Tensor

from masquerade.decoding.spans import best_spans
from masquerade.reading.walk import walk

VOCAB, SLOTS, SEP = 6, 4, 0
passages = st.lists(st.integers(1, VOCAB - 1), min_size=1, max_size=10)  # few words, so that many come twice
seeds = st.integers(0, 10**6)


def said(seed: int, sharp: float = 2.0) -> Tensor:
    """What slots might say: log-probabilities (slots, vocab)"""
    draw = torch.Generator().manual_seed(seed)
    return (sharp * torch.randn(SLOTS, VOCAB, generator=draw, dtype=torch.float64)).log_softmax(-1)


def by_definition(logs: Tensor, passage: Sequence[int]) -> list[int]:
    """Slot by slot, the most probable token that makes an n-gram of the passage of what there is; up to the end."""
    found: list[int] = []
    for slot in range(SLOTS):
        n = slot + 1
        n_grams = {tuple(passage[at : at + n]) for at in range(len(passage) - n + 1)}
        allowed = [token for token in range(VOCAB) if token == SEP or (*found, token) in n_grams]
        best = max(allowed, key=lambda token: float(logs[slot, token]))
        if best == SEP:
            break
        found.append(best)
    return found


@seeded
@given(passages, seeds)
def test_the_walk_takes_the_best_continuing_token_at_each_slot(passage: list[int], seed: int) -> None:
    logs = said(seed)
    ids, score = walk(logs, passage, SEP)
    assert ids == by_definition(logs, passage)
    closed = [*ids, SEP][:SLOTS]  # an answer in all slots has none for its end
    assert score == pytest.approx(sum(float(logs[slot, token]) for slot, token in enumerate(closed)))


@seeded
@given(passages, seeds, st.integers(0, 2))
def test_the_exact_search_never_scores_below_the_walk(passage: list[int], seed: int, least: int) -> None:
    logs = said(seed)
    ids, score = walk(logs, passage, SEP, least)
    exact = best_spans(logs, passage, SEP)[0]
    nothing = float(logs[0, SEP])
    assert (exact.score if ids else max(exact.score, nothing)) >= score - 1e-9
    assert len(ids) >= min(least, 1)


def test_the_walk_misses_a_span_that_begins_less_well() -> None:
    logs = torch.full((2, VOCAB), 0.01)
    logs[0, 1], logs[0, 3], logs[1, 4], logs[1, 2] = 0.5, 0.4, 0.9, 0.05
    logs = logs.log()
    ids, score = walk(logs, [1, 2, 3, 4], SEP)
    exact = best_spans(logs, [1, 2, 3, 4], SEP)[0]
    assert (ids, (exact.start, exact.length)) == ([1, 2], (2, 2))
    assert exact.score > score


def test_a_walk_may_end_at_once_unless_it_has_to_answer() -> None:
    logs = torch.full((SLOTS, VOCAB), -5.0)
    logs[:, SEP] = -0.1
    assert walk(logs, [3, 3], SEP) == ([], pytest.approx(-0.1))
    assert walk(logs, [3, 3], SEP, least=1)[0] == [3]
    assert walk(logs, [3], SEP, least=2)[0] == [3], "the passage ends, so the answer may, too"


def test_an_end_token_inside_of_the_passage_ends_the_walk() -> None:
    logs = torch.full((SLOTS, VOCAB), -5.0)
    logs[0, 2], logs[1, SEP] = -0.1, -0.2
    assert walk(logs, [2, SEP, 3], SEP) == ([2], pytest.approx(-0.3))
