"""Blocks of CogLTX and MemRecall: equal to the authors' own numbers."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from working_cases import tokenizer

from masquerade.errors import MasqueradeError
from masquerade.memory.working.blocks import ANYWHERE, BLOCK, cut, even_lengths, text_blocks, token_prices
from masquerade.memory.working.recall import Ids, fill, recall, windows_of

HOME = Path(__file__).parent / "fixtures" / "working"
BLOCKS = json.loads((HOME / "blocks.json").read_text(encoding="utf-8"))
RECALL = json.loads((HOME / "recall.json").read_text(encoding="utf-8"))["cases"]


def cost(prices: Sequence[int | None], ends: Sequence[int]) -> int:
    """The sum that the cut minimises."""
    last = len(prices)
    return sum(BLOCK + ((0 if end == last else ANYWHERE) if (p := prices[end - 1]) is None else p) for end in ends)


def test_blocks_end_where_the_authors_end_them() -> None:
    for text in BLOCKS["texts"]:
        for run in text["runs"]:
            prices = token_prices(text["tokens"], run["chinese_marks"])
            ends = cut(prices, run["block_size"])
            assert ends == run["ends"], text["origin"]
            assert cost(prices, ends) == run["total_cost"]


def test_degenerate_texts_are_cut_as_the_authors_cut_them() -> None:
    for case in BLOCKS["edge_cases"]:
        assert cut(token_prices(case["tokens"], chinese=False), case["block_size"]) == case["ends"]


def test_sentences_are_cut_evenly() -> None:
    for case in BLOCKS["even_split"]:
        assert even_lengths(case["sentence_lengths"], case["block_size"]) == case["block_lengths"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([None, None, None, 0, 1, 2]), max_size=14), st.integers(1, 5))
def test_no_other_cut_at_the_offered_places_costs_less(prices: list[int | None], size: int) -> None:
    ends = cut(prices, size)
    assert (ends[-1:] or [0])[0] == len(prices)
    assert all(0 < end - start <= size for start, end in zip([0, *ends], ends, strict=False))
    offered, last = set[int](), 0
    for place in [i + 1 for i, p in enumerate(prices) if p is not None or i + 1 == len(prices)]:
        while place - last > size:
            last += size
            offered.add(last)
        offered.add(place)
        last = place
    best = {0: 0}
    for place in sorted(offered):
        price = prices[place - 1]
        own = (0 if place == len(prices) else ANYWHERE) if price is None else price
        best[place] = BLOCK + own + min(best[start] for start in best if place - size <= start < place)
    assert cost(prices, ends) == best[len(prices)]


def test_the_cut_takes_linear_time() -> None:
    prices: list[int | None] = [2, None, None] * 30_000
    cut(prices[:300])
    begun = time.perf_counter()
    cut(prices)
    first = time.perf_counter() - begun
    begun = time.perf_counter()
    cut(prices * 4)
    assert time.perf_counter() - begun < 12 * first  # quadratic time would take 16 times as long


def test_blocks_of_a_text_know_their_characters() -> None:
    text = "北京是首都。上海是城市，很大！\n\nThe play is good. It is long, but good\n"
    found = text_blocks(tokenizer(), text, size=8)
    assert all(len(block.ids) <= 8 for block in found)
    pieces = [text[block.start : block.end] for block in found]
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert pieces[0] == "北京是首都。"
    assert text_blocks(tokenizer(), text, size=9)[1].end == text.index("\n")  # a block ends with its line


@pytest.mark.parametrize("text", ["", "   \n \n", "​"])
def test_an_empty_text_has_no_blocks(text: str) -> None:
    assert text_blocks(tokenizer(), text) == []


def test_one_word_of_5000_characters_is_one_block() -> None:
    text = "good " + "x" * 5000 + " good."
    found = text_blocks(tokenizer(), text)
    assert [(block.start, block.end) for block in found] == [(0, len(text))]


def test_long_texts_are_tokenized_in_parts() -> None:
    text = "the play is good.\n" * 20_000
    found = text_blocks(tokenizer(), text)
    assert found[-1].end == len(text) - 1
    assert sum(len(block.ids) for block in found) == 5 * 20_000
    assert all(a.end <= b.start for a, b in pairwise(found))


# MemRecall


class ToyJudge:
    """The judge of the fixtures; it keeps what it was called with."""

    def __init__(self) -> None:
        with np.load(HOME / "judge.npz") as held:
            self.embedding, self.u, self.w = (torch.tensor(held[name]) for name in ("embedding", "u", "W"))
        self.calls: list[list[int]] = []

    def __call__(self, windows: Sequence[Sequence[Ids]]) -> list[Tensor]:
        found = []
        for window in windows:
            ids = [number for block in window for number in block]
            self.calls.append(ids)
            e = self.embedding[ids]
            found.append(torch.sigmoid(e @ self.u + 2 * e @ (self.w @ e.mean(0))))
        return found


@pytest.mark.parametrize("number", range(len(RECALL)))
def test_recall_selects_what_the_authors_select(number: int) -> None:
    case, judge = RECALL[number], ToyJudge()
    found = recall(judge, case["query_blocks"], case["blocks"], case["window"], case["times"])
    assert list(found.kept) == case["kept"]
    assert list(found.scores) == pytest.approx(case["scores"], abs=2e-5)
    assert found.length == case["length"]
    calls = [{"length": len(ids), "first": ids[:3], "last": ids[-3:]} for ids in judge.calls]
    assert calls == case["judge_calls"]


def test_recall_of_an_empty_document_keeps_nothing() -> None:
    assert recall(ToyJudge(), [[1, 5, 2]], [], 64).kept == ()


def test_a_query_longer_than_the_window_is_one_sentence() -> None:
    with pytest.raises(MasqueradeError, match="no room for a query of 70 tokens"):
        recall(ToyJudge(), [[1] * 70], [[5, 2]], 64)
    with pytest.raises(MasqueradeError, match="at least one round"):
        recall(ToyJudge(), [[1]], [[5, 2]], 64, ())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(20, 60), st.integers(0, 99))
def test_what_is_recalled_fits_and_keeps_its_order(lengths: list[int], window: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = [rng.integers(3, 200, length).tolist() for length in lengths]
    found = recall(ToyJudge(), [[1, 7, 2]], blocks, window)
    assert list(found.kept) == sorted(set(found.kept))
    assert found.length == 3 + sum(lengths[kept] for kept in found.kept) <= window
    assert found.kept
    assert [n for some in windows_of([[1, 7, 2]], blocks, window) for n in some] == list(range(len(blocks)))


def test_filling_stops_at_the_first_block_that_does_not_fit() -> None:
    assert fill([0.9, 0.8, 0.7], [4, 7, 2], [], 10) == [0]
    assert fill([0.9, 0.8, 0.7], [4, 6, 2], [2], 12) == [0, 1, 2]
