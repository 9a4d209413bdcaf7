"""Two streams are a longer sequence, and a memory is a cache: XLNet, Transformer-XL, MPNet."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import TINY, assert_close, check_parity, padded, randomised
from safetensors.torch import load_file

from masquerade import Layout, Model, Spec, build, load, save
from masquerade.errors import LayoutError
from masquerade.masks import causal, compensated, two_stream, window

FIXTURES = Path(__file__).parent / "fixtures" / "transformer_xl"
ORACLES = Path(__file__).parents[2] / "shared" / "oracles"
XLNET = {"vocab_size": 99, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48}


@pytest.fixture(scope="module")
def xlnet(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, Model]:
    """A tiny XLNet, theirs and ours."""
    folder = tmp_path_factory.mktemp("xlnet")
    reference = randomised(transformers.XLNetLMHeadModel(transformers.XLNetConfig(**XLNET, mem_len=20)), 0.3)
    reference.save_pretrained(folder)
    return reference, load(folder)


@pytest.mark.parametrize(
    ("head", "changes"),
    [
        ("LMHeadModel", {}),
        ("LMHeadModel", {"clamp_len": 4}),
        ("LMHeadModel", {"ff_activation": "relu"}),
        ("ForTokenClassification", {"num_labels": 3}),
        ("ForQuestionAnsweringSimple", {}),
    ],
)
def test_xlnet_equals_the_reference(head: str, changes: dict[str, object], tmp_path: Path) -> None:
    model = getattr(transformers, f"XLNet{head}")(transformers.XLNetConfig(**XLNET | changes))
    inputs = padded()
    real = inputs["attention_mask"] > 0  # the reference lets padding see itself
    check_parity(model, inputs, tmp_path, real, spread=0.3)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(data=st.data())
def test_queries_in_a_longer_sequence_equal_the_reference_with_its_second_stream(
    xlnet: tuple[object, Model], data: st.DataObject
) -> None:
    reference, model = xlnet
    n = data.draw(st.integers(3, 9))
    order = data.draw(st.permutations(range(n)))
    count = data.draw(st.integers(1, n - 1))
    ids = torch.arange(10, 10 + n)
    chosen, place = order[n - count :], {token: rank for rank, token in enumerate(order)}
    hidden = torch.tensor([[float(place[k] >= place[q]) for k in range(n)] for q in range(n)])
    mapping = torch.zeros(1, count, n)
    for row, token in enumerate(chosen):
        mapping[0, row, token] = 1.0
    layout = two_stream(ids, order, mask=6, predict=count)
    with torch.no_grad():
        expected = reference(input_ids=ids[None], perm_mask=hidden[None], target_mapping=mapping).logits
        got = model.scores(layout, at=layout.label >= 0)
        same = model.logits(ids[None], perm_mask=hidden[None], target_mapping=mapping)
    torch.testing.assert_close(got, expected[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(same, expected, atol=1e-5, rtol=0)
    assert layout.label[layout.label >= 0].tolist() == [10 + token for token in chosen]


def test_perm_masks_of_groups_and_batches_are_understood_and_others_refused(xlnet: tuple[object, Model]) -> None:
    reference, model = xlnet
    inputs = padded()
    hidden = torch.zeros(3, 14, 14)
    hidden[:, :, -1] = 1.0  # nobody sees the last word
    hidden[1, :-1, 4:7] = 1.0  # and in this batch row only that word sees these three, and they each other
    hidden[1, 4:7, 4:7] = 0.0
    mapping = torch.zeros(3, 2, 14)
    mapping[:, 0, -1], mapping[:, 1, 2] = 1.0, 1.0
    given = {"input_ids": inputs["input_ids"], "token_type_ids": inputs["token_type_ids"]}
    with torch.no_grad():
        expected = reference(**given, perm_mask=hidden, target_mapping=mapping).logits
        assert_close((model.logits(**given, perm_mask=hidden, target_mapping=mapping),), (expected,))
        whole = reference(**given, perm_mask=hidden).logits
        assert_close((model.logits(**given, perm_mask=hidden),), (whole,))
    hidden[0, 3, 5] = hidden[0, 6, 8] = 1.0
    with pytest.raises(LayoutError, match="not that of an order"):
        model.logits(**given, perm_mask=hidden)


def test_a_second_segment_of_xlnet_sees_the_memory_of_the_first(xlnet: tuple[object, Model]) -> None:
    reference, model = xlnet
    ids, kinds = torch.randint(5, 99, (2, 12)), (torch.arange(12) > 8).long().expand(2, 12)
    with torch.no_grad():
        first = reference(input_ids=ids[:, :6], use_mems=True)
        second = reference(input_ids=ids[:, 6:], mems=first.mems, token_type_ids=kinds[:, 6:], use_mems=True)
        cache = model.blank_memory(2, 0)
        layout = Layout.of(ids, segment=kinds)
        early = model.scores(layout[:6], cache=cache)
        cache.remember(20)
        late = model.scores(layout[6:], cache=cache)
    assert_close((early, late), (first.logits, second.logits))


def segments(model: Model, ids: torch.Tensor) -> list[torch.Tensor]:
    """Two segments of a Transformer-XL, the second with the memory of the first, as its configuration wants them."""
    keep, half = model.config["mem_len"], ids.shape[1] // 2
    cache = model.blank_memory(len(ids), keep)
    places = torch.arange(ids.shape[1])
    layout = Layout.of(ids, rank=places)
    if model.config["same_length"]:
        layout = window(layout, keep - 1)
    results = []
    for part in (layout[:half], layout[half:]):
        with torch.no_grad():
            results.append(model.scores(part, cache=cache) if model.spec.outputs else model.hidden(part, cache))
        cache.remember(keep)
        assert len(cache) == keep
    return results


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.iterdir()))
def test_transformer_xl_equals_the_library_that_still_had_it(name: str, tmp_path: Path) -> None:
    model, expected = load(FIXTURES / name), load_file(FIXTURES / name / "expected.safetensors")
    save(model, tmp_path)
    published, saved = (load_file(place / "model.safetensors") for place in (FIXTURES / name, tmp_path))
    assert all(torch.equal(tensor, published[key]) for key, tensor in saved.items())
    for each in (model, load(tmp_path)):
        first, second = segments(each, expected["ids"])
        assert_close((first, second), (expected["first"], expected["second"]))


def test_the_adaptive_softmax_is_a_distribution() -> None:
    model = load(FIXTURES / "language")
    with torch.no_grad():
        total = model.scores(causal(range(5, 15))).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total), atol=1e-5, rtol=0)


@pytest.mark.data
def test_transformer_xl_equals_the_shared_oracle() -> None:
    if not ORACLES.is_dir():
        pytest.skip("the shared oracles are not beside this checkout")
    import numpy

    oracle = numpy.load(ORACLES / "transfo-xl" / "oracle.npz")
    first, second = segments(load(ORACLES / "transfo-xl"), torch.from_numpy(oracle["in_input_ids"]))
    expected = tuple(torch.from_numpy(oracle[f"out_{part}_hidden"]) for part in ("first", "second"))
    assert_close((first, second), expected)


def test_a_memory_gives_what_one_long_pass_gives_under_a_causal_mask() -> None:
    sizes = {"vocab": 50, "width": 16, "layers": 3, "heads": 2, "feedforward": 24, "init_std": 0.3}
    model = build(Spec(positions=("transformer-xl",), share_biases=True, **sizes)).eval()
    layout, cache = causal(range(5, 20)), model.blank_memory(1, 0)
    with torch.no_grad():
        parts = []
        for start in range(0, 15, 5):
            parts.append(model.hidden(layout[start : start + 5], cache))
            cache.remember(15)
        torch.testing.assert_close(torch.cat(parts, dim=1), model.hidden(layout), atol=1e-5, rtol=0)


def test_a_memory_lets_no_gradient_back() -> None:
    model = build(Spec(vocab=50, width=16, layers=2, heads=2, feedforward=24, positions=("transformer-xl",)))
    layout, cache = causal(range(5, 15)), model.blank_memory(1, 0)
    model.hidden(layout[:5], cache)
    cache.remember(5)
    assert not any(key.requires_grad or value.requires_grad for key, value in cache.layers)
    model.hidden(layout[5:], cache).sum().backward()


@settings(derandomize=True, deadline=None, max_examples=20)
@given(data=st.data())
def test_mpnet_predicts_through_the_ordinary_stack_what_its_definition_says(data: st.DataObject) -> None:
    """Each query of ``compensated`` equals an MLM row: known words, masks at the places of the unknown ones."""
    n = data.draw(st.integers(2, 8))
    order = data.draw(st.permutations(range(n)))
    known = data.draw(st.integers(0, n - 1))
    sizes = {"vocab": 99, "width": 16, "heads": 2, "feedforward": 24, "longest": 20, "init_std": 0.3}
    torch.manual_seed(1)
    model = build(Spec(layers=1, positions=("learned", "buckets"), segments=0, outputs=("lm",), **sizes)).eval()
    ids, mask = torch.arange(10, 10 + n), 3
    layout = compensated(ids, order, known=known, mask=mask)
    with torch.no_grad():
        got = model.scores(layout, at=layout.label >= 0)
        for row, token in enumerate(order[known:]):
            filled = ids.clone()
            filled[order[known + row :]] = mask  # in one layer, a query sees exactly this sentence
            expected = model.scores(Layout.of(filled))[0, token]
            torch.testing.assert_close(got[row], expected, atol=1e-5, rtol=0)


def test_mpnet_pretrains_with_the_published_weights(tmp_path: Path) -> None:
    randomised(transformers.MPNetForMaskedLM(transformers.MPNetConfig(**TINY))).save_pretrained(tmp_path)
    model = load(tmp_path)
    layout = compensated(range(10, 20), torch.randperm(10), known=7, mask=4)
    loss = torch.nn.functional.cross_entropy(
        model.scores(layout, at=layout.label >= 0), layout.label[layout.label >= 0]
    )
    loss.backward()
    assert loss.isfinite()
