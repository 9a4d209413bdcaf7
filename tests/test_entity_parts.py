"""The memories between the layers at their edges: packing, padding, overlaps, nothing found, nothing stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from masquerade import Cache, Layout, Model, Spec, load, save
from masquerade.errors import LayoutError, MasqueradeError
from masquerade.layout import batch
from masquerade.masks import bidirectional, causal, pack
from masquerade.memory.entity.facts import LEVEL
from masquerade.memory.entity.losses import link_loss, margin_loss, softmax_loss
from masquerade.memory.entity.networks import attach, parts, with_memory
from masquerade.memory.entity.spans import BEGIN, INSIDE, OUTSIDE, Spans, from_tags, to_tags
from masquerade.nn.between import Flow

WIDTH, ENTITIES, RELATIONS = 12, 9, 3
PLAIN: dict[str, Any] = {
    "vocab": 40, "width": 16, "layers": 2, "heads": 2, "feedforward": 24, "longest": 32, "outputs": ("lm",),
    "init_std": 0.3,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "knowbert": {"width": WIDTH, "heads": 3, "feedforward": 20, "hidden": 8, "threshold": 0.0},
    "entities": {"width": WIDTH, "top": 4},
    "facts": {"width": WIDTH, "relation": 5, "top": 3},
}
each_kind = pytest.mark.parametrize("kind", KINDS)


class Stored:
    """A knowledge base of random vectors and four facts."""

    def __init__(self, entities: int = ENTITIES, facts: int = 4) -> None:
        generator = torch.Generator().manual_seed(1)
        self.entities = torch.randn(ENTITIES, WIDTH, generator=generator)[:entities]
        self.relations = torch.randn(RELATIONS, 5, generator=generator)
        self.centre = torch.zeros(WIDTH)
        self.facts = torch.tensor([[0, 0], [1, 2], [2, 1], [3, 0]])[:facts]
        self.objects = torch.tensor([[4, 5], [6, -1], [7, 8], [4, -1]])[:facts]

    def vectors(self) -> Tensor:
        return self.entities

    def relation_vectors(self) -> Tensor:
        return self.relations

    def fact_tensors(self) -> tuple[Tensor, Tensor]:
        return self.facts, self.objects


def network(kind: str, stored: Stored | None = None, layer: int = 1, **changes: Any) -> Model:
    torch.manual_seed(3)
    model = Model(Spec(**PLAIN, between={layer: (kind, {**KINDS[kind], **changes})})).eval()
    attach(model, stored or Stored())
    return model


TEXTS = [[5, 6, 7, 8, 9], [12, 13, 14], [30, 31, 32, 33, 34, 35, 36]]
MENTIONS = [[[0, 1], [3, 4]], [], [[0, 2], [1, 2], [6, 6]]]  # at both edges, none, overlapping
CANDIDATES = {(0, 0): [1, 2, -1], (0, 1): [3, -1, -1], (2, 0): [-1, -1, -1], (2, 1): [5, 6, 7], (2, 2): [0, 8, -1]}


def inputs(texts: list[int], offsets: list[int]) -> dict[str, Tensor]:
    """The inputs of some texts that begin at flat indices."""
    pairs = [(text, number) for text in texts for number in range(len(MENTIONS[text]))]
    spans = [[end + offsets[texts.index(text)] for end in MENTIONS[text][number]] for text, number in pairs]
    given = torch.tensor(spans, dtype=torch.long).view(-1, 2)
    return {
        "memory.mentions": given,
        "memory.candidates": torch.tensor([CANDIDATES[pair] for pair in pairs], dtype=torch.long).view(-1, 3),
        "memory.priors": torch.full((len(pairs), 3), 0.25),
        "memory.blanks": given,
        "memory.subjects": given.roll(1, 0),
    }


def alone(model: Model, text: int) -> Flow:
    return model.flow(bidirectional(TEXTS[text]), inputs=inputs([text], [0]))


@each_kind
@torch.no_grad()
def test_packed_and_padded_texts_have_the_states_they_have_alone(kind: str) -> None:
    model = network(kind)
    layouts = [bidirectional(ids) for ids in TEXTS]
    for layout, offsets in ((pack(layouts), [0, 5, 8]), (batch(layouts), [0, 7, 14])):
        given = inputs([0, 1, 2], offsets)
        del given["memory.subjects"], given["memory.blanks"]  # subjects differ alone and together
        if kind == "facts":
            given |= {"memory.blanks": given["memory.mentions"], "memory.subjects": given["memory.mentions"]}
        flow = model.flow(layout.batched(), inputs=given)
        flat = flow.states.flatten(0, 1)
        for text, offset in enumerate(offsets):
            own = inputs([text], [0])
            own |= {"memory.subjects": own["memory.mentions"]}
            states = model.flow(layouts[text], inputs=own).states[0]
            torch.testing.assert_close(flat[offset : offset + len(states)], states, atol=1e-5, rtol=0)
            assert states.isfinite().all()


@each_kind
@pytest.mark.parametrize("stored", [Stored(), Stored(entities=0, facts=0)], ids=["full", "empty"])
@pytest.mark.parametrize("text", range(3))
@pytest.mark.parametrize("training", [False, True])
def test_no_output_and_no_gradient_is_ever_nan(kind: str, stored: Stored, text: int, training: bool) -> None:
    model = network(kind, stored).train(training)
    given = inputs([text], [0])
    if not len(stored.entities):  # then there are no candidates
        given["memory.candidates"] = torch.full_like(given["memory.candidates"], -1)
    flow = model.flow(bidirectional(TEXTS[text]), inputs=given)
    flow.states.square().sum().backward()  # type: ignore[no-untyped-call]
    assert flow.states.isfinite().all()
    assert all(value.isfinite().all() for value in flow.outputs.values())
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())


@each_kind
def test_a_part_without_inputs_finds_nothing_and_goes_on(kind: str) -> None:
    model = network(kind)
    assert model.flow(bidirectional(TEXTS[0])).states.isfinite().all()


@each_kind
@torch.no_grad()
def test_a_memory_is_saved_and_loaded_with_the_network_without_its_entities(kind: str, tmp_path: Path) -> None:
    model = network(kind)
    save(model, tmp_path)
    again = load(tmp_path)
    assert again.spec == model.spec
    attach(again, Stored())
    for text in range(3):
        torch.testing.assert_close(alone(again, text).states, alone(model, text).states)
        assert all(torch.equal(alone(again, text).outputs[name], value)
                   for name, value in alone(model, text).outputs.items())  # fmt: skip


@torch.no_grad()
def test_trained_entities_are_saved_and_later_ones_come_from_the_knowledge_base(tmp_path: Path) -> None:
    model = network("entities", Stored(entities=6), trained=6)
    attach(model, Stored(entities=6), start=True)
    (part,) = parts(model)
    assert torch.equal(part.entities(), Stored(entities=6).vectors())
    part.entities.own.data += 1.0  # type: ignore[union-attr]
    save(model, tmp_path)
    again = load(tmp_path)
    attach(again, Stored())
    table = parts(again)[0].entities()
    torch.testing.assert_close(table[:6], Stored().vectors()[:6] + 1.0)
    torch.testing.assert_close(table[6:], Stored().vectors()[6:])
    with pytest.raises(MasqueradeError, match="trained vectors of 6 entities, but the knowledge base has 5"):
        attach(again, Stored(entities=5))


@each_kind
def test_every_weight_of_a_part_is_trained(kind: str) -> None:
    model = network(kind).train()
    out = model.flow(bidirectional(TEXTS[2]), inputs=inputs([2], [0])).outputs
    gold = torch.tensor([1, 0, 2])
    if kind == "knowbert":
        states = model.flow(bidirectional(TEXTS[2]), inputs=inputs([2], [0])).states
        loss = softmax_loss(out["memory.candidate_scores"], gold) + states[0, 3:5, 0].sum()
    elif kind == "entities":
        loss = link_loss(out["memory.entity_scores"], gold) + out["memory.tags"][..., 0].sum()
        loss = loss + model.flow(bidirectional(TEXTS[2]), inputs=inputs([2], [0])).states[..., 0].sum()
    else:
        loss = link_loss(out["memory.answers"], gold) + link_loss(out["memory.fact_scores"], gold)
    loss.backward()  # type: ignore[no-untyped-call]
    missing = [name for name, weight in parts(model)[0].named_parameters()
               if weight.grad is None or float(weight.grad.abs().sum()) < 1e-7]  # fmt: skip
    missing = [name for name in missing if not name.endswith("key.bias")]  # a softmax does not depend on it, nor …
    assert missing == (["pool.bias"] if kind == "knowbert" else [])  # … on this one


@torch.no_grad()
def test_facts_that_are_not_read_leave_a_classifier_of_entities() -> None:
    without, empty = network("facts", top=0), network("facts", Stored(facts=0))
    for text in (0, 2):
        one, other = alone(without, text).outputs, alone(empty, text).outputs
        torch.testing.assert_close(one["memory.answers"], other["memory.answers"])
        assert (one["memory.null"] == 1.0).all()


@torch.no_grad()
def test_a_blank_without_a_fact_is_answered_by_weights_of_its_own() -> None:
    model = network("facts", own=True, top=2)
    (part,) = parts(model)
    out = alone(model, 0).outputs
    assert "memory.alone" not in alone(network("facts"), 0).outputs
    part.level.fill_(99.0)  # type: ignore[union-attr]
    unread = alone(model, 0).outputs
    assert (unread["memory.null"] > 0.999).all()
    torch.testing.assert_close(unread["memory.answers"], out["memory.alone"])
    scores = out["memory.fact_scores"]  # null is compared with the best fact that is not read
    assert not part.null_key.any()  # type: ignore[union-attr]
    expected = scores[:, 1:].topk(3).values[:, -1] + LEVEL * WIDTH**0.5
    torch.testing.assert_close(scores[:, 0], expected)
    few = alone(network("facts", Stored(facts=1), own=True, top=2), 0).outputs["memory.fact_scores"]
    torch.testing.assert_close(few[:, 0], torch.full_like(few[:, 0], LEVEL * WIDTH**0.5))


@torch.no_grad()
def test_knowbert_begins_by_leaving_the_states_as_they_are() -> None:
    plain = Model(Spec(**{**PLAIN, "init_std": 0.02}, family="bert")).eval()
    for width in (8, 16, 24):  # narrower than the states, as wide, and wider
        model = with_memory(plain, {1: ("knowbert", {**KINDS["knowbert"], "width": width, "heads": 2})})
        (part,) = parts(model)
        states = torch.randn(1, 5, 16)
        up = part.up(part.down(states))  # type: ignore[union-attr]
        assert float(up.norm()) <= float(states.norm()) * 1.001  # an inverse of a random map would be huge
        if width >= 16:
            torch.testing.assert_close(up, states, atol=1e-4, rtol=0)


@torch.no_grad()
def test_a_new_linker_scores_candidates_by_product_and_prior() -> None:
    model = with_memory(Model(Spec(**{**PLAIN, "init_std": 0.02}, family="bert")), {1: ("knowbert", KINDS["knowbert"])})
    (part,) = parts(model)
    both = torch.tensor([[[2.0, 0.5], [-1.0, 0.5], [2.0, 0.1], [0.0, 0.0]]])  # products and priors
    scores = part.score(both).squeeze(-1)  # type: ignore[union-attr]
    torch.testing.assert_close(scores, torch.tensor([[3.0, 0.0, 2.2, 0.0]]), atol=0.1, rtol=0)


@torch.no_grad()
def test_overlapping_mentions_with_one_beginning_both_count() -> None:
    model = network("entities")
    layout = bidirectional(TEXTS[2])
    both, first, second = (
        model.flow(layout, inputs={"memory.mentions": torch.tensor(spans)}).states
        for spans in ([[1, 2], [1, 4]], [[1, 2]], [[1, 4]])
    )
    assert not torch.allclose(both, first) and not torch.allclose(both, second)


def test_mentions_outside_of_the_text_are_refused_in_a_sentence() -> None:
    model = network("entities")
    layout = pack([bidirectional(ids) for ids in TEXTS[:2]])
    for wrong in ([[4, 5]], [[-1, 0]], [[7, 8]], [[2, 1]]):  # over two texts, before, behind, backwards
        with pytest.raises(LayoutError, match="no run of tokens inside of one text"):
            model.flow(layout, inputs={"memory.mentions": torch.tensor(wrong)})
    with pytest.raises(LayoutError, match="no run of tokens"):
        padded = batch([bidirectional(ids) for ids in TEXTS[:2]])
        model.flow(padded, inputs={"memory.mentions": torch.tensor([[8, 8 + 1]])})
    with pytest.raises(LayoutError, match="the shape"):
        model.flow(layout, inputs={"memory.mentions": torch.tensor([1, 2])})


def test_vectors_of_another_width_are_refused_in_a_sentence() -> None:
    model = network("entities")
    stored = Stored()
    stored.entities = torch.zeros(3, WIDTH + 1)
    with pytest.raises(MasqueradeError, match="vectors of 13 numbers, but the network was made for 12"):
        attach(model, stored)


@torch.no_grad()
def test_entities_as_experts_goes_with_a_cache_and_knowbert_says_that_it_does_not() -> None:
    model, cache = network("entities"), Cache()
    layout = causal(TEXTS[2])
    whole = model.flow(layout, inputs={"memory.mentions": torch.tensor([[0, 1], [4, 5]])}).states
    first = model.flow(layout[:3], cache, inputs={"memory.mentions": torch.tensor([[0, 1]])}).states
    second = model.flow(layout[3:], cache, inputs={"memory.mentions": torch.tensor([[1, 2]])}).states
    torch.testing.assert_close(torch.cat([first, second], 1), whole, atol=1e-5, rtol=0)
    with pytest.raises(LayoutError, match="takes no cache"):
        network("knowbert").flow(layout, Cache())


@torch.no_grad()
def test_a_token_of_a_causal_text_does_not_see_later_mentions() -> None:
    model = network("knowbert", layer=2, threshold=None)
    given = inputs([2], [0])
    layout = causal(TEXTS[2])
    other = {**given, "memory.candidates": given["memory.candidates"].clone()}
    other["memory.candidates"][2] = torch.tensor([4, -1, -1])  # the mention at the last token means something else
    before, after = (model.flow(layout, inputs=each).states for each in (given, other))
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6], after[:, 6])


def test_a_memory_added_to_an_encoder_keeps_its_weights(tmp_path: Path) -> None:
    plain = Model(Spec(**PLAIN, family="bert")).eval()
    model = with_memory(plain, {1: ("knowbert", KINDS["knowbert"])})
    for name, weight in plain.state_dict().items():
        assert torch.equal(model.state_dict()[name], weight), name
    part = parts(model)[0]
    y = torch.randn(4, WIDTH)
    torch.testing.assert_close(part.down(part.up(y)), y, atol=1e-4, rtol=1e-4)  # type: ignore[union-attr]
    save(model, tmp_path)
    assert load(tmp_path).spec == model.spec


def test_tags_and_spans_turn_into_each_other() -> None:
    layout = batch([pack([bidirectional(ids) for ids in TEXTS[:2]]), bidirectional(TEXTS[2])])
    given = torch.tensor([[0, 1], [4, 4], [5, 7], [8, 8], [9, 12]])
    tags = to_tags(Spans.of(given, layout), layout)
    assert tags[0].tolist() == [BEGIN, INSIDE, OUTSIDE, OUTSIDE, BEGIN, BEGIN, INSIDE, INSIDE]
    assert torch.equal(from_tags(tags, layout), given)
    inside = torch.full_like(layout.ids, INSIDE)  # no span goes over the end of a text or into padding
    assert from_tags(inside, layout).tolist() == [[0, 4], [5, 7], [8, 14]]
    assert from_tags(torch.full_like(inside, OUTSIDE), layout).shape == (0, 2)


def test_the_margin_loss_leaves_out_mentions_without_a_right_candidate() -> None:
    scores, there = torch.tensor([[0.1, -0.5], [0.3, 0.0]]), torch.ones(2, 2, dtype=torch.bool)
    one = margin_loss(scores[:1], torch.tensor([0]), there[:1])
    assert torch.equal(margin_loss(scores, torch.tensor([0, -100]), there), one)
    torch.testing.assert_close(one, torch.tensor(0.1))


def test_layouts_without_tokens_and_mentions_pass() -> None:
    spans = Spans.of(torch.zeros(0, 2), Layout.of(torch.zeros(1, 0, dtype=torch.long)))
    assert len(spans) == 0 and spans.longest == 0
