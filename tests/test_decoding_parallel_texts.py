"""Words written at once: how many there are, which texts are next best, what chance draws, how it all came about."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_decoding_parallel import (
    CLS,
    DECODING_METHODS,
    MASK,
    MOST,
    PROMPTS,
    SEP,
    Quiet,
    all_of,
    both_ways,
    cut,
    logs_at,
    model_of,
    texts,
)

from masquerade.drawing.steps import steps
from masquerade.masks import bidirectional
from masquerade.writing.generate import generate, stream

# How long a text is


def test_the_length_beam_takes_the_length_whose_words_are_most_probable_on_average() -> None:
    model, lengths = model_of("bert"), [1, 2, 4, 6]
    got = generate(model, PROMPTS, "parallel", lengths=lengths, copies=4, max_new=MOST)
    assert len({len(text.ids) for text in got}) > 1
    for prompt, text in zip(PROMPTS, got, strict=True):
        scored: list[tuple[float, list[int]]] = []
        for n in lengths:
            layout = bidirectional([*prompt, *[MASK] * n, SEP], [0] * len(prompt) + [1] * (n + 1))
            logs = logs_at(model, layout, n + 1)[:-1]
            logs[:, SEP] = -torch.inf
            scored.append((float(logs.amax(-1).mean()), logs.argmax(-1).tolist()))
        best = max(scored)
        assert (text.ids, text.ended) == (best[1], True)
        assert text.score == pytest.approx(best[0], abs=1e-4)
        assert [each.score for each in all_of(text)] == sorted((t.score for t in all_of(text)), reverse=True)
        assert {commit.index for commit in text.trace} == set(range(len(text.ids)))


# n-best, chance, streams, traces


def test_the_copies_of_a_parallel_text_deviate_where_it_costs_least() -> None:
    model, n = model_of("bert"), 3
    got = generate(model, PROMPTS, "parallel", copies=5, max_new=n)
    for prompt, text in zip(PROMPTS, got, strict=True):
        logs = logs_at(model, both_ways("bert", None, prompt, [MASK] * n), n)
        total = logs[0, :, None, None] + logs[1, :, None] + logs[2]
        order = total.flatten().argsort(descending=True)[:20000].tolist()
        every = [tuple(cut([place // 2500, place // 50 % 50, place % 50])) for place in order]
        ranked = list(dict.fromkeys(every))  # a text that ends early has the best of what could be behind its end
        assert [tuple(each.ids + [SEP] * each.ended) for each in all_of(text)] == ranked[:5]


def test_words_are_drawn_as_often_as_they_are_probable() -> None:
    model, copies = model_of("bert"), 1500
    frame = Quiet(CLS, SEP, MASK)
    got = generate(
        model, PROMPTS[:1], "diffusion", rounds=1, temperature=0.8, seed=1, copies=copies, max_new=2, frame=frame
    )
    drawn = torch.tensor([text.ids for text in all_of(got[0])])
    with torch.no_grad():
        scores = model.scores(both_ways("bert", None, PROMPTS[0], [MASK] * 2))[0, -2:]
    for slot in range(2):
        shares = torch.bincount(drawn[:, slot], minlength=50) / copies
        torch.testing.assert_close(shares, (scores[slot] / 0.8).softmax(-1), atol=0.05, rtol=0)


def test_draws_repeat_by_seed_and_differ_by_copy() -> None:
    model = model_of("bert")

    def drawn(seed: int) -> list[list[list[int]]]:
        settings: dict[str, Any] = {"temperature": 3.0, "seed": seed, "copies": 3, "max_new": MOST}
        return texts(generate(model, PROMPTS, "diffusion", rounds=2, **settings))

    assert drawn(1) == drawn(1) != drawn(2)
    assert len({tuple(ids) for ids in drawn(1)[0]}) == 3


@pytest.mark.parametrize(("method", "own"), DECODING_METHODS)
def test_a_trace_ends_in_the_text_and_a_stream_is_the_text(method: str, own: dict[str, Any]) -> None:
    model = model_of("bert")
    for number, one in enumerate(generate(model, PROMPTS, method, max_new=MOST, **own)):
        for text in all_of(one):
            final = steps(text.trace)[-1].ids
            words = text.ids + [SEP] * (text.ended and "lengths" not in own)
            assert final == words
            assert {commit.prompt for commit in text.trace} == {number}
    if "copies" not in own:
        for prompt in PROMPTS:
            written = generate(model, [prompt], method, max_new=MOST, **own)[0]
            assert "".join(stream(model, prompt, method, max_new=MOST, **own)) == written.text


def test_mask_predict_traces_what_was_overwritten() -> None:
    model = model_of("bert")
    rewritten = False
    for prompt in PROMPTS:
        trace = generate(model, [prompt], "mask-predict", rounds=4, max_new=MOST)[0].trace
        first = {commit.index: commit.id for commit in trace if commit.step == 0}
        rewritten |= any(first.get(commit.index) != commit.id for commit in trace)
        assert len({(commit.step, commit.index) for commit in trace}) == len(trace)
    assert rewritten
