"""RAG: the losses and texts of the reference's two models, with every kind of writer as the generator."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from writers import END, PAD, START, VOCAB, writer

from masquerade import Model, Spec, build
from masquerade.decoding.beam import Beam
from masquerade.memory.retrieval.marginals import score_texts, write_sequence, write_token
from masquerade.writing.generate import Rules
from masquerade.writing.prompts import Continue, Frame, Prefix, frame_for

K = 3


@pytest.fixture(scope="module", params=["bart", "t5"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Model]:
    return writer(request.param, tmp_path_factory.mktemp(request.param))


def reference(kind: str, generator: Any) -> Any:
    """The reference's RAG with a generator; its question encoder is not used, because scores are given."""
    made = transformers.DPRConfig(
        vocab_size=VOCAB, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    name = {"sequence": "RagSequenceForGeneration", "token": "RagTokenForGeneration"}[kind]
    generator.config.bos_token_id = None
    model = getattr(transformers, name)(
        question_encoder=transformers.DPRQuestionEncoder(made), generator=generator
    ).eval()
    model.config.n_docs = K
    return model


def contexts(rng: random.Random, questions: int) -> tuple[list[list[list[int]]], Tensor]:
    prompts = [
        [[rng.randrange(5, VOCAB) for _ in range(rng.randint(2, 8))] for _ in range(K)] for _ in range(questions)
    ]
    scores = torch.tensor([[rng.uniform(-1.5, 1.5) for _ in range(K)] for _ in range(questions)])
    return prompts, scores


def inputs(prompts: list[list[list[int]]], scores: Tensor) -> dict[str, Tensor]:
    flat = [ids for each in prompts for ids in each]
    longest = max(map(len, flat))
    return {
        "context_input_ids": torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in flat]),
        "context_attention_mask": torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in flat]),
        "doc_scores": scores,
    }


@pytest.mark.parametrize("kind", ["sequence", "token"])
def test_losses_are_those_of_the_reference(pair: tuple[Any, Model], kind: str) -> None:
    theirs, ours = pair
    rng = random.Random(1)
    prompts, scores = contexts(rng, 4)
    texts = [[rng.randrange(5, VOCAB) for _ in range(rng.randint(2, 6))] + [END] for _ in prompts]
    longest = max(map(len, texts))
    labels = torch.tensor([[START, *text, *[PAD] * (longest - len(text))] for text in texts])
    with torch.no_grad():
        expected = reference(kind, theirs)(**inputs(prompts, scores), labels=labels, reduce_loss=False).loss
    frame = frame_for(ours)
    got = [
        score_texts(ours, frame, each, score.log_softmax(-1), [text], kind)[0]
        for each, score, text in zip(prompts, scores, texts, strict=True)
    ]
    assert torch.allclose(-torch.stack(got), expected, atol=1e-4, rtol=1e-5)
    assert expected.std() > 0.1


def up_to_end(row: list[int]) -> list[int]:
    row = row[1:]
    return row[: row.index(END) + 1] if END in row else [number for number in row if number != PAD]


def whole(text: Any) -> list[int]:
    return text.ids + [END] * text.ended


def test_token_texts_are_those_of_the_reference(pair: tuple[Any, Model]) -> None:
    theirs, ours = pair
    rng, model = random.Random(2), reference("token", theirs)
    ended = 0
    for _ in range(12):
        prompts, scores = contexts(rng, 2)
        beams, most = rng.randint(2, 4), rng.randint(4, 9)
        expected = model.generate(
            **inputs(prompts, scores), num_beams=beams, max_length=most + 1, do_sample=False, eos_token_id=END,
            pad_token_id=PAD, decoder_start_token_id=START, bos_token_id=None,
        )  # fmt: skip
        got = write_token(ours, frame_for(ours), prompts, scores.log_softmax(-1), Beam(beams), Rules(most))
        assert [whole(texts[0]) for texts in got] == [up_to_end(row) for row in expected.tolist()]
        ended += sum(texts[0].ended for texts in got)
    assert ended > 0


def test_thorough_sequence_texts_are_those_of_the_reference(
    pair: tuple[Any, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = pair
    rng, model = random.Random(3), reference("sequence", theirs)
    search = theirs.generate

    def padded(*args: Any, **settings: Any) -> Tensor:
        """The reference fills short texts with end tokens if the padding token is 0, and then scores them; and it
        leaves it to the generator to find the padding of the passages."""
        settings["attention_mask"] = (args[0] != PAD).long()
        found = search(*args, **settings)
        ends = (found == END).long().cumsum(1)
        return found.masked_fill((ends > 1) | ((ends == 1) & (found != END)), PAD)

    monkeypatch.setattr(theirs, "generate", padded)
    for _ in range(12):
        prompts, scores = contexts(rng, 2)
        beams, most = rng.randint(2, 4), rng.randint(4, 9)
        expected = model.generate(
            **inputs(prompts, scores),
            num_beams=beams,
            max_new_tokens=most,
            min_new_tokens=2,
            do_sample=False,
            pad_token_id=PAD,
            eos_token_id=END,
        )
        got = [
            write_sequence(ours, frame_for(ours), each, score.log_softmax(-1), Beam(beams), Rules(most, 2))
            for each, score in zip(prompts, scores, strict=True)
        ]
        assert [whole(texts[0]) for texts in got] == [up_to_end(row) for row in expected.tolist()]


def single(**fields: Any) -> Model:
    torch.manual_seed(1)
    made = {"vocab": 30, "width": 16, "layers": 2, "heads": 2, "feedforward": 32, "longest": 64, "init_std": 0.4}
    return build(Spec(**{**made, "outputs": ("lm",), **fields})).eval()


WRITERS: dict[str, tuple[Model, Frame]] = {
    "prefix": (single(), Prefix(2, 3, 4)),
    "shifted": (single(), Prefix(2, 3, None)),
    "causal": (single(mask="causal"), Continue(3)),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("kind", ["sequence", "token"])
def test_any_writer_scores_its_own_texts_as_it_wrote_them(name: str, kind: str) -> None:
    """The score found inside the beam, token by token with a cache, is that of one pass over the whole text."""
    model, frame = WRITERS[name]
    rng = random.Random(4)
    prompts = [[[2, *[rng.randrange(5, 30) for _ in range(rng.randint(1, 6))], 3] for _ in range(K)] for _ in range(3)]
    priors = torch.randn(3, K, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    beam, rules = Beam(3, copies=2), Rules(5)
    if kind == "token":
        found = write_token(model, frame, prompts, priors, beam, rules)
    else:
        found = [write_sequence(model, frame, *each, beam, rules) for each in zip(prompts, priors, strict=True)]
    for each, prior, texts in zip(prompts, priors, found, strict=True):
        ids = [text.ids + [3] * text.ended for text in texts]
        assert score_texts(model, frame, each, prior, ids, kind).tolist() == pytest.approx(
            [text.score for text in texts], abs=1e-4
        )


@pytest.mark.parametrize("name", WRITERS)
def test_texts_of_one_token_have_one_probability_under_both(name: str) -> None:
    model, frame = WRITERS[name]
    prompts, prior = [[2, 7, 3], [2, 8, 9, 3], [2, 11, 12, 13, 3]], torch.tensor([0.5, -0.2, 1.0]).log_softmax(-1)
    texts = [[token] for token in range(30)]
    sequence, token = (score_texts(model, frame, prompts, prior, texts, kind) for kind in ("sequence", "token"))
    assert torch.allclose(sequence, token, atol=1e-6)
    assert float(sequence.exp().sum()) == pytest.approx(1, abs=1e-5)
    greedy = write_token(model, frame, [prompts], prior[None], Beam(2), Rules(1))[0][0]
    assert greedy.score == pytest.approx(float(token.max()), abs=1e-5)


def test_the_probabilities_of_all_texts_of_a_length_sum_to_one_under_both() -> None:
    model, frame = single(vocab=6), Prefix(2, 3, 4)
    prompts, prior = [[2, 5, 3], [2, 1, 5, 3]], torch.tensor([0.3, 0.7]).log()
    texts = [[first, second] for first in range(6) for second in range(6)]
    for kind in ("sequence", "token"):
        assert float(score_texts(model, frame, prompts, prior, texts, kind).exp().sum()) == pytest.approx(1, abs=1e-5)


def test_one_passage_makes_both_the_generator_alone() -> None:
    model, frame = WRITERS["shifted"]
    prompts, prior = [[2, 7, 9, 3]], torch.zeros(1)
    scores = [score_texts(model, frame, prompts, prior, [[5, 6, 3]], kind) for kind in ("sequence", "token")]
    assert torch.allclose(*scores, atol=1e-6)


def test_fast_scores_count_only_the_passages_that_found_a_text() -> None:
    model, frame = WRITERS["prefix"]
    prompts, prior = [[2, 7, 3], [2, 8, 9, 3], [2, 11, 12, 13, 3]], torch.tensor([0.2, 0.3, 0.5]).log()
    beam, rules = Beam(4, copies=4), Rules(4)
    fast = {tuple(text.ids): text.score for text in write_sequence(model, frame, prompts, prior, beam, rules, True)}
    for text in write_sequence(model, frame, prompts, prior, beam, rules):
        assert tuple(text.ids) not in fast or fast[tuple(text.ids)] <= text.score + 1e-5
    assert all(math.isfinite(score) for score in fast.values())
