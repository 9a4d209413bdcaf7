"""T5: an encoder–decoder without biases, whose positions are buckets of distance. Version 1.1 gates its feed-forward
layers and has a separate output table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from masquerade.families.base import Config, Family, Weights
from masquerade.nn.spec import Spec


def _block(stack: str, ours: str, feedforward: int) -> dict[str, str]:
    """The names of one stack's layers, whose feed-forward layer is the sublayer of that number."""
    layer, theirs = f"{ours}stack.layers.{{i}}", f"{stack}.block.{{i}}.layer"
    names = {
        f"{ours}stack.buckets.table": f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias",
        f"{ours}stack.norm": f"{stack}.final_layer_norm",
        f"{layer}.attention_norm": f"{theirs}.0.layer_norm",
        f"{layer}.feedforward_norm": f"{theirs}.{feedforward}.layer_norm",
        f"{layer}.feedforward.inner": f"{theirs}.{feedforward}.DenseReluDense.wi_0",
        f"{layer}.feedforward.gate": f"{theirs}.{feedforward}.DenseReluDense.wi_1",
        f"{layer}.feedforward.outer": f"{theirs}.{feedforward}.DenseReluDense.wo",
    }
    for part, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
        names[f"{layer}.attention.{part}"] = f"{theirs}.0.SelfAttention.{letter}"
        names[f"{layer}.cross.{part}"] = f"{theirs}.1.EncDecAttention.{letter}"
    return names | {f"{layer}.cross_norm": f"{theirs}.1.layer_norm"}


def _read(config: Config) -> dict[str, Any]:
    form = config.get("feed_forward_proj") or "relu"
    activation = "gelu_new" if form == "gated-gelu" else form.removeprefix("gated-")
    scale = config.get("scale_decoder_outputs", config.get("tie_word_embeddings") is not False)
    return {
        "gated": form.startswith("gated-"),
        "activation": activation,
        "lm_scale": scale,
        "attention_dropout": config.get("attention_dropout", config.get("dropout_rate", 0.1)),
    }


def _write(spec: Spec) -> Config:
    activation = "gelu" if spec.gated and spec.activation == "gelu_new" else spec.activation
    return {
        "feed_forward_proj": f"gated-{activation}" if spec.gated else activation,
        "num_decoder_layers": spec.decoder.layers if spec.decoder else spec.layers,
        "tie_word_embeddings": spec.lm_scale,
        "scale_decoder_outputs": spec.lm_scale,
        "is_encoder_decoder": True,
        "attention_dropout": spec.attention_dropout,  # for us alone: the reference has one rate for both
    }


def _merge(weights: Weights, spec: Spec) -> Weights:
    if spec.gated:
        return weights
    return {name.replace("DenseReluDense.wi_0", "DenseReluDense.wi"): tensor for name, tensor in weights.items()}


T5 = Family(
    name="t5",
    about="spans become sentinels; a decoder writes the spans",
    prefix="",
    body={"words.table": "shared"} | _block("encoder", "", 1) | _block("decoder", "decoder.", 2),
    heads={"lm": {"heads.lm.decoder": "lm_head"}},
    architectures={"T5Model": (), "T5ForConditionalGeneration": ("lm",)},
    keys={
        "vocab": "vocab_size",
        "width": "d_model",
        "layers": "num_layers",
        "heads": "num_heads",
        "head_size": "d_kv",
        "feedforward": "d_ff",
        "buckets": "relative_attention_num_buckets",
        "max_distance": "relative_attention_max_distance",
        "dropout": "dropout_rate",
        "epsilon": "layer_norm_epsilon",
        "pad": "pad_token_id",
    },
    defaults={"epsilon": 1e-6, "max_distance": 128, "buckets": 32, "head_size": 64},
    fixed={
        "mask": "bidirectional",
        "norm": "rms",
        "norm_first": True,
        "positions": ("buckets",),
        "segments": 0,
        "scaled": False,
        "attention_bias": False,
        "feedforward_bias": False,
        "lm_dense": False,
        "lm_bias": False,
    },
    read=_read,
    write=_write,
    decoder=lambda config: {"layers": config.get("num_decoder_layers") or config["num_layers"]},
    ignored=(r"(encoder|decoder)\.embed_tokens\.weight", r"lm_head\.weight"),
    copies=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
    legacy=((r"DenseReluDense\.wi\.", "DenseReluDense.wi_0."),),
    merge=_merge,
)

MT5 = replace(
    T5,
    name="mt5",
    about="T5 version 1.1 for a hundred languages",
    read=lambda config: _read(config) | {"lm_scale": False},
    architectures={f"M{name}": outputs for name, outputs in T5.architectures.items()},
)
