"""Beam search equals the reference's, token for token, on random cases of every kind."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from writers import CONFIGS, END, VOCAB, reference_texts, writer

from masquerade import Layout, Model, Spec, build
from masquerade.decoding.loop import Session
from masquerade.errors import MasqueradeError
from masquerade.writing.generate import GeneratedText, generate
from masquerade.writing.prompts import Continue


@pytest.fixture(scope="module", params=CONFIGS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Model]:
    return request.param, *writer(request.param, tmp_path_factory.mktemp(request.param))


def whole(written: GeneratedText) -> list[int]:
    """Its ids, with the end if it came to it."""
    return written.ids + [END] * written.ended


def all_of(written: GeneratedText) -> list[GeneratedText]:
    return [written, *written.alternatives]


def some_prompts(chance: random.Random, most: int = 4) -> list[list[int]]:
    return [[chance.randrange(5, VOCAB) for _ in range(chance.randint(1, 8))] for _ in range(chance.randint(1, most))]


def compare(pair: tuple[str, Any, Model], cases: int, chance: random.Random) -> list[GeneratedText]:
    """Random searches by both, which have to agree; all that was written."""
    kind, theirs, ours = pair
    everything: list[GeneratedText] = []
    for case in range(cases):
        prompts, beams = some_prompts(chance), chance.randint(2, 5)
        copies = chance.randint(1, beams)
        shared = {
            "length_penalty": chance.choice([-1.0, 0.0, 0.6, 1.0, 2.0]),
            "early_stopping": chance.choice([True, False, "never"]),
        }
        most, least, ngram = chance.randint(3, 14), chance.choice([0, 0, 2]), chance.choice([0, 0, 2, 3])
        penalty = chance.choice([1.0, 1.0, 1.3])
        got = generate(
            ours, prompts, "beam", beams=beams, copies=copies, max_new=most, min_new=least, no_repeat=ngram,
            repetition=penalty, **shared,
        )  # fmt: skip
        expected, said = reference_texts(
            kind, theirs, prompts, num_beams=beams, num_return_sequences=copies, max_new_tokens=most,
            min_new_tokens=least or None, no_repeat_ngram_size=ngram, repetition_penalty=penalty,
            **shared,
        )  # fmt: skip
        found = [text for written in got for text in all_of(written)]
        assert [whole(text) for text in found] == expected, f"case {case}"
        assert [text.score for text in found] == pytest.approx(said.sequences_scores.tolist(), abs=1e-4)
        everything += found
    return everything


def test_random_searches_equal_the_reference(pair: tuple[str, Any, Model]) -> None:
    found = compare(pair, 50, random.Random(1))
    ended = sum(text.ended for text in found)
    assert ended > 50 and len(found) - ended > 5, "the cases have to see texts that end, and texts that are cut off"


def test_only_never_goes_on_while_a_longer_text_could_still_win(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = ({1: 0.6, 5: 0.4}, {1: 0.5, 5: 0.3, 6: 0.2}, {5: 0.9, 6: 0.1})  # token 1 is the end

    def logits(session: Session, queried: Tensor, new: Layout, states: Tensor) -> Tensor:
        scores = torch.full((len(queried), 1, 8), -torch.inf)
        for token, share in steps[min(int(new.position.max()), 2)].items():
            scores[..., token] = math.log(share)
        return scores

    monkeypatch.setattr(Session, "logits", logits)
    model = build(Spec(vocab=8, width=8, layers=1, heads=1, feedforward=8, mask="causal", outputs=("lm",)))
    settings: dict[str, Any] = {"beams": 2, "length_penalty": 2.0, "max_new": 10, "frame": Continue(end=1)}
    short, long = (generate(model, [[7]], "beam", early_stopping=stop, **settings)[0] for stop in (False, "never"))
    assert short.ids == [5] and short.score == pytest.approx(math.log(0.2) / 4)
    assert long.ids == [5] * 10 and long.score == pytest.approx((math.log(0.12) + 8 * math.log(0.9)) / 100)


def test_one_beam_is_greedy_with_the_score_of_a_beam(pair: tuple[str, Any, Model]) -> None:
    _, _, ours = pair
    prompts = [[5, 6, 7], [8], [20, 21]]
    greedy = generate(ours, prompts, max_new=8)
    for penalty in (0.0, 1.0, 2.0):
        one = generate(ours, prompts, "beam", beams=1, length_penalty=penalty, max_new=8)
        assert [whole(text) for text in one] == [whole(text) for text in greedy]
        assert [text.score for text in one] == pytest.approx(
            [text.score / len(whole(text)) ** penalty for text in greedy], abs=1e-5
        )


def test_a_search_in_a_batch_and_without_a_cache_is_the_search_alone(pair: tuple[str, Any, Model]) -> None:
    _, _, ours = pair
    prompts = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [20], [30, 31]]
    settings: dict[str, Any] = {"beams": 3, "copies": 3, "max_new": 9, "no_repeat": 2}
    alone = [generate(ours, [prompt], "beam", **settings)[0] for prompt in prompts]
    for together in (
        generate(ours, prompts, "beam", **settings),
        generate(ours, prompts, "beam", cache=False, **settings),
        generate(ours, prompts, "beam", batch=2, **settings),
    ):
        for one, other in zip(alone, together, strict=True):
            assert [whole(text) for text in all_of(one)] == [whole(text) for text in all_of(other)]
            assert [text.score for text in all_of(one)] == pytest.approx([t.score for t in all_of(other)], abs=1e-5)


def test_the_best_come_first_and_the_trace_is_their_tokens(pair: tuple[str, Any, Model]) -> None:
    _, _, ours = pair
    written = generate(ours, [[5, 6]], "beam", beams=5, copies=5, max_new=8)[0]
    texts = all_of(written)
    assert [text.score for text in texts] == sorted((text.score for text in texts), reverse=True)
    assert len({tuple(whole(text)) for text in texts}) == 5
    for text in texts:
        assert [(commit.step, commit.index, commit.id) for commit in text.trace] == [
            (place, place, number) for place, number in enumerate(whole(text))
        ]


def test_impossible_searches_are_told_in_a_sentence(tmp_path: Path) -> None:
    _, ours = writer("gpt2", tmp_path)
    for settings, sentence in (
        ({"beams": 0}, "A search with 0 beams finds nothing"),
        ({"beams": 2, "copies": 3}, "2 beams cannot give 3 texts"),
        ({"early_stopping": "soon"}, "true, false or 'never', not 'soon'"),
        ({"width": 3}, "'width' is no setting of the method 'beam'"),
    ):
        with pytest.raises(MasqueradeError, match=sentence):
            generate(ours, [[5]], "beam", **settings)
