"""KnowBERT, Entities as Experts and Facts as Experts equal to reference outputs.

The files in fixtures/entity hold inputs, weights and outputs of the authors' code (KnowBERT), of Google's (EaE), and of
an independent implementation of the equations (FaE).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from masquerade.layout import Layout
from masquerade.memory.entity.experts import EntitiesAsExperts
from masquerade.memory.entity.facts import NONE, FactsAsExperts
from masquerade.memory.entity.knowbert import KnowledgeAttention
from masquerade.memory.entity.losses import link_loss, margin_loss, softmax_loss
from masquerade.nn.between import Flow
from masquerade.nn.spec import Spec

FIXTURES = Path(__file__).parent / "fixtures" / "entity"
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def oracle(name: str) -> dict[str, Tensor]:
    with np.load(FIXTURES / name) as arrays:
        return {key: torch.from_numpy(arrays[key]) for key in arrays}


def flow(states: Tensor, inputs: dict[str, Tensor], mask: Tensor | None = None) -> Flow:
    ids = torch.zeros(states.shape[:2], dtype=torch.long)
    layout = Layout.padded(ids, mask)
    return Flow(states, layout, layout, inputs)


def spec(width: int) -> Spec:
    return Spec(width=width, heads=2, layers=1)


def knowbert(name: str) -> tuple[KnowledgeAttention, Flow, dict[str, Tensor], Tensor]:
    """The part with the oracle's weights, its input, the oracle, and which spans are no padding."""
    given = oracle(f"knowbert-kar/{name}.npz")
    threshold = float(given["in.threshold"])
    part = KnowledgeAttention(
        spec(16), 0, width=12, heads=int(given["in.heads"]), feedforward=20, hidden=10,
        threshold=None if threshold == -np.inf else threshold,
    ).eval()  # fmt: skip
    ours = {"score1": "score.0", "score2": "score.2", "span.0": "span_block", "word": "word_block"}
    inner = {"query": "attention.query", "key": "attention.key", "value": "attention.value", "out": "attention.output",
             "norm1": "attention_norm", "ff1": "feedforward.inner", "ff2": "feedforward.outer",
             "norm2": "feedforward_norm"}  # fmt: skip
    weights = {}
    for key, tensor in given.items():
        if not key.startswith("weight.") or key == "weight.entities":
            continue
        module = key.removeprefix("weight.")
        for theirs, mine in ours.items():
            if module.startswith(f"{theirs}."):
                rest = module.removeprefix(f"{theirs}.")
                first, _, last = rest.partition(".")
                module = f"{mine}.{inner[first]}.{last}" if theirs in ("span.0", "word") else f"{mine}.{rest}"
        weights[module] = tensor
    part.load_state_dict(weights)
    part.entities.set(given["weight.entities"])
    there = given["in.spans"][..., 0] >= 0  # (rows, c)
    offset = torch.arange(3)[:, None, None] * 14
    candidates = torch.where(given["in.candidates"] == 0, -1, given["in.candidates"])  # their row 0 is padding
    inputs = {
        "memory.mentions": (given["in.spans"] + offset)[there],
        "memory.candidates": candidates[there],
        "memory.priors": given["in.priors"][there],
    }
    return part, flow(given["in.hidden"], inputs, given["in.mask"]), given, there


@pytest.mark.parametrize("name", ["softmax", "margin"])
@torch.no_grad()
def test_knowbert_equals_the_authors_code(name: str) -> None:
    part, before, given, there = knowbert(name)
    after = part(before)
    torch.testing.assert_close(after.outputs["memory.candidate_scores"], given["out.scores"][there], **CLOSE)
    torch.testing.assert_close(after.states, given["out.hidden"], **CLOSE)


@pytest.mark.parametrize("name", ["softmax", "margin"])
@torch.no_grad()
def test_each_step_of_knowbert_equals_the_authors_code(name: str) -> None:
    part, before, given, there = knowbert(name)
    seen: dict[str, Tensor] = {}
    for module, key in ((part.down, "down"), (part.mix_norm, "mixed"), (part.word_block, "word")):
        module.register_forward_hook(lambda _, inputs, out, key=key: seen.update({key: out, f"{key}.in": inputs[0]}))
    part.span_norm.register_forward_hook(lambda _, inputs, out: seen.update({"pooled": inputs[0]}))
    scores = part(before).outputs["memory.candidate_scores"]
    torch.testing.assert_close(seen["down"], given["out.down"], **CLOSE)
    torch.testing.assert_close(seen["pooled"], given["out.pooled"][there], **CLOSE)
    torch.testing.assert_close(seen["mixed"], given["out.mixed"][there], **CLOSE)
    torch.testing.assert_close(seen["mixed.in"], (given["out.contextual"] + given["out.entity"])[there], **CLOSE)
    torch.testing.assert_close(seen["word"], given["out.word"], **CLOSE)
    candidates = before.inputs["memory.candidates"]
    gold = given["in.gold"][there]
    place = (candidates == gold[:, None]).long().argmax(-1)
    if name == "softmax":
        found = softmax_loss(scores, place) / len(place)
    else:
        found = margin_loss(scores, place, candidates >= 0, float(given["in.margin"])) / (candidates >= 0).sum()
    torch.testing.assert_close(found, given["out.loss"], **CLOSE)


@pytest.mark.parametrize("name", ["square", "wide"])
def test_knowberts_way_back_begins_as_the_inverse_of_its_way_down(name: str) -> None:
    given = oracle("knowbert-kar/inverse.npz")
    part = KnowledgeAttention(spec(16), 0, width=len(given[f"{name}.down.bias"]), heads=2)
    part.down.load_state_dict({key: given[f"{name}.down.{key}"] for key in ("weight", "bias")})
    part.invert()
    torch.testing.assert_close(part.up.weight.data, given[f"{name}.up.weight"], atol=1e-2, rtol=1e-2)
    # the authors add P b, which is no inverse: the inverse of x → W x + b takes b away first
    torch.testing.assert_close(part.up.bias.data, -given[f"{name}.up.bias"], atol=1e-2, rtol=1e-2)
    x = torch.randn(5, 16)
    torch.testing.assert_close(part.up(part.down(x)), x, atol=1e-3, rtol=1e-3)


def test_a_narrow_way_down_has_a_pseudo_inverse() -> None:
    part = KnowledgeAttention(spec(16), 0, width=6, heads=2)
    part.begin()
    y = part.down(torch.randn(5, 16))
    torch.testing.assert_close(part.down(part.up(y)), y, atol=1e-4, rtol=1e-4)


def experts(**options: Any) -> tuple[EntitiesAsExperts, Flow, dict[str, Tensor], Tensor]:
    given = oracle("eae-memory/memory.npz")
    part = EntitiesAsExperts(spec(16), 0, width=10, **options)
    names = {"query": "f", "back": "b"}
    weights = {f"{ours}.{kind}": given[f"weight.{letter}{theirs}"]
               for ours, theirs in names.items() for kind, letter in (("weight", "W"), ("bias", "b"))}  # fmt: skip
    weights |= {f"norm.{kind}": given[f"weight.norm.{kind}"] for kind in ("weight", "bias")}
    part.load_state_dict(weights | {f"tag.{key}": value for key, value in part.tag.state_dict().items()})
    part.entities.set(given["weight.entities"])
    there = given["in.mask"] > 0
    mentions = torch.stack([given["in.row"] * 12 + given[f"in.{end}"] for end in ("start", "end")], dim=-1)
    return part, flow(given["in.hidden"], {"memory.mentions": mentions[there]}), given, there


@torch.no_grad()
def test_entities_as_experts_equals_google_s_code_in_training() -> None:
    part, before, given, there = experts()
    after = part.train()(before)
    scores = after.outputs["memory.entity_scores"]
    torch.testing.assert_close(scores.softmax(-1), given["out.attention"][there], **CLOSE)
    torch.testing.assert_close(after.states, given["out.hidden"], **CLOSE)
    loss = link_loss(scores, given["in.gold"][there]) / int(there.sum())
    torch.testing.assert_close(loss, given["out.link_loss"], **CLOSE)


@pytest.mark.parametrize("top", [1, 5])
@torch.no_grad()
def test_entities_as_experts_reads_the_best_entities_in_use(top: int) -> None:
    part, before, given, there = experts(top=top)
    after = part.eval()(before)
    assert torch.equal(after.outputs["memory.entities"], given[f"out.top{top}.entities"][there])
    torch.testing.assert_close(after.states, given[f"out.top{top}.hidden"], **CLOSE)


@pytest.mark.parametrize("memory", ["base", "added", "changed", "removed", "empty"])
@torch.no_grad()
def test_facts_as_experts_equals_the_equations_under_every_change_of_the_facts(memory: str) -> None:
    given = oracle("fae-memory/memory.npz")
    facts = json.loads((FIXTURES / "fae-memory/facts.json").read_text())["facts"][memory]
    part = FactsAsExperts(spec(16), 0, width=12, relation=8, top=int(given["in.top"]), subject=False).eval()
    part.load_state_dict({
        "query.weight": given["weight.Wv"], "query.bias": given["weight.bv"], "key.weight": given["weight.Wa"],
        "null_key": given["weight.null_key"], "null_value": given["weight.null_value"],
    })  # fmt: skip
    part.entities.set(given["weight.entities"])
    most = max((len(objects) for _, objects in facts), default=1)
    padded = [objects + [NONE] * (most - len(objects)) for _, objects in facts]
    part.set_facts(
        torch.tensor([key for key, _ in facts]).view(-1, 2), torch.tensor(padded).view(-1, most),
        given["weight.relations"],
    )  # fmt: skip
    blanks = torch.stack([given["in.start"], given["in.end"]], dim=-1)
    out = part(flow(given["in.hidden"][None], {"memory.blanks": blanks})).outputs
    torch.testing.assert_close(out["memory.answers"], given[f"{memory}.logits"], **CLOSE)
    torch.testing.assert_close(out["memory.null"], given[f"{memory}.null"], **CLOSE)
    attention = torch.zeros(len(blanks), len(facts) + 1)
    attention.scatter_add_(1, out["memory.facts"], out["memory.fact_weights"])
    torch.testing.assert_close(attention, given[f"{memory}.attention"], **CLOSE)
    trained = part.train()(flow(given["in.hidden"][None], {"memory.blanks": blanks})).outputs
    torch.testing.assert_close(trained["memory.fact_scores"], given[f"{memory}.key_scores"], **CLOSE)
