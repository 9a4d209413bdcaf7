"""Blocks of a passage that are scored at the fork."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_cases import reader, same
from torch import Tensor

from masquerade.layout import visible
from masquerade.masks import forked, shared_passage
from masquerade.nn.blocks import BlockScorer, block_numbers
from masquerade.nn.model import build
from masquerade.nn.spec import Spec
from masquerade.reading import blocks as module
from masquerade.reading.blocks import own_range, unbroken
from masquerade.reading.questions import WindowQuestion
from masquerade.reading.reader import Reader

SPEC = Spec(
    vocab=40, width=16, layers=2, heads=2, feedforward=32, outputs=("span",), between={1: ("fork", {"block": 4})}
)


def test_the_fork_scores_every_block_of_every_question() -> None:
    torch.manual_seed(0)
    model = build(SPEC).eval()
    layout = shared_passage(list(range(10, 20)), [[5, 6], [7, 8, 9]], 2, start=8, cls=1, sep=2, mask=3)
    flow = model.flow(layout)
    assert flow.outputs["blocks"].shape == (2, 3)  # ten tokens and [SEP] are three blocks of four
    assert torch.isfinite(flow.outputs["blocks"]).all()


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 7), st.lists(st.integers(1, 12), min_size=1, max_size=4), st.integers(0, 3))
def test_a_block_scores_the_log_of_the_sum_of_its_tokens(block: int, lengths: list[int], before: int) -> None:
    torch.manual_seed(0)
    scorer, n = BlockScorer(SPEC, block), before + max(lengths)
    states = torch.randn(len(lengths), n, 16)
    place = torch.arange(n).expand(len(lengths), n)
    passage = (place >= before) & (place < before + torch.tensor(lengths)[:, None])
    scores = scorer(states, block_numbers(place + 5, passage, block))
    for row, length in enumerate(lengths):
        question = scorer.question(states[row, 0])
        tokens = [scorer.token(states[row, before + at]) @ question / 128**0.5 + scorer.bias for at in range(length)]
        expected = [torch.stack(tokens[at : at + block]).logsumexp(0) for at in range(0, length, block)]
        assert torch.allclose(scores[row, : len(expected)], torch.stack(expected), atol=1e-5)
        assert bool((scores[row, len(expected) :] == -torch.inf).all())


def test_a_question_that_is_read_apart_meets_its_passage_after_the_fork() -> None:
    passage, questions = list(range(10, 16)), [[5, 6], [7, 8, 9]]
    layout = shared_passage(passage, questions, 2, start=8, cls=1, sep=2, mask=3, apart=True)
    seen = visible(layout, layout)
    assert bool((seen == (layout.branch[:, None] == layout.branch)).all())  # below: each sees itself alone
    rows, _ = forked(layout)
    assert bool((visible(rows, rows) == (rows.real[:, :, None] & rows.real[:, None])).all())  # above: all see all


PLACES = ("by the sea", "on a mat", "in Shanghai 上海", "中国", "1, 2 and 2021", "NASA", "Café", "the red cat")
LONG = " ".join(f"The old dogs saw two cats {one}, and was born {other}." for one in PLACES for other in PLACES)
ASKED = [("Who was born by the sea?", LONG), ("中国的首都在哪里？", LONG), ("Who sat?", "The cat sat.")]


def block_reader() -> Reader:
    """A reader whose fork scores blocks of four tokens, and which encodes questions apart."""
    return reader(fork=None, apart=True, stored=torch.float32, memory=2**24, between={1: ("fork", {"block": 4})})


def test_reading_the_best_blocks_of_all_is_reading_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asker = block_reader()
    whole = asker.ask_many(ASKED, n_best=3, windows=0)
    monkeypatch.setattr(module.choose_blocks, "__defaults__", (10**6,))
    found = asker.ask_many(ASKED, n_best=3)
    assert all(same(one, other) for one, other in zip(found, whole, strict=True))


def test_fewer_blocks_are_read_and_answers_stay_in_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    asker, read = block_reader(), list[int]()
    monkeypatch.setattr(module.choose_blocks, "__defaults__", (3,))
    odds = asker._odds

    def counted(batch: Sequence[list[WindowQuestion]]) -> Iterator[tuple[WindowQuestion, Tensor, float]]:
        read.extend(job.length for jobs in batch for job in jobs)
        return odds(batch)

    monkeypatch.setattr(asker, "_odds", counted)
    answer = asker.ask(*ASKED[0], n_best=4)
    assert sum(read) <= 3 * 3 * 4  # three blocks with a neighbour on either side
    for each in (answer, *answer.alternatives):
        assert LONG[each.start : each.end] == each.text != ""


def test_answers_from_remembered_windows_are_those_from_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.choose_blocks, "__defaults__", (5,))
    asker, cold = block_reader(), block_reader().ask_many(ASKED, n_best=2)
    asker.remember(LONG)
    assert len(asker.memory) > 1
    assert all(not held.layers for held in asker.memory.held.values()), "no keys and values are kept"
    warm = asker.ask_many(ASKED, n_best=2)
    assert [each.text for each in warm] == [each.text for each in cold]
    assert [each.score for each in warm] == pytest.approx([each.score for each in cold], abs=1e-5)


@given(st.lists(st.integers(0, 30), min_size=1, unique=True).map(sorted), st.integers(1, 6))
def test_no_span_goes_over_a_gap(tokens: list[int], longest: int) -> None:
    found = unbroken(tokens, longest)
    for start in range(len(tokens)):
        for length in range(longest):
            text = tokens[start : start + length + 1]
            whole = len(text) == length + 1 and text == list(range(text[0], text[0] + length + 1))
            assert bool(found[start, length]) == whole
    begin, end = own_range(tokens, (5, 20))
    assert tokens[begin:end] == [each for each in tokens if 5 <= each < 20]
