"""Models that write: GPT-2, T5, BART, PEGASUS against the reference; MASS, PALM, UniLM and GLM by their definitions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from parity import TINY, assert_close, check_parity, padded, randomised
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from masquerade import Cache, Model, Spec, build, load, save
from masquerade.errors import LayoutError, MasqueradeError, SpecError
from masquerade.families.own import mass, palm
from masquerade.layout import batch
from masquerade.masks import bidirectional, causal, infill, pack, prefix

GPT2 = {
    "vocab_size": 99,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
T5 = {
    "vocab_size": 99, "d_model": 32, "d_kv": 12, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, "decoder_start_token_id": 0,
}  # fmt: skip
BART = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40, "encoder_attention_heads": 4, "decoder_attention_heads": 8, "max_position_embeddings": 40,
}  # fmt: skip
TARGET = torch.randint(5, 99, (3, 9), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("head", "changes"),
    [
        ("LMHeadModel", {}),
        ("LMHeadModel", {"n_inner": 40, "activation_function": "relu"}),
        ("LMHeadModel", {"tie_word_embeddings": False}),
        ("ForTokenClassification", {"num_labels": 3}),
        ("ForQuestionAnswering", {}),
    ],
)
def test_gpt2_equals_the_reference(head: str, changes: dict[str, object], tmp_path: Path) -> None:
    model = getattr(transformers, f"GPT2{head}")(transformers.GPT2Config(**GPT2 | changes))
    check_parity(model, padded(segments=False), tmp_path, spread=0.3)


@pytest.mark.parametrize(
    ("name", "config", "changes"),
    [
        ("T5", T5, {}),
        ("T5", T5, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
        ("T5", T5, {"feed_forward_proj": "gated-silu", "num_decoder_layers": 2}),
        ("MT5", T5, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
        ("Bart", BART, {}),
        ("Bart", BART, {"scale_embedding": True, "activation_function": "relu"}),
        ("Pegasus", BART, {"scale_embedding": True}),
        ("Pegasus", BART, {"scale_embedding": False, "activation_function": "relu"}),
    ],
)
def test_encoder_decoders_equal_the_reference(
    name: str, config: dict[str, object], changes: dict[str, object], tmp_path: Path
) -> None:
    reference = getattr(transformers, f"{name}Config")(**config | changes)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(reference)
    inputs = padded(segments=False) | {"decoder_input_ids": TARGET}
    check_parity(model, inputs, tmp_path, spread=0.1)
    mask = (torch.arange(9) < torch.tensor([[9], [6], [3]])).long()
    theirs = type(model).from_pretrained(tmp_path / "theirs").eval()
    with torch.no_grad():
        got = load(tmp_path / "ours").logits(**inputs, decoder_attention_mask=mask)
        expected = theirs(**inputs, decoder_attention_mask=mask).logits
    assert_close((got[mask > 0],), (expected[mask > 0],))


def test_t5_keeps_an_output_table_of_its_own(tmp_path: Path) -> None:
    model = randomised(
        transformers.T5ForConditionalGeneration(transformers.T5Config(**T5, tie_word_embeddings=False)), 0.1
    )
    model.save_pretrained(tmp_path / "theirs")
    weights = load_file(tmp_path / "theirs" / "model.safetensors")
    weights["lm_head.weight"] = weights["shared.weight"].flip(0).contiguous()
    save_file(weights, tmp_path / "theirs" / "model.safetensors", metadata={"format": "pt"})
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "theirs").eval()
    ours = load(tmp_path / "theirs")
    assert not ours.spec.tied
    save(ours, tmp_path / "ours")
    again = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "ours").eval()
    inputs = padded(segments=False) | {"decoder_input_ids": TARGET}
    with torch.no_grad():
        expected = theirs(**inputs).logits
        assert_close((ours.logits(**inputs), again(**inputs).logits), (expected, expected))


def small(kind: str) -> Model:
    sizes = {"vocab": 60, "width": 16, "heads": 2, "feedforward": 24, "layers": 2, "longest": 40, "init_std": 0.3}
    return build({"mass": mass, "palm": palm}[kind](**sizes)).eval()


@pytest.mark.parametrize("kind", ["mass", "palm"])
def test_mass_and_palm_are_saved_and_loaded(kind: str, tmp_path: Path) -> None:
    model = small(kind)
    save(model, tmp_path)
    again = load(tmp_path)
    assert again.spec == model.spec
    inputs = {"input_ids": torch.tensor([[5, 6, 7]]), "decoder_input_ids": torch.tensor([[8, 9]])}
    with torch.no_grad():
        assert torch.equal(again.logits(**inputs), model.logits(**inputs))


def test_a_decoder_writes_the_same_with_and_without_a_cache() -> None:
    model, source, target = small("mass"), bidirectional([5, 6, 7, 8]), causal([9, 10, 11, 12])
    with torch.no_grad():
        expected, cache, encoded = model.scores(target, source=source), Cache(), model.encode(source)
        steps = [model.scores(target[i], cache=cache, source=encoded) for i in range(4)]
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, atol=1e-5, rtol=0)


def test_packed_pairs_see_only_their_own_source() -> None:
    model = small("palm")
    sources, targets = [[5, 6, 7], [8, 9]], [[10, 11], [12, 13, 14]]
    with torch.no_grad():
        packed = model.hidden(
            pack([causal(ids) for ids in targets]), source=pack([bidirectional(ids) for ids in sources])
        )
        padded_rows = model.hidden(
            batch([causal(ids) for ids in targets]), source=batch([bidirectional(ids) for ids in sources])
        )
        for row, (states, source, target) in enumerate(zip(packed[0].split([2, 3]), sources, targets, strict=True)):
            alone = model.hidden(causal(target), source=bidirectional(source))[0]
            torch.testing.assert_close(states, alone, atol=1e-5, rtol=0)
            torch.testing.assert_close(padded_rows[row, : len(target)], alone, atol=1e-5, rtol=0)


def test_a_source_is_asked_for_and_refused_where_it_belongs() -> None:
    with pytest.raises(LayoutError, match="give it the source"):
        small("mass").hidden(causal([5]))
    with pytest.raises(MasqueradeError, match="decoder_input_ids as well"):
        small("mass").logits(torch.tensor([[5]]))
    plain = build(Spec(vocab=20, width=8, layers=1, heads=1, feedforward=8))
    with pytest.raises(LayoutError, match="has no decoder, so it takes no source"):
        plain.hidden(causal([5]), source=causal([6]))


def test_a_decoder_that_does_not_fit_its_encoder_is_refused() -> None:
    decoder = Spec(vocab=20, width=16, layers=1, heads=1, feedforward=8, cross=True)
    with pytest.raises(SpecError, match="cannot share the embeddings"):
        Spec(vocab=20, width=8, layers=1, heads=1, feedforward=8, decoder=decoder)
    with pytest.raises(SpecError, match="A decoder has to be one stack with 'cross' set"):
        Spec(vocab=20, width=8, layers=1, heads=1, feedforward=8, decoder=Spec(vocab=20, width=8, heads=1))


# GLM


def glm(tmp_path: Path) -> tuple[Model, dict[str, Tensor]]:
    """A tiny GLM in the files of its first release: configuration and weights under their names."""
    config = {
        "model_type": "glm", "architectures": ["GLMForConditionalGeneration"], "vocab_size": 50, "hidden_size": 16,
        "num_layers": 2, "num_attention_heads": 2, "max_sequence_length": 32, "block_position_encoding": True,
    }  # fmt: skip
    generator = torch.Generator().manual_seed(2)

    def some(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator) * 0.3

    weights = {
        "glm.word_embeddings.weight": some(50, 16),
        "glm.transformer.position_embeddings.weight": some(33, 16),
        "glm.transformer.block_position_embeddings.weight": some(33, 16),
        "glm.transformer.final_layernorm.weight": 1 + some(16),
        "glm.transformer.final_layernorm.bias": some(16),
    }
    for layer in range(2):
        for name, out, into in (
            ("attention.query_key_value", 48, 16), ("attention.dense", 16, 16),
            ("mlp.dense_h_to_4h", 64, 16), ("mlp.dense_4h_to_h", 16, 64),
        ):  # fmt: skip
            weights[f"glm.transformer.layers.{layer}.{name}.weight"] = some(out, into)
            weights[f"glm.transformer.layers.{layer}.{name}.bias"] = some(out)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"glm.transformer.layers.{layer}.{name}.weight"] = 1 + some(16)
            weights[f"glm.transformer.layers.{layer}.{name}.bias"] = some(16)
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(weights, tmp_path / "model.safetensors")
    return load(tmp_path), {name.removeprefix("glm."): tensor for name, tensor in weights.items()}


def published_glm(weights: dict[str, Tensor], ids: list[int], positions: list[list[int]], context: int) -> Tensor:
    """GLM from its paper, on its own weights: the first ``context`` tokens see each other, the others what is before
    them; positions are two rows, place and place inside the blank. Gives the logits, (n, vocab)."""
    x = F.embedding(torch.tensor(ids), weights["word_embeddings.weight"])
    x = x + F.embedding(torch.tensor(positions[0]), weights["transformer.position_embeddings.weight"])
    x = x + F.embedding(torch.tensor(positions[1]), weights["transformer.block_position_embeddings.weight"])
    n = len(ids)
    seen = torch.tensor([[k < context or k <= q for k in range(n)] for q in range(n)])

    def norm(name: str, y: Tensor) -> Tensor:
        return F.layer_norm(y, (16,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-5)

    def dense(name: str, y: Tensor) -> Tensor:
        return y @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    for layer in range(2):
        at = f"transformer.layers.{layer}"
        query, key, value = dense(f"{at}.attention.query_key_value", norm(f"{at}.input_layernorm", x)).split(16, dim=-1)
        heads = []
        for head in (slice(0, 8), slice(8, 16)):
            scores = query[:, head] @ key[:, head].T / 8**0.5
            heads.append(scores.masked_fill(~seen, float("-inf")).softmax(-1) @ value[:, head])
        x = x + dense(f"{at}.attention.dense", torch.cat(heads, dim=-1))
        inside = dense(f"{at}.mlp.dense_h_to_4h", norm(f"{at}.post_attention_layernorm", x))
        x = x + dense(f"{at}.mlp.dense_4h_to_h", F.gelu(inside, approximate="tanh"))
    return norm("transformer.final_layernorm", x) @ weights["word_embeddings.weight"].T


def test_glm_equals_an_independent_implementation_of_its_paper(tmp_path: Path) -> None:
    model, weights = glm(tmp_path)
    layout = infill([5, 3, 6, 7, 3], [(4, [4, 20, 21]), (1, [4, 30, 31, 32])])
    positions = [[0, 1, 2, 3, 4, 4, 4, 4, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1, 2, 3, 1, 2, 3, 4]]
    with torch.no_grad():
        got = model.scores(layout)
    assert_close((got[0],), (published_glm(weights, layout.ids.tolist(), positions, context=5),))


def test_glm_is_saved_under_the_names_it_came_with(tmp_path: Path) -> None:
    model, weights = glm(tmp_path)
    save(model, tmp_path / "ours")
    saved = load_file(tmp_path / "ours" / "model.safetensors")
    assert saved.keys() == {f"glm.{name}" for name in weights}
    assert all(torch.equal(saved[f"glm.{name}"], tensor) for name, tensor in weights.items())


def test_a_blank_at_the_end_is_a_prefix_language_model(tmp_path: Path) -> None:
    model, _ = glm(tmp_path)
    blank = infill([5, 6, 7, 3], [(3, [4, 20, 21, 22])])
    same = prefix([5, 6, 7, 3], [4, 20, 21, 22]).replace(position=blank.position, inner=blank.inner)
    with torch.no_grad():
        assert torch.equal(model.hidden(blank), model.hidden(same))


# UniLM


def test_any_bert_runs_under_the_prefix_mask_as_the_reference_does_with_that_mask(tmp_path: Path) -> None:
    reference = randomised(transformers.BertForMaskedLM(transformers.BertConfig(**TINY, attn_implementation="eager")))
    reference.save_pretrained(tmp_path)
    model = load(tmp_path)
    source, target = [5, 6, 7, 8], [20, 21, 22]
    mask = torch.tensor([[k < 4 or k <= q for k in range(7)] for q in range(7)])
    additive = torch.zeros(1, 1, 7, 7).masked_fill(~mask, torch.finfo(torch.float32).min)
    with torch.no_grad():
        expected = reference(
            input_ids=torch.tensor([source + target]),
            token_type_ids=torch.tensor([[0] * 4 + [1] * 3]),
            attention_mask=additive,
        ).logits
        assert_close((model.scores(prefix(source, target)),), (expected,))


def test_the_second_unilm_is_read_under_its_published_names(tmp_path: Path) -> None:
    sizes = {"vocab": 50, "width": 16, "layers": 2, "heads": 2, "feedforward": 24, "longest": 40, "init_std": 0.3}
    spec = Spec(
        family="unilm", positions=("learned", "buckets"), max_distance=128, segments=6, outputs=("lm",), **sizes
    )
    model = build(spec).eval()
    for layer in model.stack.layers:
        torch.nn.init.normal_(layer.attention.query.bias)
        torch.nn.init.normal_(layer.attention.value.bias)
    save(model, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    assert weights["bert.rel_pos_bias.weight"].shape == (2, 32)
    for layer in range(2):
        at = f"bert.encoder.layer.{layer}.attention.self"
        parts = [weights.pop(f"{at}.{part}.weight") for part in ("query", "key", "value")]
        weights[f"{at}.qkv_linear.weight"] = torch.cat(parts)
        weights[f"{at}.q_bias"] = weights.pop(f"{at}.query.bias")[None, None]
        weights[f"{at}.v_bias"] = weights.pop(f"{at}.value.bias")[None, None]
        del weights[f"{at}.key.bias"]
    save_file(weights, tmp_path / "model.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    del config["model_type"], config["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    again = load(tmp_path)
    assert again.spec == spec
    with torch.no_grad():
        layout = prefix([5, 6, 7], [8, 9])
        assert_close((again.scores(layout),), (model.scores(layout),))
