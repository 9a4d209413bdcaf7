"""What the assembled network promises, whatever it is assembled from."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import masquerade.nn.stack as stack_module
from masquerade import Cache, Layout, Spec, build
from masquerade.errors import LayoutError, MasqueradeError, SpecError
from masquerade.families.own import mass
from masquerade.layout import IGNORE, batch, visible
from masquerade.masks import bidirectional, causal, pack, permuted, prefix, shared_passage, two_stream

SMALL = Spec(vocab=60, width=16, layers=2, heads=2, feedforward=24, longest=64, init_std=0.3)
SPECS = {
    "learned": SMALL,
    "sinusoidal, pre-norm": replace(SMALL, positions=("sinusoidal",), norm_first=True),
    "nezha": replace(SMALL, positions=("nezha",), max_distance=3),
    "buckets, rms": replace(SMALL, positions=("learned", "buckets"), norm="rms"),
    "alibi": replace(SMALL, positions=("alibi",)),
    "rotary, alibi": replace(SMALL, positions=("rotary", "alibi")),
    "factorised, shared in groups": replace(SMALL, embedding=8, layers=4, groups=2, group_size=2),
    "rotary, gated": replace(SMALL, positions=("rotary",), gated=True, attention_bias=False),
    "transformer-xl": replace(SMALL, positions=("transformer-xl",), segment_relation=True, max_distance=4),
    "sinusoids in halves, unscaled": replace(SMALL, positions=("halves", "inner"), scaled=False, head_size=6),
    "words alone factorised": replace(SMALL, embedding=8, project_words=True, outputs=("lm",)),
}
MODELS = {name: build(spec).eval() for name, spec in SPECS.items()}
HYPOTHESIS = settings(derandomize=True, deadline=None, max_examples=25)


@pytest.mark.parametrize("spec", SPECS)
@HYPOTHESIS
@given(data=st.data())
def test_permuted_gives_the_states_of_the_reordered_input_under_causal(spec: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 9))
    order = data.draw(st.permutations(range(n)))
    ids = torch.arange(5, 5 + n)
    reordered = causal(ids[order]).replace(position=torch.tensor(order))
    with torch.no_grad():
        straight, shuffled = MODELS[spec].hidden(permuted(ids, order)), MODELS[spec].hidden(reordered)
    torch.testing.assert_close(straight[:, order], shuffled, atol=1e-5, rtol=0)


@pytest.mark.parametrize("spec", SPECS)
@HYPOTHESIS
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_packed_and_padded_sequences_have_the_states_they_have_alone(spec: str, lengths: list[int]) -> None:
    single = [prefix(range(5, 5 + n), range(30, 30 + n)) for n in lengths]
    with torch.no_grad():
        alone = [MODELS[spec].hidden(layout)[0] for layout in single]
        packed = MODELS[spec].hidden(pack(single))[0].split([len(layout) for layout in single])
        padded = MODELS[spec].hidden(batch(single))
    for row, states in enumerate(alone):
        torch.testing.assert_close(packed[row], states, atol=1e-5, rtol=0)
        torch.testing.assert_close(padded[row, : len(states)], states, atol=1e-5, rtol=0)
    assert not padded.isnan().any()


def test_a_row_of_nothing_but_padding_makes_no_nan() -> None:
    layout = batch([bidirectional([5, 6]), bidirectional([])])
    for model in MODELS.values():
        model.zero_grad()
        states = model.hidden(layout)
        states[0].sum().backward()
        assert not states.isnan().any()
        assert not any(weight.grad.isnan().any() for weight in model.parameters() if weight.grad is not None)


def test_a_query_that_sees_nothing_learns_nothing_from_the_words() -> None:
    order = [2, 0, 1]
    before, after = two_stream([5, 6, 7], order, mask=3), two_stream([5, 6, 40], order, mask=3)
    for model in MODELS.values():
        with torch.no_grad():
            first, again = (model.hidden(pack([layout, causal([9])]))[0] for layout in (before, after))
        blind = visible(before).any(-1).logical_not().nonzero().flatten().tolist()
        assert blind == [3]
        torch.testing.assert_close(first[blind], again[blind], atol=0, rtol=0)
        assert not torch.allclose(first[4], again[4]), "a query that sees the word has to notice it"


def test_each_question_reads_a_shared_passage_as_if_it_were_the_only_one() -> None:
    special = {"cls": 1, "sep": 2, "mask": 3}
    both = shared_passage([5, 6, 7], [[10, 11], [12]], 2, **special, start=12)
    second = shared_passage([5, 6, 7], [[12]], 2, **special, start=12)
    for model in MODELS.values():
        with torch.no_grad():
            together, alone = model.hidden(both)[0], model.hidden(second)[0]
        torch.testing.assert_close(together[:4], alone[:4], atol=1e-5, rtol=0)
        torch.testing.assert_close(together[-6:], alone[-6:], atol=1e-5, rtol=0)


def test_scores_come_only_where_they_are_asked_for() -> None:
    model = build(replace(SMALL, outputs=("lm", "tag", "classify", "pair", "span", "detect"))).eval()
    layout = batch([bidirectional([5, 6, 7]).replace(label=torch.tensor([IGNORE, 9, 8])), bidirectional([5, 6])])
    with torch.no_grad():
        everywhere = model.scores(layout)
        asked = model.scores(layout, at=layout.label != IGNORE)
        assert everywhere.shape == (2, 3, 60)
        torch.testing.assert_close(asked, everywhere[0, 1:], atol=1e-5, rtol=0)
        assert model.scores(layout, "tag").shape == (2, 3, 2)
        assert model.scores(layout, "detect").shape == (2, 3, 1)


@pytest.mark.parametrize("spec", [*SPECS, "lstm", "encoder–decoder"])
def test_states_where_they_are_asked_for_are_those_of_the_whole(spec: str) -> None:
    torch.manual_seed(3)
    layout = batch([pack([causal([5, 6, 7]), causal([8, 9])]), causal([10, 11, 12, 13])])
    at, source = torch.rand(layout.ids.shape) < 0.5, None
    if spec == "lstm":
        model = build(replace(SMALL, recurrent="lstm")).eval()
    elif spec == "encoder–decoder":
        model = build(mass(vocab=60, width=16, layers=2, heads=2, feedforward=24, longest=64)).eval()
        source = batch([pack([bidirectional([5, 6]), bidirectional([7])]), bidirectional([8, 9, 10])])
    else:
        model = MODELS[spec]
    whole = model.hidden(layout, source=source)
    torch.testing.assert_close(model.hidden(layout, source=source, at=at), whole[at], atol=1e-5, rtol=0)


def test_sentence_heads_speak_of_every_document_of_a_packed_row() -> None:
    model = build(replace(SMALL, outputs=("classify",), labels=("a", "b", "c"))).eval()
    single = [bidirectional([1, 5, 6]), bidirectional([1, 7]), bidirectional([1, 8, 9, 10])]
    with torch.no_grad():
        packed = model.scores(pack(single), "classify")
        alone = torch.cat([model.scores(layout, "classify") for layout in single])
    assert packed.shape == (3, 3)
    torch.testing.assert_close(packed, alone, atol=1e-5, rtol=0)


def test_the_boundary_head_predicts_from_the_tokens_around_a_span() -> None:
    model = build(replace(SMALL, outputs=("boundary",))).eval()
    states = torch.randn(2, 6, 16)
    left, right, place = torch.tensor([0, 0, 7]), torch.tensor([3, 3, 10]), torch.tensor([0, 1, 0])
    with torch.no_grad():
        scores = model.boundary_scores(states, left, right, place)
        inside = states.clone()
        inside[0, 1:3] = 9.0  # the words of the span itself must not matter
        assert torch.equal(model.boundary_scores(inside, left, right, place), scores)
    assert scores.shape == (3, 60)
    assert not torch.allclose(scores[0], scores[1]), "the place in the span has to matter"


def test_a_head_the_model_lacks_is_named() -> None:
    with pytest.raises(MasqueradeError, match="no 'lm' head; it has no head at all"):
        build(SMALL).scores(bidirectional([5]))
    with pytest.raises(MasqueradeError, match="has no head and so no logits"):
        build(SMALL).logits(torch.tensor([[5]]))


def test_tokens_and_positions_the_model_does_not_have_are_named() -> None:
    with pytest.raises(LayoutError, match="no token 60: this model has ids 0 to 59"):
        build(SMALL).hidden(bidirectional([5, 60]))
    with pytest.raises(LayoutError, match="no segment 2"):
        build(SMALL).hidden(bidirectional([5], segment=2))
    with pytest.raises(LayoutError, match="reaches position 69, but this model has learned positions 0 to 63"):
        build(SMALL).hidden(bidirectional([5] * 70))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"heads": 3}, "width of 16 cannot be split into 3 heads"),
        ({"layers": 0}, "'layers' to be at least 1"),
        ({"positions": ("learnt",)}, "no position scheme 'learnt'"),
        ({"positions": ("buckets",), "max_distance": 8}, "32 buckets .* and a 'max_distance' above 8"),
        ({"positions": ("buckets",), "buckets": 3}, "give at least 4 buckets"),
        ({"activation": "golu"}, "no activation 'golu'"),
        ({"norm": "batch"}, "no norm 'batch'"),
        ({"outputs": ("lm", "vision")}, "no head 'vision'"),
        ({"mask": "sideways"}, "no mask 'sideways'"),
        ({"groups": 3}, "3 groups cannot share 2 layers"),
        ({"group_size": 2}, "give the number of 'groups' too"),
        ({"project_words": True}, "give their width"),
        ({"positions": ("sinusoidal",), "embedding": 7}, "even width"),
        ({"positions": ("nezha",), "width": 6, "heads": 2}, "must be even"),
        ({"positions": ("rotary",), "head_size": 5}, "must be even"),
        ({"positions": ("transformer-xl",), "width": 15, "heads": 3}, "must be even"),
        ({"positions": ("transformer-xl", "nezha")}, "name one of them"),
        ({"lm_dense": False, "embedding": 8}, "cannot use narrow embeddings"),
        ({"cutoffs": (30, 20)}, "has to rise"),
    ],
)
def test_a_spec_whose_parts_do_not_fit_is_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        replace(SMALL, **changes)


def test_a_spec_survives_json() -> None:
    for spec in SPECS.values():
        assert Spec.of(json.loads(spec.json())) == spec
    with pytest.raises(SpecError, match="no 'depth'"):
        Spec.of(asdict(SMALL) | {"depth": 3})


def test_gradients_reach_every_weight() -> None:
    for spec in SPECS.values():
        model = build(replace(spec, outputs=("lm", "classify", "tag")))
        layout = Layout.of(torch.randint(0, 60, (2, 9)), segment=torch.arange(9) // 5, inner=torch.arange(9))
        loss = sum(model.scores(layout, head).pow(2).sum() for head in model.heads)
        loss.backward()
        assert [name for name, weight in model.named_parameters() if weight.grad is None] == []


def test_half_precision_stays_half_precision() -> None:
    for spec in SPECS.values():
        model = build(replace(spec, outputs=("lm",))).to(torch.bfloat16).eval()
        with torch.no_grad():
            assert model.scores(bidirectional([5, 6, 7])).dtype == torch.bfloat16


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("spec", ["learned", "rotary, gated", "sinusoidal, pre-norm"])
@torch.no_grad()
def test_flex_attention_gives_the_states_of_the_other_kernel(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(SPECS[spec]).eval()
    layouts = [
        batch([pack([prefix([5, 6, 7], [8, 9]), causal([10, 11, 12])]), causal([13, 14])]),
        two_stream([5, 6, 7, 8], [2, 0, 3, 1], mask=3).batched(),  # its first query sees no token
        shared_passage([5, 6, 7], [[8], [9, 10]], 2, cls=1, sep=2, mask=3).batched(),
    ]
    with_mask = [model.hidden(layout) for layout in layouts]
    model.stack.attention = "flex"  # type: ignore[assignment]
    masks = list[int]()
    made = stack_module.block_mask
    monkeypatch.setattr(stack_module, "block_mask", lambda *given: masks.append(1) or made(*given))
    for layout, plain in zip(layouts, with_mask, strict=True):
        torch.testing.assert_close(model.hidden(layout)[layout.real], plain[layout.real], atol=1e-5, rtol=0)
    assert len(masks) == len(layouts), "each pass ran through FlexAttention"
    cache, whole = Cache(), causal(range(5, 13))
    parts = [model.hidden(whole[:5], cache), model.hidden(whole[5:], cache)]
    model.stack.attention = "sdpa"  # type: ignore[assignment]
    torch.testing.assert_close(torch.cat(parts, 1), model.hidden(whole), atol=1e-5, rtol=0)


def test_flex_attention_is_left_out_where_it_cannot_be_exact() -> None:
    for name in ("buckets, rms", "nezha", "transformer-xl"):
        model, layout = build(SPECS[name]).eval(), causal([5, 6, 7])
        plain = model.hidden(layout)
        model.stack.attention = "flex"  # type: ignore[assignment]
        assert torch.equal(model.hidden(layout), plain)


@pytest.mark.parametrize("spec", ["learned", "nezha", "transformer-xl"])
def test_attention_dropout_is_applied_in_training_and_nowhere_else(spec: str) -> None:
    torch.manual_seed(0)
    layout = causal(range(5, 25))
    model = build(replace(SPECS[spec], dropout=0.0, attention_dropout=0.5))
    assert not torch.allclose(model.train().hidden(layout), model.hidden(layout), atol=1e-3)
    assert torch.equal(model.eval().hidden(layout), model.hidden(layout))
    without = build(replace(SPECS[spec], dropout=0.0, attention_dropout=0.0)).train()
    assert torch.equal(without.hidden(layout), without.hidden(layout))


def test_xlnets_relation_parameters_are_initialised_like_other_weights() -> None:
    torch.manual_seed(0)
    spec = replace(SPECS["transformer-xl"], width=64, heads=4, init_std=0.05, query_vector=True)
    model = build(spec)
    names = ("content_bias", "position_bias", "segment_bias", "relation.segments", "words.query")
    found = [weight for name, weight in model.named_parameters() if name.endswith(names)]
    assert len(found) == 4 * spec.layers + 1
    for weight in found:
        assert 0.03 < float(weight.detach().std()) < 0.07
