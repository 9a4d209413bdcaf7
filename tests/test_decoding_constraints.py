"""What is written under a constraint meets it, by every method; a wide search finds the best that does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from masquerade import Model, Spec, build
from masquerade.decoding.constraints import END, SpanOf, TokenSet, Trie
from masquerade.errors import MasqueradeError
from masquerade.families.own import mass
from masquerade.masks import causal
from masquerade.text.training import train_tokenizer
from masquerade.writing.generate import GeneratedText, generate
from masquerade.writing.prompts import Continue, Decode, Frame, Prefix

VOCAB, SEP = 14, 3
SMALL: dict[str, Any] = {"vocab": VOCAB, "width": 16, "layers": 1, "heads": 2, "feedforward": 16, "init_std": 0.6}
FRAMES: list[tuple[Spec, Frame]] = [
    (Spec(mask="causal", segments=0, outputs=("lm",), **SMALL), Continue(SEP)),
    (Spec(outputs=("lm",), **SMALL), Prefix(2, SEP, 4)),
    (mass(**SMALL), Decode((4,), SEP)),
]
torch.manual_seed(5)
MODELS = [(build(spec).eval(), frame) for spec, frame in FRAMES]
DECODING_METHODS: list[tuple[str, dict[str, Any]]] = [
    ("greedy", {}),
    ("sample", {"seed": 1, "temperature": 1.5}),
    ("sample", {"seed": 2, "top_k": 2, "top_p": 0.8, "copies": 2}),
    ("beam", {"beams": 3, "copies": 2}),
    ("beam", {"beams": 2, "length_penalty": 0.0, "early_stopping": True}),
]
words = st.integers(3, VOCAB - 1)  # the end token among them
plain = st.integers(5, VOCAB - 1)
rules = st.fixed_dictionaries(
    {},
    optional={
        "no_repeat": st.just(1),
        "min_new": st.just(3),
        "repetition": st.just(1.5),
        "max_new": st.integers(1, 4),
    },
).filter(lambda chosen: chosen.get("min_new", 0) <= chosen.get("max_new", 64))


def all_of(written: list[GeneratedText]) -> list[tuple[int, GeneratedText]]:
    return [(number, text) for number, one in enumerate(written) for text in (one, *one.alternatives)]


def is_span(ids: list[int], passage: list[int]) -> bool:
    return any(passage[start : start + len(ids)] == ids for start in range(len(passage)))


@pytest.mark.parametrize(("method", "own"), DECODING_METHODS)
@pytest.mark.parametrize(("model", "frame"), MODELS, ids=["continue", "prefix", "decode"])
def test_all_that_is_written_is_a_span_of_its_passage(
    model: Model, frame: Frame, method: str, own: dict[str, Any]
) -> None:
    @settings(derandomize=True, deadline=None, max_examples=15)
    @given(
        st.lists(st.lists(words, min_size=1, max_size=8).filter(lambda p: set(p) != {SEP}), min_size=1, max_size=3),
        rules,
    )
    def check(passages: list[list[int]], given_rules: dict[str, Any]) -> None:
        constraint = [SpanOf(passage) for passage in passages]
        prompts = [[6, 7, 8][: number + 1] for number in range(len(passages))]
        got = generate(model, prompts, method, frame=frame, constraint=constraint, **own, **given_rules)
        for number, text in all_of(got):
            assert text.ids and is_span(text.ids, passages[number])
            assert text.ended or len(text.ids) == given_rules.get("max_new")

    check()


@pytest.mark.parametrize(("method", "own"), DECODING_METHODS)
@pytest.mark.parametrize(("model", "frame"), MODELS, ids=["continue", "prefix", "decode"])
def test_all_that_is_written_is_one_of_the_strings(
    model: Model, frame: Frame, method: str, own: dict[str, Any]
) -> None:
    @settings(derandomize=True, deadline=None, max_examples=15)
    @given(st.lists(st.lists(plain, min_size=1, max_size=5), min_size=1, max_size=6), rules)
    def check(strings: list[list[int]], given_rules: dict[str, Any]) -> None:
        asked = {"frame": frame, "constraint": Trie(strings), **own, **given_rules}
        if min(map(len, strings)) > given_rules.get("max_new", 9):
            with pytest.raises(MasqueradeError, match=r"cannot be met within .* all of its strings are longer"):
                generate(model, [[6, 7], [8]], method, **asked)
            return
        for _, text in all_of(generate(model, [[6, 7], [8]], method, **asked)):
            assert text.ids in strings

    check()


@pytest.mark.parametrize(("method", "own"), DECODING_METHODS)
def test_only_tokens_of_the_set_are_written(method: str, own: dict[str, Any]) -> None:
    model, frame = MODELS[0]
    for kept in ([5], [6, 9, 11], range(VOCAB)):
        got = generate(model, [[6, 7], [8]], method, frame=frame, constraint=TokenSet(kept), max_new=6, **own)
        assert all(set(text.ids) <= set(kept) for _, text in all_of(got))
        endless = generate(model, [[6], [8]], method, frame=Continue(None), constraint=TokenSet(kept), max_new=4, **own)
        assert all(set(text.ids) <= set(kept) and len(text.ids) == 4 for _, text in all_of(endless))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(plain, min_size=1, max_size=6), st.lists(plain, min_size=1, max_size=3))
def test_a_wide_search_finds_the_best_span_there_is(passage: list[int], prompt: list[int]) -> None:
    model, frame = MODELS[0]
    spans = {tuple(passage[i:j]) for i in range(len(passage)) for j in range(i + 1, len(passage) + 1)}

    def log_probability(span: tuple[int, ...]) -> float:
        ids = [*prompt, *span, SEP]
        with torch.no_grad():
            logs = F.log_softmax(model.scores(causal(ids[:-1]))[0], dim=-1)
        return float(sum(logs[place, ids[place + 1]] for place in range(len(prompt) - 1, len(ids) - 1)))

    best = sorted(((log_probability(span), span) for span in spans), reverse=True)
    count = min(3, len(best))
    got = generate(
        model, [prompt], "beam", frame=frame, constraint=SpanOf(passage), beams=len(spans) + 1, copies=count,
        length_penalty=0.0, early_stopping="never", max_new=len(passage) + 1,
    )[0]  # fmt: skip
    found = [got, *got.alternatives]
    assert [text.score for text in found] == pytest.approx([score for score, _ in best[:count]], abs=1e-4)
    assert tuple(got.ids) == best[0][1] or best[0][0] - best[1][0] < 1e-4


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.lists(st.integers(0, 3), max_size=5))
def test_the_automaton_of_a_passage_allows_what_follows_there(passage: list[int], written: list[int]) -> None:
    span = SpanOf(passage)
    state: Any = span.start()
    for place, token in enumerate(written):
        before = written[:place]
        following = {
            passage[i + len(before)]
            for i in range(len(passage) - len(before))
            if passage[i : i + len(before)] == before
        }
        expected = following | ({END} if before else set())
        assert set(span.allowed(state, 9).tolist()) == expected
        state = span.advance(state, token)
        if token not in following:
            assert state is None
            return


def test_constraints_are_made_of_texts() -> None:
    tokenizer = train_tokenizer(["北京是首都 上海"], "wordpiece", size=30)
    span = SpanOf.of(tokenizer, "北京是首都")
    assert span.passage == tokenizer.encode("北京是首都")
    trie = Trie.of(tokenizer, ["北京", "上海"])
    assert set(trie.allowed(trie.start(), 5).tolist()) == {tokenizer.encode(city)[0] for city in ("北京", "上海")}


def test_a_text_under_a_constraint_is_the_same_in_a_batch_of_others() -> None:
    model, frame = MODELS[0]
    constraints = [SpanOf([5, 6, 7, 5, 8]), SpanOf([9, 10]), SpanOf([11])]
    prompts = [[5], [6, 7, 8], [9, 9]]
    together = generate(model, prompts, "beam", frame=frame, constraint=constraints, beams=3, copies=3)
    for prompt, constraint, expected in zip(prompts, constraints, together, strict=True):
        alone = generate(model, [prompt], "beam", frame=frame, constraint=constraint, beams=3, copies=3)[0]
        assert [text.ids for _, text in all_of([alone])] == [text.ids for _, text in all_of([expected])]


def test_constraints_that_cannot_be_met_are_told_in_a_sentence() -> None:
    model, frame = MODELS[0]
    for make, sentence in (
        (lambda: TokenSet([]), "The set of allowed tokens is empty"),
        (lambda: Trie([]), "The list of allowed strings is empty"),
        (lambda: Trie([[5], []]), "One of the allowed strings is empty"),
        (lambda: SpanOf([]), "The passage is empty"),
    ):
        with pytest.raises(MasqueradeError, match=sentence):
            make()
    for constraint, sentence in (
        (SpanOf([SEP, SEP]), "The constraint on prompt 1 cannot be met within 5 tokens: the passage has no token"),
        (Trie([[5] * 6]), "all of its strings are longer; allow more tokens"),
        (Trie([[5, SEP, 6]]), "check whether its strings contain the end token"),
        (SpanOf([99]), f"allows token 99, but the vocabulary of this model has {VOCAB}"),
        ([SpanOf([5])], "There are 1 constraints for 2 prompts"),
    ):
        with pytest.raises(MasqueradeError, match=sentence):
            generate(model, [[5], [6]], frame=frame, constraint=constraint, max_new=5)
    with pytest.raises(MasqueradeError, match="the texts of this frame have none"):
        generate(model, [[5]], frame=Continue(None), constraint=SpanOf([5]))
    with pytest.raises(MasqueradeError, match="The constraint on prompt 1 cannot be met within 2 tokens"):
        generate(model, [[5, 6, 7], [5]], frame=frame, constraint=[Trie([[5] * 3]), Trie([[5]])], max_new=2)
