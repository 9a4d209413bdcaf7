"""Writing one token a step: greedy as the reference, by chance as the model's probabilities say; streams and traces."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.generation.logits_process import (
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from writers import CONFIGS, END, VOCAB, reference_texts, writer

from masquerade import Model, Spec, build
from masquerade.decoding.autoregressive import Sample
from masquerade.decoding.logits import draw, no_repeat, repetition, temperature, top_k, top_p
from masquerade.decoding.loop import Commit
from masquerade.drawing.steps import steps
from masquerade.errors import MasqueradeError
from masquerade.text.tokenizer import Tokenizer
from masquerade.text.training import train_tokenizer
from masquerade.writing.generate import DECODING_METHODS, GeneratedText, Rules, generate, stream

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [20], [30, 31]]


@pytest.fixture(scope="module", params=CONFIGS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Model]:
    return request.param, *writer(request.param, tmp_path_factory.mktemp(request.param))


def whole(written: GeneratedText) -> list[int]:
    return written.ids + [END] * written.ended


def test_greedy_texts_equal_the_reference(pair: tuple[str, Any, Model]) -> None:
    kind, theirs, ours = pair
    chance = random.Random(3)
    for _ in range(10):
        prompts = [[chance.randrange(5, VOCAB) for _ in range(chance.randint(1, 8))] for _ in range(3)]
        penalty, ngram, most = chance.choice([1.0, 0.7, 1.5]), chance.choice([0, 2]), chance.randint(3, 14)
        got = generate(ours, prompts, max_new=most, repetition=penalty, no_repeat=ngram)
        expected, _ = reference_texts(
            kind, theirs, prompts, max_new_tokens=most, repetition_penalty=penalty, no_repeat_ngram_size=ngram
        )
        assert [whole(text) for text in got] == expected


def test_a_score_is_the_log_probability_of_the_text(pair: tuple[str, Any, Model]) -> None:
    kind, theirs, ours = pair
    written = generate(ours, PROMPTS[:1], max_new=8)[0]
    _, said = reference_texts(kind, theirs, PROMPTS[:1], max_new_tokens=8)
    logs = theirs.compute_transition_scores(said.sequences, said.scores, normalize_logits=True)
    assert written.score == pytest.approx(float(logs[0, : len(whole(written))].sum()), abs=1e-4)


@pytest.mark.parametrize("method", ["greedy", "sample"])
def test_a_text_is_the_same_alone_in_a_batch_and_without_a_cache(pair: tuple[str, Any, Model], method: str) -> None:
    _, _, ours = pair
    settings: dict[str, Any] = {"max_new": 10} | ({"seed": 5, "copies": 2} if method == "sample" else {})
    alone = [generate(ours, [prompt], method, **settings)[0] for prompt in PROMPTS]
    texts = [[whole(text) for text in (one, *one.alternatives)] for one in alone]
    for together in (
        generate(ours, PROMPTS, method, **settings),
        generate(ours, PROMPTS, method, cache=False, **settings),
        generate(ours, PROMPTS[::-1], method, batch=3, **settings)[::-1],
    ):
        assert [[whole(text) for text in (one, *one.alternatives)] for one in together] == texts


def test_the_trace_says_when_each_token_was_written(pair: tuple[str, Any, Model]) -> None:
    _, _, ours = pair
    for number, written in enumerate(generate(ours, PROMPTS, max_new=6)):
        commits = [(commit.step, commit.index, commit.id) for commit in written.trace]
        assert commits == [(place, place, token) for place, token in enumerate(whole(written))]
        assert {commit.prompt for commit in written.trace} == {number}


def test_a_trace_is_shown_step_by_step() -> None:
    trace = [Commit(0, 0, 1, 7), Commit(0, 1, 0, 5), Commit(0, 1, 2, 6), Commit(0, 2, 1, 8)]
    assert [(step.number, step.ids, set(step.new)) for step in steps(trace)] == [
        (0, [None, 7, None], {1}),
        (1, [5, 7, 6], {0, 2}),
        (2, [5, 8, 6], {1}),
    ]
    assert steps([]) == []


def scores_and_history() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    return 3 * torch.randn(6, 30, generator=generator), torch.randint(0, 6, (6, 12), generator=generator)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (repetition(1.4), RepetitionPenaltyLogitsProcessor(1.4)),
        (repetition(0.6), RepetitionPenaltyLogitsProcessor(0.6)),
        (no_repeat(1), NoRepeatNGramLogitsProcessor(1)),
        (no_repeat(2), NoRepeatNGramLogitsProcessor(2)),
        (no_repeat(3), NoRepeatNGramLogitsProcessor(3)),
        (no_repeat(13), NoRepeatNGramLogitsProcessor(13)),
        (temperature(0.7), TemperatureLogitsWarper(0.7)),
        (top_k(4), TopKLogitsWarper(4)),
        (top_k(100), TopKLogitsWarper(100)),
        (top_p(0.8), TopPLogitsWarper(0.8)),
        (top_p(0.01), TopPLogitsWarper(0.01)),
    ],
)
def test_processors_equal_the_reference(ours: Any, theirs: Any) -> None:
    scores, history = scores_and_history()
    torch.testing.assert_close(ours(scores, history), theirs(history, scores.clone()))


def test_a_shorter_history_is_not_padded_into_repetitions() -> None:
    scores, history = scores_and_history()
    padded = torch.cat([torch.full((6, 5), -1), history], dim=1)
    for process in (repetition(1.4), no_repeat(1), no_repeat(2), no_repeat(14)):
        assert torch.equal(process(scores, padded), process(scores, history))


def test_tokens_are_drawn_as_often_as_they_are_probable() -> None:
    scores = torch.tensor([[1.0, 0.0, -torch.inf, 2.0]]).expand(20000, -1)
    drawn = draw(scores, [torch.Generator().manual_seed(seed) for seed in range(20000)])
    shares = torch.bincount(drawn, minlength=4) / 20000
    torch.testing.assert_close(shares, scores[0].softmax(-1), atol=0.015, rtol=0)
    assert shares[2] == 0


def test_samples_differ_by_seed_and_copy_and_repeat_by_seed(pair: tuple[str, Any, Model]) -> None:
    _, _, ours = pair

    def texts(seed: int) -> list[list[int]]:
        written = generate(ours, [[5, 6]], "sample", seed=seed, copies=3, max_new=12, min_new=8, temperature=2.0)[0]
        return [text.ids for text in (written, *written.alternatives)]

    assert texts(1) == texts(1) != texts(2)
    assert len({tuple(text) for text in texts(1)}) == 3


def test_a_cold_sample_is_greedy(pair: tuple[str, Any, Model]) -> None:
    _, _, ours = pair
    expected = [whole(text) for text in generate(ours, PROMPTS, max_new=8)]
    for cold in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}):
        assert [whole(text) for text in generate(ours, PROMPTS, "sample", max_new=8, **cold)] == expected


# Streams

CHINESE = ["北京是中国的首都，也是一座历史名城。", "语言模型会读也会写。", "the quick brown fox"]


def scribe(tokenizer: Tokenizer, text: str) -> Model:
    """A model that has one text by heart: it writes its next token, then the end, whatever it is asked."""
    ids = [*tokenizer.encode(text), tokenizer.special("sep")]
    spec = Spec(
        vocab=len(tokenizer), width=64, layers=1, heads=1, feedforward=8, segments=0, mask="causal", longest=64,
        norm_first=True, lm_dense=False, tied=False, outputs=("lm",),
    )  # fmt: skip
    model = build(spec).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        assert model.stack.norm is not None
        model.stack.norm.weight.fill_(1.0)
        table = model.embeddings.positions["learned"].table.weight
        table.copy_(torch.eye(64))
        for place, number in enumerate(ids):
            model.heads["lm"].decoder.weight[number, place + 1] = 1.0  # [CLS] and one token are the prompt
    model.tokenizer = tokenizer
    return model


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram", "characters"])
@pytest.mark.parametrize("text", CHINESE)
def test_a_stream_is_the_text_in_pieces_that_stay(kind: str, text: str) -> None:
    tokenizer = train_tokenizer(CHINESE, kind, size=300)
    model, prompt = scribe(tokenizer, text), tokenizer.encode("是")[:1]
    prompt = [tokenizer.special("cls"), *prompt]
    written = generate(model, [prompt], max_new=50)[0]
    assert written.ids == tokenizer.encode(text)
    for settings in ({"method": "greedy"}, {"method": "beam", "beams": 2}):
        pieces = list(stream(model, prompt, max_new=50, **settings))
        assert "".join(pieces) == written.text
        assert all(pieces) and not any("\ufffd" in piece for piece in pieces)
    assert len(list(stream(model, prompt, max_new=50))) > 3
    with pytest.raises(MasqueradeError, match="A stream is one text"):
        stream(model, prompt, "sample", copies=2)


def test_a_character_over_several_tokens_comes_whole() -> None:
    tokenizer = train_tokenizer(["abc"], "bpe", size=300)
    model = scribe(tokenizer, "京a城")
    assert len(tokenizer.encode("京")) == 3
    pieces = list(stream(model, [tokenizer.special("cls"), 9], max_new=20))
    assert pieces == ["京", "a", "城"]


def test_bytes_that_never_become_a_character_are_given_at_the_end() -> None:
    tokenizer = train_tokenizer(["abc"], "bpe", size=300)
    model = scribe(tokenizer, "a京")
    pieces = list(stream(model, [tokenizer.special("cls"), 9], max_new=3))
    assert "".join(pieces) == generate(model, [[tokenizer.special("cls"), 9]], max_new=3)[0].text == "a\ufffd"


def test_what_continues_a_text_keeps_the_space_between_them() -> None:
    tokenizer = train_tokenizer(["the cat sat on the mat"] * 3, "wordpiece", size=60)
    model = scribe(tokenizer, "sat on")
    cat = tokenizer.encode("cat")
    assert len(cat) == 1
    assert generate(model, "cat", max_new=20)[0].text == " sat on"


# What cannot be done


def test_impossible_settings_are_told_in_a_sentence(tmp_path: Path) -> None:
    _, ours = writer("gpt2", tmp_path)
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("sample", {"temperature": 0}, "A temperature of 0 cannot be sampled at"),
        ("sample", {"temperature": -1.0}, "A temperature of -1.0 cannot"),
        ("sample", {"top_p": 0.0}, r"give top_p in \(0, 1\]"),
        ("sample", {"top_p": 1.5}, "cannot have a probability of 1.5"),
        ("sample", {"top_k": 0}, "No token can be sampled from the best 0"),
        ("sample", {"copies": 0}, "0 texts cannot be sampled"),
        ("greedy", {"max_new": 0}, "'max_new' is 0; give at least 1"),
        ("greedy", {"max_new": 3, "min_new": 5}, "give 0 ≤ min_new ≤ max_new"),
        ("greedy", {"repetition": 0.0}, "A repetition penalty of 0.0"),
        ("greedy", {"no_repeat": -1}, "Repeated runs of -1 tokens"),
        ("greedy", {"batch": 0}, "A batch of 0 prompts"),
        ("greedy", {"seed": 1}, "'seed' is no setting of the method 'greedy'"),
        ("best", {}, "There is no method 'best'; choose from greedy, sample, beam"),
    ]
    for method, settings, sentence in cases:
        with pytest.raises(MasqueradeError, match=sentence):
            generate(ours, [[5]], method, **settings)
    with pytest.raises(MasqueradeError, match="belongs to the method"):
        generate(ours, [[5]], Sample(seed=1), seed=2)
    with pytest.raises(MasqueradeError, match="The list of prompts is empty"):
        generate(ours, [])
    with pytest.raises(MasqueradeError, match="cannot read text; give it ids"):
        generate(ours, "text")
    with pytest.raises(MasqueradeError, match="it has no text to stream"):
        stream(ours, [5])
    with pytest.raises(MasqueradeError, match="a list of their own"):
        generate(ours, [5, 6])  # type: ignore[list-item]


def test_a_method_and_rules_can_be_given_ready_made(tmp_path: Path) -> None:
    _, ours = writer("gpt2", tmp_path)
    rules = Rules(max_new=6, no_repeat=2)
    for name, settings in (("greedy", {}), ("sample", {"seed": 3, "top_k": 5}), ("beam", {"beams": 3})):
        ready = generate(ours, PROMPTS, DECODING_METHODS[name](**settings), rules=rules)
        named = generate(ours, PROMPTS, name, max_new=6, no_repeat=2, **settings)
        assert [text.ids for text in ready] == [text.ids for text in named]


def test_dropout_is_off_while_writing_and_on_again_afterwards(tmp_path: Path) -> None:
    _, ours = writer("gpt2", tmp_path)
    expected = generate(ours, PROMPTS, max_new=6)
    ours.train()
    assert [text.ids for text in generate(ours, PROMPTS, max_new=6)] == [text.ids for text in expected]
    assert ours.training
