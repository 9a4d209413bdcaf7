"""The γ-mixture: its network by its equations, decoding from both halves and the mixture, and training; and the same
mixture between two masks of one Transformer."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from writer_cases import PAIRS, bert, recipe

from masquerade.checkpoints.folders import load, save
from masquerade.errors import LayoutError, MasqueradeError
from masquerade.layout import batch
from masquerade.masks import bidirectional, causal, pack
from masquerade.nn.cache import Cache
from masquerade.nn.mixture import MixtureHead, MixtureStack
from masquerade.nn.model import Model, build
from masquerade.nn.spec import Spec
from masquerade.training.loop import Run
from masquerade.writing.generate import generate
from masquerade.writing.mixture import AllSteps, mixture_of, set_gamma, with_gamma
from masquerade.writing.prompts import Decode
from masquerade.writing.training import TrainWriter
from masquerade.writing.writer import Writer

START, END = 1, 2
DECODER = Spec(
    vocab=12, width=8, layers=2, positions=("learned",), longest=6, segments=0, recurrent="mixture", cross=True,
    dropout=0.0, init_std=0.4,
)  # fmt: skip
FRAME = Decode((START,), END)
SOURCES = [source for source, _ in PAIRS]
TARGETS = [target for _, target in PAIRS]


def made(gamma: float = 0.3) -> Model:
    torch.manual_seed(0)
    spec = Spec(
        vocab=12, width=8, layers=1, heads=2, feedforward=16, outputs=("lm",), decoder=DECODER, dropout=0.0,
        attention_dropout=0.0, init_std=0.4,
    )  # fmt: skip
    model = build(spec).eval()
    model.config = {"eos_token_id": END, "decoder_start_token_id": START}
    set_gamma(model, gamma, learned=False)
    return model


def stack_of(model: Model) -> MixtureStack:
    stack = mixture_of(model)
    assert stack is not None
    return stack


@torch.no_grad()
def test_features_follow_the_equations() -> None:
    stack = stack_of(made())
    source = torch.randn(1, 5, 8)
    features, pairs, parallel = stack.features(source, torch.ones(1, 5).bool())
    spread = (stack.allocate(source) @ stack.steps.weight.T / math.sqrt(8)).softmax(-1)
    torch.testing.assert_close(spread.sum(-1), torch.ones(1, 5))
    expected = torch.einsum("bst,bsd->btd", spread, source) * 6 / 5
    torch.testing.assert_close(features, expected, atol=1e-5, rtol=0)
    weights = (stack.query(features) @ stack.key(source).mT / math.sqrt(8)).softmax(-1)
    z = stack.from_feature(features) + stack.from_pairs(weights @ stack.value(source))
    torch.testing.assert_close(pairs, z, atol=1e-5, rtol=0)
    blank = torch.zeros(1, 1, 8)
    left, right = torch.cat([blank, features[:, :-1]], 1), torch.cat([features[:, 1:], blank], 1)
    torch.testing.assert_close(parallel, stack.lstm(torch.cat([left, right, z], -1))[0], atol=1e-5, rtol=0)


@torch.no_grad()
def test_the_head_mixes_probabilities() -> None:
    model = made(0.3)
    layout, source = causal([START, 5, 6]), bidirectional([3, 4, 7, 8])
    head = model.heads["lm"]
    assert isinstance(head, MixtureHead)
    one, other = head.halves(model.hidden(layout, source=source), model.words.logits)
    expected = 0.7 * one.exp() + 0.3 * other.exp()
    torch.testing.assert_close(model.scores(layout, source=source).exp(), expected, atol=1e-6, rtol=0)
    for gamma, half in ((0.0, one), (1.0, other)):
        with with_gamma(model, gamma):
            torch.testing.assert_close(model.scores(layout, source=source), half, atol=1e-6, rtol=0)


@torch.no_grad()
def test_the_parallel_half_sees_no_target_and_the_other_only_what_came_before() -> None:
    model, source = made(), bidirectional([3, 4, 7])
    one, other = (model.hidden(causal([START, *ids]), source=source)[0] for ids in ([5, 6, 7], [5, 9, 7]))
    assert torch.equal(one[:, 8:], other[:, 8:])
    assert torch.allclose(one[:2], other[:2])
    assert not torch.allclose(one[2, :8], other[2, :8])


@torch.no_grad()
def test_packed_and_cached_passes_give_the_states_of_single_ones() -> None:
    model = made()
    targets = [causal([START, 5, 6, 7]), causal([START, 8])]
    sources = [bidirectional([3, 4]), bidirectional([9, 10, 11, 3])]
    alone = [model.hidden(one, source=two)[0] for one, two in zip(targets, sources, strict=True)]
    packed = model.hidden(pack(targets), source=pack(sources))[0]
    torch.testing.assert_close(packed, torch.cat(alone), atol=1e-5, rtol=0)
    cache, encoded = Cache(), model.encode(sources[0])
    parts = [model.hidden(targets[0][slice(*edges)], cache, encoded) for edges in ((0, 2), (2, 3), (3, 4))]
    torch.testing.assert_close(torch.cat(parts, 1)[0], alone[0], atol=1e-5, rtol=0)
    padded = model.hidden(batch(targets), source=batch(sources))
    torch.testing.assert_close(padded[1, :2], alone[1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_every_method_decodes_the_mixture_with_a_cache_as_without(method: str) -> None:
    model, prompts = made(), [[3, 4, 5], [6, 7], [8]]
    settings = {"beam": {"beams": 3, "copies": 2}, "sample": {"seed": 1}}.get(method, {})
    one, other = (
        generate(model, prompts, method, frame=FRAME, cache=cached, max_new=6, **settings) for cached in (True, False)
    )
    assert [text.ids for text in one] == [text.ids for text in other]


def test_one_pass_of_the_parallel_half_writes_what_greedy_steps_write() -> None:
    model, prompts = made(), [[3, 4, 5], [6, 7], [8, 9, 10, 11]]
    with with_gamma(model, 1.0):
        steps = generate(model, prompts, frame=FRAME, max_new=6)
        once = generate(model, prompts, AllSteps(copies=2), frame=FRAME, max_new=6)
    assert [text.ids for text in once] == [text.ids for text in steps]
    assert all(text.alternatives for text in once)
    assert [text.score for text in once] == pytest.approx([text.score for text in steps], abs=1e-4)


def test_a_mixture_comes_back_from_disk_with_its_gamma(tmp_path: Path) -> None:
    model = made(0.8)
    model.spec = replace(model.spec, family="masquerade")
    save(model, tmp_path)
    again = load(tmp_path)
    assert float(stack_of(again).logit.detach().sigmoid()) == pytest.approx(0.8)
    layout, source = causal([START, 5]), bidirectional([3, 4])
    assert torch.equal(again.scores(layout, source=source), model.scores(layout, source=source))


def test_a_scheduled_gamma_moves_in_a_straight_line(tmp_path: Path) -> None:
    job = TrainWriter(recipe(tmp_path, decoder="mixture", epochs=40, gamma=0.2, gamma_end=0.8))
    model = job.begin()[""]
    job.read(model, tmp_path)
    job.loss({"": model})
    assert job.every == 10
    for step, expected in ((0, 0.2), (20, 0.5), (30, 0.65)):
        job.refresh(model, step)
        assert float(stack_of(model).logit.detach().sigmoid()) == pytest.approx(expected)


def test_it_learns_by_heart_and_writes_from_both_halves(tmp_path: Path) -> None:
    given = recipe(tmp_path, decoder="mixture", epochs=60, log_every=30, gamma_learned=True)
    Run(TrainWriter(given)).train()
    writer = Writer.load(given.out)
    assert 0.05 < float(stack_of(writer.model).logit.detach().sigmoid()) < 0.95
    for settings in ({}, {"gamma": 0.0}, {"gamma": 1.0}, {"method": "parallel"}):
        texts = [each.text for each in writer.write_many(SOURCES, **settings)]
        assert sum(one == other for one, other in zip(texts, TARGETS, strict=True)) >= 4, settings
    assert stack_of(writer.model).override is None


def test_targets_longer_than_its_steps_are_cut(tmp_path: Path) -> None:
    given = recipe(tmp_path, decoder="mixture", epochs=1, target_length=3, held_out=[str(tmp_path / "pairs.jsonl")])
    Run(TrainWriter(given)).train()
    assert all(len(each.text) <= 12 for each in Writer.load(given.out).write_many(SOURCES, min_new=3))


def test_two_masks_of_one_transformer_learn_together(tmp_path: Path) -> None:
    given = recipe(tmp_path, training="both", epochs=120, held_out=[], log_every=50)
    Run(TrainWriter(given)).train()
    writer = Writer.load(given.out)
    ways: list[dict[str, object]] = [
        {"method": "greedy"}, {"method": "beam"}, {"method": "parallel"}, {"method": "mask-predict", "rounds": 3},
        {"method": "blocks", "size": 2}, {"method": "mixture", "gamma": 0.5, "beams": 2}, {"method": "rerank"},
    ]  # fmt: skip
    for settings in ways:
        texts = [each.text for each in writer.write_many(SOURCES, **settings)]  # type: ignore[arg-type]
        assert sum(one == other for one, other in zip(texts, TARGETS, strict=True)) >= 4, (settings, texts)
    lines = (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1])["loss"] < 1.0


def test_what_is_no_mixture_takes_no_gamma() -> None:
    model = bert(outputs=("lm",))
    with pytest.raises(MasqueradeError, match="no mixture"), with_gamma(model, 0.5):
        pass
    with pytest.raises(MasqueradeError, match="γ = 2"):
        set_gamma(made(), 2, learned=False)
    with pytest.raises(MasqueradeError, match="cannot begin at 1"):
        set_gamma(made(), 1, learned=True)
    with pytest.raises(LayoutError, match="learned positions 0 to 5"):
        made().hidden(causal([START, *range(3, 9)]).replace(position=[0, 1, 2, 3, 4, 5, 6]), source=bidirectional([3]))
