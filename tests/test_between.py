"""Parts between the layers: a toy memory with an extra input, output and loss, from the batch to the checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from masquerade import Cache, Layout, Model, Spec, load, save
from masquerade.data.examples import Example, PerToken
from masquerade.data.packing import collate
from masquerade.errors import LayoutError, SpecError
from masquerade.families.own import mass
from masquerade.layout import IGNORE, batch
from masquerade.masks import bidirectional, causal, pack
from masquerade.nn.between import Between, Flow, register

ENTITIES = 5


class Toy(Between):
    """Adds the vector of a token's entity to its state, and scores all entities for every token."""

    def __init__(self, spec: Spec, layer: int, entities: int = ENTITIES) -> None:
        super().__init__()
        self.table = nn.Embedding(entities, spec.width)
        self.scorer = nn.Linear(spec.width, entities)

    def forward(self, flow: Flow) -> Flow:
        entity = flow.inputs["entity"]  # (rows, n), below 0 for none
        added = self.table(entity.clamp(min=0)) * (entity >= 0).unsqueeze(-1)
        flow.outputs["entity scores"] = self.scorer(flow.states)
        return replace(flow, states=flow.states + added)


class Shorten(Between):
    """Drops the last token of every row."""

    def __init__(self, spec: Spec, layer: int) -> None:
        super().__init__()

    def forward(self, flow: Flow) -> Flow:
        layout = flow.layout[:-1]
        return replace(flow, states=flow.states[:, :-1], layout=layout, keys=layout)


register("toy", Toy)
register("shorten", Shorten)

PLAIN: dict[str, Any] = {"vocab": 40, "width": 16, "layers": 2, "heads": 2, "feedforward": 24, "longest": 32}
each_layer = pytest.mark.parametrize("layer", range(3))


def network(layer: int, **changes: Any) -> Model:
    torch.manual_seed(layer)
    between = {layer: ("toy", {"entities": ENTITIES})}
    return Model(Spec(**{**PLAIN, "init_std": 0.3, "outputs": ("lm",), "between": between, **changes})).eval()


def entities(layout: Layout) -> Tensor:
    """Every third token is a mention of an entity: (rows, n)"""
    return torch.where(layout.ids % 3 == 0, layout.ids % ENTITIES, -1) * layout.real - (~layout.real).long()


def flow(model: Model, layout: Layout, **more: Any) -> Flow:
    layout = layout.batched()
    return model.flow(layout, inputs={"entity": entities(layout)}, **more)


TEXTS = [[5, 6, 7, 8, 9], [12, 13, 14], [30, 31, 32, 33, 34, 35, 36]]


@each_layer
def test_a_packed_batch_trains_the_part_by_its_own_loss_and_is_saved_and_loaded(layer: int, tmp_path: Path) -> None:
    model = network(layer).train()
    layouts = [bidirectional(ids).replace(label=ids) for ids in TEXTS]
    examples = [Example(each, extra={"entity": PerToken(entities(each), fill=-1)}) for each in layouts]
    made = collate([examples[:2], examples[2:]])  # one row is packed, and the other one is padded
    layout, mentions = made.layout, made.extra["entity"]
    assert torch.equal(mentions, entities(layout))
    out = model.flow(layout, inputs=made.extra)
    link = F.cross_entropy(out.outputs["entity scores"][mentions >= 0], mentions[mentions >= 0])
    wanted = out.layout.label != IGNORE
    words = F.cross_entropy(model.head("lm", out.states[wanted]), out.layout.label[wanted])
    (words + link).backward()  # type: ignore[no-untyped-call]
    part = model.stack.between[str(layer)]
    for name, weight in part.named_parameters():
        assert weight.grad is not None and weight.grad.abs().sum() > 0, name
    save(model, tmp_path)
    again = load(tmp_path)
    assert again.spec == model.spec
    model.eval()
    for one, other in zip(flow(model, layout).states, flow(again, layout).states, strict=True):
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(flow(again, layout).outputs, flow(model, layout).outputs)


@each_layer
@torch.no_grad()
def test_packed_and_padded_texts_have_the_states_they_have_alone(layer: int) -> None:
    model = network(layer)
    alone = [flow(model, bidirectional(ids)).states[0] for ids in TEXTS]
    packed = flow(model, pack([bidirectional(ids) for ids in TEXTS])).states[0].split([len(ids) for ids in TEXTS])
    padded = flow(model, batch([bidirectional(ids) for ids in TEXTS])).states
    for row, states in enumerate(alone):
        torch.testing.assert_close(packed[row], states, atol=1e-5, rtol=0)
        torch.testing.assert_close(padded[row, : len(states)], states, atol=1e-5, rtol=0)


@each_layer
@torch.no_grad()
def test_a_cache_gives_the_states_and_outputs_of_one_pass(layer: int) -> None:
    model, layout, cache = network(layer), causal(TEXTS[2]), Cache()
    whole = flow(model, layout)
    parts = [flow(model, layout[:3], cache=cache), flow(model, layout[3:], cache=cache)]
    torch.testing.assert_close(torch.cat([part.states for part in parts], 1), whole.states, atol=1e-5, rtol=0)
    scores = torch.cat([part.outputs["entity scores"] for part in parts], 1)
    torch.testing.assert_close(scores, whole.outputs["entity scores"], atol=1e-5, rtol=0)
    assert len(parts[1].keys) == len(layout)


@each_layer
@torch.no_grad()
def test_chosen_tokens_and_layers_in_two_passes_give_the_same(layer: int) -> None:
    model = network(layer, norm_first=True)
    layout = batch([bidirectional(ids) for ids in TEXTS])
    whole, inputs = flow(model, layout).states, {"entity": entities(layout)}
    chosen = layout.ids % 2 == 1
    torch.testing.assert_close(flow(model, layout, at=chosen).states, whole[chosen], atol=1e-5, rtol=0)
    for cut in range(4):
        first = model.stack(model.embed(layout), layout, steps=range(cut), inputs=inputs).states
        second = model.stack(first, layout, steps=range(cut, 3), inputs=inputs)
        torch.testing.assert_close(second.states[layout.real], whole[layout.real], atol=1e-5, rtol=0)


@each_layer
def test_gradient_checkpointing_gives_the_same_gradients(layer: int) -> None:
    gradients = []
    for recompute in (False, True):
        model = network(layer, dropout=0.0, attention_dropout=0.0).train()
        model.stack.recompute = recompute
        out = flow(model, bidirectional(TEXTS[0]))
        (out.states.square().sum() + out.outputs["entity scores"].square().sum()).backward()  # type: ignore[no-untyped-call]
        gradients.append([weight.grad for weight in model.stack.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@torch.no_grad()
def test_parts_of_both_stacks_of_an_encoder_decoder_return_their_outputs() -> None:
    spec = mass(**{**PLAIN, "outputs": ("lm",)})
    assert spec.decoder is not None
    encoder = Model(replace(spec, between={1: ("toy", {})})).eval()
    source, target = bidirectional(TEXTS[0]).batched(), causal(TEXTS[0]).batched()
    assert "entity scores" in flow(encoder, target, source=source).outputs
    decoder = Model(replace(spec, decoder=replace(spec.decoder, between={1: ("toy", {})}))).eval()
    assert "entity scores" in flow(decoder, target, source=source).outputs


@torch.no_grad()
def test_a_part_may_drop_tokens_but_not_under_a_cache() -> None:
    model = Model(Spec(**PLAIN, between={1: ("shorten", {})})).eval()
    out = model.flow(causal(TEXTS[0]))
    assert out.layout.ids.tolist() == [TEXTS[0][:-1]] and out.states.shape[1] == len(TEXTS[0]) - 1
    with pytest.raises(LayoutError, match="Shorten changed the rows or tokens"):
        model.flow(causal(TEXTS[0]), Cache())


def test_parts_that_do_not_exist_or_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no part 'entity' to run before layer 1; known are .*entities, facts, fork"):
        Model(Spec(**PLAIN, between={1: ("entity", {})}))
    with pytest.raises(SpecError, match="do not fit the part 'toy'"):
        Model(Spec(**PLAIN, between={1: ("toy", {"size": 3})}))
    with pytest.raises(SpecError, match="'toy' cannot run before layer 3 of 2"):
        Spec(**PLAIN, between={3: ("toy", {})})
    for wrong in ({1: "toy"}, {"one": ("toy", {})}, {1: ("toy", {"size": object()})}, [1]):
        with pytest.raises(SpecError, match="has to be"):
            Spec(**PLAIN, between=wrong)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="registered twice"):
        register("toy", Shorten)
    with pytest.raises(SpecError, match="nothing between layers"):
        Spec(**PLAIN, recurrent="lstm", positions=(), between={1: ("toy", {})})
    bert = Model(Spec(**PLAIN, family="bert", outputs=("lm",), between={1: ("toy", {})}))
    with pytest.raises(SpecError, match="cannot express that 'between' is"):
        save(bert, tmp_path)
