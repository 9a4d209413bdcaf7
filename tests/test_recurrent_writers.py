"""Recurrent encoder–decoders: the cells, the cache, and the one decoding and training loop."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from masquerade.checkpoints.folders import load, save
from masquerade.decoding.constraints import Trie
from masquerade.errors import LayoutError, SpecError
from masquerade.layout import IGNORE, batch
from masquerade.masks import bidirectional, causal, pack
from masquerade.nn.cache import Cache
from masquerade.nn.cells import token_states, zero_states
from masquerade.nn.model import Model, build
from masquerade.nn.spec import Spec
from masquerade.writing.generate import generate
from masquerade.writing.prompts import Decode

PAD, START, END = 0, 1, 2
SIDE = Spec(vocab=12, width=8, layers=2, positions=(), segments=0, recurrent="lstm", lm_dense=False, init_std=0.3)
FRAME = Decode((START,), END)


def pair(kind: str = "lstm", scores: str = "dot", **changes: object) -> Spec:
    decoder = replace(SIDE, cross=True, recurrent=kind, source_scores=scores, **changes)
    return replace(SIDE, recurrent=kind, decoder=decoder, outputs=("lm",), **changes)


def made(kind: str = "lstm", scores: str = "dot", **changes: object) -> Model:
    torch.manual_seed(3)
    model = build(pair(kind, scores, **changes)).eval()
    model.config = {"eos_token_id": END, "decoder_start_token_id": START}
    return model


def drawn(seed: int, count: int) -> list[int]:
    return torch.randint(3, 12, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


BOTH = pytest.mark.parametrize(("kind", "scores"), list(itertools.product(["lstm", "gru"], ["dot", "additive"])))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_states_token_by_token_are_those_of_pytorch(kind: str) -> None:
    torch.manual_seed(0)
    cells = (nn.LSTM if kind == "lstm" else nn.GRU)(6, 6, 2, batch_first=True).eval()
    x = torch.randn(3, 5, 6)
    found, (expected, last) = token_states(cells, x, zero_states(cells, x)), cells(x)
    torch.testing.assert_close(found[-1][0], expected, atol=1e-5, rtol=0)
    for layer, (hidden, cell) in enumerate(found):
        if kind == "lstm":
            torch.testing.assert_close(hidden[:, -1], last[0][layer], atol=1e-5, rtol=0)
            torch.testing.assert_close(cell[:, -1], last[1][layer], atol=1e-5, rtol=0)
        else:
            torch.testing.assert_close(hidden[:, -1], last[layer], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_an_encoder_reads_both_ways_as_pytorch_does(kind: str) -> None:
    model = made(kind)
    ids = drawn(1, 6)
    with torch.no_grad():
        expected = model.stack.cells(model.embed(bidirectional(ids).batched()))[0]
        torch.testing.assert_close(model.encode(bidirectional(ids)).states, expected, atol=1e-5, rtol=0)


@BOTH
def test_packed_pairs_have_the_states_they_have_alone(kind: str, scores: str) -> None:
    model = made(kind, scores)
    targets = [causal([START, *drawn(seed, 2 + seed)]) for seed in range(3)]
    sources = [bidirectional(drawn(10 + seed, 7 - 2 * seed)) for seed in range(3)]
    with torch.no_grad():
        alone = [model.hidden(one, source=two)[0] for one, two in zip(targets, sources, strict=True)]
        layout = batch([pack(targets[:2]), targets[2]])
        states = model.hidden(layout, source=batch([pack(sources[:2]), sources[2]]))
    torch.testing.assert_close(states[0][: len(alone[0]) + len(alone[1])], torch.cat(alone[:2]), atol=1e-5, rtol=0)
    torch.testing.assert_close(states[1][: len(alone[2])], alone[2], atol=1e-5, rtol=0)
    assert not states[~layout.real].any()


@BOTH
def test_cached_passes_give_the_states_of_one_pass(kind: str, scores: str) -> None:
    model, cache = made(kind, scores), Cache()
    source = batch([bidirectional(drawn(1, 5)), bidirectional(drawn(2, 3))])
    target = batch([causal([START, *drawn(3, 6)]), causal([START, *drawn(4, 6)])])
    with torch.no_grad():
        encoded = model.encode(source)
        whole = model.hidden(target, source=encoded)
        parts = [model.hidden(target[slice(*edges)], cache, encoded) for edges in ((0, 3), (3, 4), (4, 7))]
        torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=0)
        cache.crop(2)
        torch.testing.assert_close(model.hidden(target[2:4], cache, encoded), whole[:, 2:4], atol=1e-5, rtol=0)


@BOTH
@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_cached_decoding_equals_decoding_without_a_cache(kind: str, scores: str, method: str) -> None:
    model, prompts = made(kind, scores), [drawn(5, 4), drawn(6, 7), drawn(7, 1)]
    settings = {"beam": {"beams": 3, "copies": 2}, "sample": {"seed": 1, "copies": 2}}.get(method, {})
    with_cache, without = (
        generate(model, prompts, method, frame=FRAME, cache=cached, max_new=8, **settings) for cached in (True, False)
    )
    for one, other in zip(with_cache, without, strict=True):
        assert one.ids == other.ids
        assert one.score == pytest.approx(other.score, abs=1e-4)


def test_a_recurrent_language_model_decodes_with_a_cache_too() -> None:
    torch.manual_seed(0)
    model = build(replace(SIDE, outputs=("lm",))).eval()
    model.config = {"eos_token_id": END, "bos_token_id": START}
    prompts = [drawn(1, 5), drawn(2, 2), []]
    with_cache, without = (generate(model, prompts, "beam", beams=3, cache=each, max_new=6) for each in (True, False))
    assert [text.ids for text in with_cache] == [text.ids for text in without]


def test_beam_search_equals_brute_force() -> None:
    model, source, most = made("gru", "additive", vocab=5), [3, 4, 3], 4
    with torch.no_grad():
        encoded, scored = model.encode(bidirectional(source)), dict[tuple[int, ...], float]()
        for length in range(most):
            for ids in itertools.product((0, 1, 3, 4), repeat=length):
                logs = model.scores(causal([START, *ids]), source=encoded)[0].log_softmax(-1)
                steps = sum(float(logs[place, token]) for place, token in enumerate(ids))
                scored[(*ids, END)] = steps + float(logs[length, END])
                if length == most - 1:
                    scored |= {(*ids, last): steps + float(logs[length, last]) for last in (0, 1, 3, 4)}
    best = max(scored, key=lambda ids: scored[ids])
    found = generate(model, [source], "beam", frame=FRAME, beams=300, length_penalty=0.0, max_new=most)[0]
    assert (*found.ids, *([END] if found.ended else [])) == best
    assert found.score == pytest.approx(scored[best], abs=1e-4)


def test_constraints_hold_for_recurrent_decoders() -> None:
    wanted = Trie([[3, 4, 5], [6, 7]])
    for method in ("greedy", "beam"):
        assert generate(made(), [drawn(1, 4)], method, frame=FRAME, constraint=wanted)[0].ids in ([3, 4, 5], [6, 7])


def trained(scores: str, turned: bool) -> Model:
    """A model that learnt to copy, or to reverse, words of up to three letters."""
    torch.manual_seed(0)
    model = build(pair("gru", scores, vocab=8, width=48, layers=1, dropout=0.0, init_std=0.1))
    model.config = {"eos_token_id": END, "decoder_start_token_id": START}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    rng = torch.Generator().manual_seed(1)
    for step in range(100):
        optimizer.param_groups[0]["lr"] = 0.02 if step < 70 else 0.004
        words = [torch.randint(3, 8, (int(torch.randint(1, 4, (), generator=rng)),), generator=rng) for _ in range(32)]
        targets = [(word.flip(0) if turned else word).tolist() for word in words]
        layout = batch([causal([START, *ids]).replace(label=[*ids, END]) for ids in targets])
        asked = layout.label != IGNORE
        scored = model.scores(layout, at=asked, source=batch([bidirectional(word) for word in words]))
        nn.functional.cross_entropy(scored, layout.label[asked]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


@pytest.mark.parametrize(("scores", "turned"), [("dot", True), ("additive", False)])
def test_it_learns_to_copy_and_to_reverse_and_stops(scores: str, turned: bool) -> None:
    model = trained(scores, turned)
    prompts = [[3 + number % 5 for number in drawn(seed, 1 + seed % 3)] for seed in range(20)]
    found = generate(model, prompts, "beam", beams=2, max_new=12)
    assert all(text.ended for text in found)
    right = [text.ids == (ids[::-1] if turned else ids) for text, ids in zip(found, prompts, strict=True)]
    assert sum(right) >= 18


@BOTH
def test_a_recurrent_pair_comes_back_from_disk_as_it_was(tmp_path: Path, kind: str, scores: str) -> None:
    model = made(kind, scores)
    save(model, tmp_path)
    again = load(tmp_path)
    assert again.spec == model.spec
    layout, source = causal([START, 5, 6]), bidirectional([7, 8])
    assert torch.equal(again.scores(layout, source=source), model.scores(layout, source=source))


def test_a_bert_can_be_read_by_a_recurrent_decoder() -> None:
    spec = Spec(vocab=12, width=8, layers=1, heads=2, feedforward=16, outputs=("lm",), decoder=pair("gru").decoder)
    model = build(spec).eval()
    model.config = {"eos_token_id": END, "decoder_start_token_id": START}
    assert len(generate(model, [[4, 5, 6]], frame=FRAME, max_new=3)[0].ids) <= 3


def test_wrong_layouts_and_specs_are_one_sentence() -> None:
    with pytest.raises(LayoutError, match=r"lay the source out with masks\.bidirectional"):
        made().encode(causal([3, 4]))
    with pytest.raises(LayoutError, match="no source"):
        made().hidden(pack([causal([START]), causal([START])]), source=bidirectional([3]))
    with pytest.raises(LayoutError, match="one document a row"):
        build(replace(SIDE, outputs=("lm",))).hidden(pack([causal([3]), causal([4])]), Cache())
    with pytest.raises(SpecError, match="way to score a source 'cosine'"):
        replace(SIDE, source_scores="cosine")
    with pytest.raises(SpecError, match="make it even"):
        pair(width=9)


def test_perplexities_of_the_floor_are_finite() -> None:
    assert math.isfinite(generate(made(), [drawn(1, 3)], frame=FRAME, max_new=2)[0].score)
