"""Two masks of one network: mixtures of both, and drafts of one that the other chooses from."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from test_decoding_parallel import MASK, MOST, PROMPTS, SEP, all_of, both_ways, logs_at, model_of, texts
from torch import Tensor

from masquerade import Layout, Model
from masquerade.decoding.constraints import SpanOf
from masquerade.decoding.mixture import linear, mixed
from masquerade.decoding.plans import diffusion, mask_predict, parallel
from masquerade.drawing.steps import steps
from masquerade.errors import MasqueradeError
from masquerade.masks import causal, prefix
from masquerade.writing.generate import generate, stream

FRAMES = [("bert", None), ("bert", "continue"), ("unilm", None), ("unilm", "continue"), ("nezha", None)]


def next_word(model: Model, name: str, frame: str | None, prompt: list[int], written: list[int]) -> Tensor:
    """The log-probabilities of the next word, which sees those before it: (vocab,)"""
    layout: Layout
    if frame == "continue":
        layout = causal([*prompt, *written, MASK]).replace(segment=2 if name == "unilm" else 0)
    else:
        layout = prefix(prompt, [*written, MASK])
        layout = layout.replace(segment=layout.segment + 4) if name == "unilm" else layout
    return logs_at(model, layout, 1)[0]


# Mixtures


@pytest.mark.parametrize(("name", "frame"), FRAMES)
@pytest.mark.parametrize("gamma", [0.3, 0.7, linear(0.0, 1.0, 4), lambda step: 1.0 if step % 2 else 0.0])
def test_a_mixture_takes_the_best_word_by_both_masks(name: str, frame: str | None, gamma: Any) -> None:
    model = model_of(name)
    got = generate(model, PROMPTS, "mixture", gamma=gamma, max_new=MOST, frame=frame, length_penalty=0.0)
    for prompt, text in zip(PROMPTS, got, strict=True):
        at_once = logs_at(model, both_ways(name, frame, prompt, [MASK] * MOST), MOST)
        words, score = list[int](), 0.0
        while len(words) < MOST and SEP not in words:
            share = gamma(len(words)) if callable(gamma) else gamma
            one_by_one = next_word(model, name, frame, prompt, words)
            shares = (1 - share) * one_by_one.exp() + share * at_once[len(words)].exp()
            score += math.log(float(shares.max()))
            words.append(int(shares.argmax()))
        assert text.ids + [SEP] * text.ended == words
        assert text.score == pytest.approx(score, abs=1e-3)


@pytest.mark.parametrize(("name", "frame"), FRAMES)
def test_a_mixture_without_the_parallel_pass_is_greedy_and_with_nothing_else_is_parallel(
    name: str, frame: str | None
) -> None:
    model, settings = model_of(name), {"max_new": MOST, "frame": frame}
    greedy = generate(model, PROMPTS, "greedy", **settings)
    none = generate(model, PROMPTS, "mixture", gamma=0.0, length_penalty=0.0, **settings)
    assert texts(none) == texts(greedy)
    assert [text.score for text in none] == pytest.approx([text.score for text in greedy], abs=1e-4)
    assert [text.trace for text in none] == [text.trace for text in greedy]
    at_once = generate(model, PROMPTS, "parallel", **settings)
    alone = generate(model, PROMPTS, "mixture", gamma=1.0, length_penalty=0.0, **settings)
    assert texts(alone) == texts(at_once) != texts(none)
    assert [text.score for text in alone] == pytest.approx([text.score for text in at_once], abs=1e-4)


def test_a_mixture_is_searched_by_beams() -> None:
    model, settings = model_of("bert"), {"beams": 4, "copies": 3, "max_new": MOST}
    search = generate(model, PROMPTS, "beam", **settings)
    none = generate(model, PROMPTS, "mixture", gamma=0.0, **settings)
    assert texts(none) == texts(search)
    assert [text.score for text in none] == pytest.approx([text.score for text in search], abs=1e-4)
    half = generate(model, PROMPTS, "mixture", gamma=0.5, **settings)
    assert texts(half) != texts(search)
    for prompt, one in zip(PROMPTS, half, strict=True):
        at_once = logs_at(model, both_ways("bert", None, prompt, [MASK] * MOST), MOST)
        for text in all_of(one):
            words, score = text.ids + [SEP] * text.ended, 0.0
            for place, word in enumerate(words):
                one_by_one = next_word(model, "bert", None, prompt, words[:place])
                score += float(mixed(one_by_one, at_once[place], 0.5)[word])
            assert text.score == pytest.approx(score / len(words), abs=1e-3)


@pytest.mark.parametrize("beams", [1, 3])
def test_a_mixture_is_the_same_alone_in_a_batch_and_without_a_cache(beams: int) -> None:
    model = model_of("unilm")
    settings: dict[str, Any] = {"gamma": 0.5, "beams": beams, "copies": beams}
    long = [2, *range(10, 44), 3]  # leaves room for four words
    prompts = [*PROMPTS, long]
    alone = [generate(model, [prompt], "mixture", **settings)[0] for prompt in prompts]
    assert texts(generate(model, prompts, "mixture", **settings)) == texts(alone)
    assert texts(generate(model, prompts, "mixture", cache=False, **settings)) == texts(alone)


def test_log_shares_are_mixed() -> None:
    one, other = torch.randn(2, 3, 9).log_softmax(-1)
    torch.testing.assert_close(mixed(one, other, 0.25).exp(), 0.75 * one.exp() + 0.25 * other.exp())
    assert [linear(0.2, 1.0, 4)(step) for step in (0, 1, 4, 9)] == pytest.approx([0.2, 0.4, 1.0, 1.0])


# Drafts


def chain(model: Model, name: str, frame: str | None, prompt: list[int], words: list[int]) -> float:
    """The log-probability of a text, word after word."""
    return sum(float(next_word(model, name, frame, prompt, words[:i])[word]) for i, word in enumerate(words))


@pytest.mark.parametrize(("name", "frame"), FRAMES)
@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize(
    "drafting",
    [
        parallel(copies=6),
        parallel(lengths=[1, 3, 5], copies=6),
        mask_predict(3, lengths=[2, 4, 6], copies=3),
        diffusion(3, temperature=1.0, seed=1, copies=4),
    ],
)
def test_drafts_are_scored_as_they_would_be_word_by_word(
    name: str, frame: str | None, penalty: float, drafting: Any
) -> None:
    model, settings = model_of(name), {"max_new": MOST, "frame": frame}
    drafts = generate(model, PROMPTS, drafting, **settings)
    count = min(len(all_of(one)) for one in drafts)
    got = generate(model, PROMPTS, "rerank", drafts=drafting, length_penalty=penalty, copies=count, **settings)
    for prompt, one, before in zip(PROMPTS, got, drafts, strict=True):
        scores = {}
        for text in all_of(before):
            words = text.ids + [SEP] * text.ended
            scores[tuple(words)] = chain(model, name, frame, prompt, words) / len(words) ** penalty
        found = [text.score for text in all_of(one)]
        assert found == sorted(found, reverse=True)
        assert found[0] == pytest.approx(max(scores.values()), abs=1e-3)
        for text in all_of(one):
            assert text.score == pytest.approx(scores[tuple(text.ids + [SEP] * text.ended)], abs=1e-3)


def test_the_number_of_drafts_is_that_of_parallel_texts() -> None:
    model = model_of("bert")
    by_number = generate(model, PROMPTS, "rerank", drafts=5, lengths=[2, 4], copies=5, max_new=MOST)
    by_method = generate(model, PROMPTS, "rerank", drafts=parallel([2, 4], 5), copies=5, max_new=MOST)
    assert texts(by_number) == texts(by_method)
    one = generate(model, PROMPTS, "rerank", drafts=1, max_new=MOST)
    assert texts(one) == texts(generate(model, PROMPTS, "parallel", max_new=MOST))
    best = generate(model, PROMPTS, "rerank", drafts=8, max_new=MOST)
    assert texts(best) != texts(one), "no draft was chosen before the first; the cases are too easy"


def test_a_choice_of_drafts_is_the_same_alone_in_a_batch_and_without_a_cache() -> None:
    model, settings = model_of("nezha"), {"drafts": 6, "copies": 6, "max_new": MOST}
    alone = [generate(model, [prompt], "rerank", **settings)[0] for prompt in PROMPTS]
    assert texts(generate(model, PROMPTS, "rerank", **settings)) == texts(alone)
    assert texts(generate(model, PROMPTS, "rerank", cache=False, **settings)) == texts(alone)


def test_each_prompt_is_read_once_and_all_its_drafts_in_one_pass() -> None:
    model, seen = model_of("bert"), []
    hook = model.embeddings.register_forward_pre_hook(lambda _, inputs: seen.append(tuple(inputs[1].ids.shape)))
    generate(model, PROMPTS[:1], "rerank", drafts=parallel(lengths=4, copies=6), max_new=MOST)
    hook.remove()
    assert seen == [(1, 5 + 5), (1, 5), (6, 5 + 5)]  # four words and the end; the prompt; words and masks


def test_traces_and_streams_are_those_of_the_best_draft() -> None:
    model = model_of("bert")
    for method, own in (
        ("mixture", {"gamma": 0.4}),
        ("rerank", {"drafts": 4}),
        ("rerank", {"drafts": mask_predict(3)}),
    ):
        for prompt in PROMPTS:
            text = generate(model, [prompt], method, max_new=MOST, **own)[0]
            assert steps(text.trace)[-1].ids == text.ids + [SEP] * text.ended
            assert "".join(stream(model, prompt, method, max_new=MOST, **own)) == text.text


def test_what_is_mixed_or_drafted_under_a_constraint_meets_it() -> None:
    model, passage = model_of("bert"), [9, 12, 33, 12, 40, 22]
    spans = {tuple(passage[i:j]) for i in range(6) for j in range(i + 1, 7)}
    for method, own in (
        ("mixture", {"gamma": 0.5}),
        ("mixture", {"gamma": 0.5, "beams": 3, "copies": 2}),
        ("rerank", {"drafts": 5, "copies": 3}),
        ("rerank", {"drafts": mask_predict(2)}),
    ):
        for one in generate(model, PROMPTS, method, constraint=SpanOf(passage), max_new=4, **own):
            assert all(tuple(text.ids) in spans for text in all_of(one))


# What cannot be done


@pytest.mark.parametrize(
    ("method", "settings", "sentence"),
    [
        ("mixture", {"gamma": 1.5}, "no share γ = 1.5; give a number from 0 to 1"),
        ("mixture", {"gamma": -0.1}, "no share γ = -0.1"),
        ("mixture", {"gamma": float("nan")}, "no share γ = nan"),
        ("mixture", {"gamma": lambda step: 2.0}, "no share γ = 2.0"),
        ("mixture", {"beams": 0}, "A search with 0 beams"),
        ("mixture", {"copies": 2}, "1 beams cannot give 2 texts"),
        ("rerank", {"drafts": 0}, "0 texts cannot be written"),
        ("rerank", {"copies": 9}, "8 drafts cannot give 9 texts"),
        ("rerank", {"drafts": mask_predict(2), "lengths": 3}, "'lengths' belongs to the method that writes the drafts"),
        ("rerank", {"no_repeat": 2}, "'no_repeat' and 'repetition' do not work"),
    ],
)
def test_impossible_settings_are_told_in_a_sentence(method: str, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MasqueradeError, match=sentence):
        generate(model_of("bert"), PROMPTS, method, max_new=MOST, **settings)


@pytest.mark.parametrize("method", ["mixture", "rerank"])
@pytest.mark.parametrize("name", ["gpt", "mass", "glm", "xlnet"])
def test_a_mask_that_cannot_is_refused(method: str, name: str) -> None:
    with pytest.raises(MasqueradeError, match="cannot write several tokens at once"):
        generate(model_of(name), [[2, 9, 3]], method, max_new=4)


def test_a_schedule_of_no_steps_or_shares_is_refused() -> None:
    with pytest.raises(MasqueradeError, match="cannot change in 0 steps"):
        linear(0.0, 1.0, 0)
    with pytest.raises(MasqueradeError, match="no share γ = 2"):
        linear(0.0, 2, 5)
