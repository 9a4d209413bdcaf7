"""ALiBi's bias is the published one, under every mask, alone and beside other positions."""

from __future__ import annotations

import math

import pytest
import torch
from mask_cases import GALLERY, each_of_the_gallery

from masquerade import Spec, build
from masquerade.layout import batch, visible
from masquerade.masks import bidirectional, causal, pack
from masquerade.nn.positions import Alibi, slopes

SMALL = {"vocab": 80, "width": 16, "heads": 4, "layers": 1, "feedforward": 24, "init_std": 0.5, "segments": 0}


def test_the_slopes_of_eight_and_twelve_heads_are_the_published_ones() -> None:
    eight = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert slopes(8) == eight
    assert slopes(12) == pytest.approx([*eight, *(2**-power for power in (0.5, 1.5, 2.5, 3.5))])


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 16, 20])
def test_a_causal_bias_is_that_of_bloom(heads: int) -> None:
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    of_keys = bloom.build_alibi_tensor(torch.ones(1, 9), heads, torch.float32).view(heads, 1, 9)
    distance = torch.arange(9) - torch.arange(9)[:, None]
    bias = Alibi(Spec(heads=heads, width=4 * heads))(distance[None])[0]
    expected = of_keys - of_keys.transpose(1, 2)  # Bloom leaves out what is equal for all keys of a query
    torch.testing.assert_close(bias.tril(), expected.tril())


@each_of_the_gallery
@torch.no_grad()
def test_attention_equals_one_that_is_computed_pair_by_pair(name: str) -> None:
    torch.manual_seed(0)
    model, layout = build(Spec(**SMALL, positions=("alibi",))).eval(), GALLERY[name]  # type: ignore[arg-type]
    attention, states = model.stack.layers[0].attention, model.embed(layout.batched())[0]
    query, key, value = (part(states) for part in (attention.query, attention.key, attention.value))
    seen, position = visible(layout).tolist(), layout.position.tolist()
    rows = []
    for q in range(len(layout)):
        mixed = torch.zeros(16)
        for head in range(4):
            own, slope = slice(4 * head, 4 * head + 4), 4.0 ** -(head + 1)
            keys = [k for k in range(len(layout)) if seen[q][k]]
            scores = [float(query[q, own] @ key[k, own]) / 2 - slope * abs(position[q] - position[k]) for k in keys]
            total = sum(math.exp(score) for score in scores)
            for k, score in zip(keys, scores, strict=True):
                mixed[own] += math.exp(score) / total * value[k, own]
        rows.append(mixed)
    view = model.stack._view(layout.batched(), layout.batched(), states)
    found = attention(states[None], view)[0][0]
    torch.testing.assert_close(found, attention.output(torch.stack(rows)), atol=1e-5, rtol=0)


@pytest.mark.parametrize("other", ["learned", "rotary", "buckets", "nezha", "transformer-xl", "disentangled"])
@torch.no_grad()
def test_the_bias_is_added_to_the_scores_of_other_positions(other: str) -> None:
    rows = [pack([bidirectional(range(5, 12)), causal(range(20, 24))]), bidirectional(range(30, 36))]
    torch.manual_seed(0)
    both = build(Spec(**SMALL, positions=(other, "alibi"), max_distance=9)).eval()  # type: ignore[arg-type]
    alone = build(Spec(**SMALL, positions=(other,), max_distance=9)).eval()  # type: ignore[arg-type]
    alone.load_state_dict(both.state_dict())  # ALiBi has no weights
    layout, real = batch(rows), batch(rows).real
    assert not torch.allclose(both.hidden(layout)[real], alone.hidden(layout)[real], atol=1e-2)
    both.stack.alibi.slopes.zero_()  # type: ignore[union-attr]
    torch.testing.assert_close(both.hidden(layout)[real], alone.hidden(layout)[real], atol=1e-5, rtol=0)
