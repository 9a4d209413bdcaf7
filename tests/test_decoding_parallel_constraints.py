"""Words written at once under a constraint: what is written meets it, by every method, and one pass finds the best
there is, against trying everything."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from masquerade import Model, Spec, build
from masquerade.decoding.constraints import Constraint, SpanOf, TokenSet, Trie
from masquerade.decoding.loop import DecodingTask, Session
from masquerade.decoding.strings import best_strings, variations
from masquerade.errors import MasqueradeError
from masquerade.masks import bidirectional
from masquerade.writing.generate import GeneratedText, generate
from masquerade.writing.prompts import Frame, Prefix

VOCAB, SEP, MASK = 14, 3, 4
FRAME: Frame = Prefix(2, SEP, MASK)
PROMPTS = [[2, 6, 3], [2, 7, 8, 9, 3], [2, 10, 11, 3]]
DECODING_METHODS: list[tuple[str, dict[str, Any]]] = [
    ("parallel", {}),
    ("parallel", {"copies": 3}),
    ("parallel", {"both_ways": False}),
    ("mask-predict", {"rounds": 3}),
    ("diffusion", {"rounds": 3}),
    ("diffusion", {"each": 1, "both_ways": False}),
    ("diffusion", {"rounds": 2, "temperature": 2.0, "seed": 1, "copies": 2}),
    ("blocks", {"size": 1}),
    ("blocks", {"size": 2}),
    ("blocks", {"size": 3, "rounds": 2}),
    ("blocks", {"size": 2, "temperature": 1.5, "seed": 2}),
    ("mixture", {"gamma": 0.5}),
    ("rerank", {"drafts": 4, "copies": 2}),
]
words = st.integers(3, VOCAB - 1)  # the end token among them
plain = st.integers(5, VOCAB - 1)


def a_model() -> Model:
    torch.manual_seed(5)
    model = build(Spec(vocab=VOCAB, width=16, layers=1, heads=2, feedforward=16, init_std=0.6, outputs=("lm",))).eval()
    with torch.no_grad():
        model.heads["lm"].bias.normal_(0, 0.5)
    return model


MODEL = a_model()


def all_of(written: list[GeneratedText]) -> list[tuple[int, GeneratedText]]:
    return [(number, text) for number, one in enumerate(written) for text in (one, *one.alternatives)]


def spans(passage: list[int]) -> set[tuple[int, ...]]:
    n = len(passage)
    every = {tuple(passage[i:j]) for i in range(n) for j in range(i + 1, n + 1)}
    return {span for span in every if SEP not in span}


def logs_of(prompt: list[int], slots: int) -> Tensor:
    """What one parallel pass says of its slots, (slots, vocab)."""
    layout = bidirectional([*prompt, *[MASK] * slots], [0] * len(prompt) + [1] * slots)
    with torch.no_grad():
        return MODEL.scores(layout)[0, -slots:].log_softmax(-1)


def ranked(strings: set[tuple[int, ...]], logs: Tensor) -> list[tuple[float, tuple[int, ...]]]:
    """Strings that fit into the slots by their log-probability, each with its end if there is a slot for it."""
    scored = []
    for string in strings:
        if len(string) <= len(logs):
            ids = [*string, SEP][: len(logs)]
            scored.append((sum(float(logs[place, number]) for place, number in enumerate(ids)), string))
    return sorted(scored, reverse=True)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(words, min_size=1, max_size=9).filter(lambda p: set(p) != {SEP}), st.integers(1, 5), st.integers(1, 4))
def test_one_pass_finds_the_best_spans_of_a_passage(passage: list[int], most: int, copies: int) -> None:
    got = generate(MODEL, PROMPTS, "parallel", frame=FRAME, constraint=SpanOf(passage), max_new=most, copies=copies)
    for prompt, text in zip(PROMPTS, got, strict=True):
        best = ranked(spans(passage), logs_of(prompt, most))
        found = [text, *text.alternatives]
        assert [each.score for each in found] == pytest.approx([score for score, _ in best[:copies]], abs=1e-4)
        assert {tuple(each.ids) for each in found} <= spans(passage)
        assert len({tuple(each.ids) for each in found}) == len(found)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.lists(plain, min_size=1, max_size=5), min_size=1, max_size=8), st.integers(1, 5), st.integers(1, 4))
def test_one_pass_finds_the_best_strings_of_a_trie(strings: list[list[int]], most: int, copies: int) -> None:
    asked: dict[str, Any] = {"frame": FRAME, "constraint": Trie(strings), "max_new": most, "copies": copies}
    every = {tuple(string) for string in strings}
    if min(map(len, every)) > most:
        with pytest.raises(MasqueradeError, match="cannot be met within"):
            generate(MODEL, PROMPTS, "parallel", **asked)
        return
    for prompt, text in zip(PROMPTS, generate(MODEL, PROMPTS, "parallel", **asked), strict=True):
        best = ranked(every, logs_of(prompt, most))
        found = [text, *text.alternatives]
        assert [each.score for each in found] == pytest.approx([score for score, _ in best[:copies]], abs=1e-4)
        assert {tuple(each.ids) for each in found} <= every


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.lists(st.lists(st.integers(5, 7), min_size=1, max_size=4), min_size=2, max_size=8),
    st.integers(0, 99),
    st.sampled_from([-3.0, 0.0, 2.0]),
)
def test_the_walk_through_a_trie_is_exact_for_scores_of_any_sign(
    strings: list[list[int]], seed: int, shift: float
) -> None:
    """As they are where words are drawn by chance."""
    table = torch.randn(4, VOCAB, generator=torch.Generator().manual_seed(seed)) + shift
    task = DecodingTask(Session(MODEL, FRAME.canvas(PROMPTS[:1])), SEP, [4])
    trie = Trie(strings)
    found = best_strings(task, trie, trie.start(), table, 4, 99)
    expected = ranked({tuple(string) for string in strings}, table)
    assert sorted(tuple(ids) for ids in found) == sorted(tuple([*ids, SEP][:4]) for _, ids in expected)
    scores = [sum(float(table[place, number]) for place, number in enumerate(ids)) for ids in found]
    assert scores == pytest.approx([score for score, _ in expected], abs=1e-4)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(1, 4), st.integers(1, 30), st.integers(0, 99), st.booleans())
def test_variations_are_the_best_of_all_fillings(slots: int, n: int, seed: int, ends: bool) -> None:
    table = torch.randn(slots, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.double).log_softmax(-1)
    whole: dict[tuple[int, ...], float] = {}
    for ids in product(range(5), repeat=slots):
        text = ids[: ids.index(SEP) + 1] if ends and SEP in ids else ids
        score = sum(float(table[place, number]) for place, number in enumerate(ids))
        whole[text] = max(whole.get(text, -1e9), score)
    expected = sorted(whole, key=lambda text: -whole[text])[:n]
    assert [tuple(ids) for ids in variations(table, SEP if ends else None, n)] == expected


@pytest.mark.parametrize(("method", "own"), DECODING_METHODS)
def test_all_that_is_written_at_once_meets_its_constraint(method: str, own: dict[str, Any]) -> None:
    @settings(derandomize=True, deadline=None, max_examples=12)
    @given(
        st.lists(st.lists(words, min_size=1, max_size=8).filter(lambda p: set(p) != {SEP}), min_size=3, max_size=3),
        st.lists(st.lists(plain, min_size=1, max_size=4), min_size=1, max_size=6),
        st.integers(4, 7),
        st.sampled_from([0, 0, 2]),
    )
    def check(passages: list[list[int]], strings: list[list[int]], most: int, least: int) -> None:
        asked: dict[str, Any] = {"frame": FRAME, "max_new": most, "min_new": least, **own}
        constraints: list[Constraint] = [SpanOf(passage) for passage in passages]
        for number, text in all_of(generate(MODEL, PROMPTS, method, constraint=constraints, **asked)):
            assert tuple(text.ids) in spans(passages[number])
            assert text.ended or len(text.ids) == most
        for _, text in all_of(generate(MODEL, PROMPTS, method, constraint=Trie(strings), **asked)):
            assert text.ids in strings
        kept = {number for passage in passages for number in passage} - {SEP}
        for _, text in all_of(generate(MODEL, PROMPTS, method, constraint=TokenSet(kept), **asked)):
            assert set(text.ids) <= kept

    check()


@pytest.mark.parametrize(("method", "own"), DECODING_METHODS)
def test_under_a_constraint_a_batch_is_each_prompt_alone(method: str, own: dict[str, Any]) -> None:
    constraints: list[Constraint] = [SpanOf([9, 5, 9, 6, 12]), Trie([[5], [6, 7], [6, 8, 9]]), TokenSet([5, 6, 11])]
    asked: dict[str, Any] = {"frame": FRAME, "max_new": 5, **own}
    together = generate(MODEL, PROMPTS, method, constraint=constraints, **asked)
    anew = generate(MODEL, PROMPTS, method, constraint=constraints, cache=False, **asked)
    alone = [
        generate(MODEL, [prompt], method, constraint=rule, **asked)[0]
        for prompt, rule in zip(PROMPTS, constraints, strict=True)
    ]
    ids = [[text.ids for _, text in all_of([one])] for one in alone]
    assert [[text.ids for _, text in all_of([one])] for one in together] == ids
    assert [[text.ids for _, text in all_of([one])] for one in anew] == ids


def test_blocks_of_one_word_under_a_constraint_are_greedy_under_it() -> None:
    for rule in (SpanOf([9, 5, 9, 6, 12, 9, 5]), Trie([[5, 5], [6, 7], [6, 8, 9], [12]]), TokenSet([5, 6, 11])):
        greedy = generate(MODEL, PROMPTS, "greedy", frame=FRAME, constraint=rule, max_new=6)
        got = generate(MODEL, PROMPTS, "blocks", size=1, frame=FRAME, constraint=rule, max_new=6)
        assert [(text.ids, text.ended) for text in got] == [(text.ids, text.ended) for text in greedy]


def test_a_length_that_is_said_is_the_length_of_what_the_constraint_allows() -> None:
    rule = Trie([[5], [6, 7], [6, 8], [6, 8, 9]])
    for n, allowed in ((1, [[5]]), (2, [[6, 7], [6, 8]]), (3, [[6, 8, 9]])):
        for method in ("parallel", "mask-predict", "diffusion"):
            for text in generate(MODEL, PROMPTS, method, frame=FRAME, constraint=rule, lengths=n, max_new=6):
                assert text.ids in allowed and text.ended
    span = generate(MODEL, PROMPTS, "parallel", frame=FRAME, constraint=SpanOf([5, 6, 7]), lengths=[2, 5], max_new=6)
    assert all(text.ids in ([5, 6], [6, 7]) for text in span)
    for method in ("parallel", "mask-predict"):
        with pytest.raises(
            MasqueradeError, match="constraint on prompt 1 cannot be met at the lengths tried: all of its"
        ):
            generate(MODEL, PROMPTS, method, frame=FRAME, constraint=rule, lengths=4, max_new=6)
        with pytest.raises(MasqueradeError, match="cannot be met at the lengths tried: it has no tokens"):
            generate(MODEL, PROMPTS, method, frame=FRAME, constraint=TokenSet([SEP]), lengths=2, max_new=6)
    text = generate(MODEL, PROMPTS, "parallel", frame=FRAME, constraint=TokenSet([SEP]), min_new=2, max_new=6)[0]
    assert text.ids == [] and text.ended, "a constraint holds, and the least length gives way"


def test_what_cannot_be_met_is_told_in_a_sentence() -> None:
    for method, own in DECODING_METHODS:
        with pytest.raises(MasqueradeError, match="cannot be met within 1 tokens: all of its strings are longer"):
            generate(MODEL, PROMPTS, method, frame=FRAME, constraint=Trie([[5, 6]]), max_new=1, **own)
        with pytest.raises(MasqueradeError, match="A constraint allows token 99"):
            generate(MODEL, PROMPTS, method, frame=FRAME, constraint=TokenSet([99]), max_new=4, **own)
