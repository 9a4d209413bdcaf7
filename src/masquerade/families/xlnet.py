"""XLNet and Transformer-XL: attention with relative distances, and a memory of the previous segment.

XLNet predicts in any order: QUERY tokens follow the content (``masks.two_stream``) and start from one learned vector.
Transformer-XL predicts from left to right, with an adaptive softmax over a large vocabulary.
"""

from __future__ import annotations

import re
from typing import Any

from masquerade.errors import CheckpointError
from masquerade.families.base import Config, Family, Weights, apart, together
from masquerade.layout import FAR
from masquerade.nn.spec import Spec

RELATION = "stack.layers.{i}.attention.relation"
_MATRIX = re.compile(r"\.rel_attn\.[qkvro]$")


def _clamp(config: Config) -> dict[str, Any]:
    """The greatest distance; −1 means that distances are not clipped."""
    return {"max_distance": config["clamp_len"] if config.get("clamp_len", -1) > 0 else FAR}


def _clamp_key(spec: Spec) -> Config:
    return {"clamp_len": -1 if spec.max_distance == FAR else spec.max_distance}


def _split_xlnet(weights: Weights) -> Weights:
    """Matrices flattened from (width, heads, d), and transposed unless they are the output's."""
    flat: Weights = {}
    for name, tensor in weights.items():
        if _MATRIX.search(name):
            tensor = tensor.flatten(1)
            tensor = tensor if name.endswith(".o") else tensor.T
        flat[name] = tensor.flatten() if name == "mask_emb" else tensor
    return flat


def _merge_xlnet(weights: Weights, spec: Spec) -> Weights:
    shaped: Weights = {}
    for name, tensor in weights.items():
        if _MATRIX.search(name):
            tensor = (tensor if name.endswith(".o") else tensor.T).reshape(spec.width, spec.heads, spec.head_width)
        shaped[name] = tensor[None, None] if name.endswith("mask_emb") else tensor
    return shaped


def _read_xlnet(config: Config) -> dict[str, Any]:
    if config.get("attn_type", "bi") != "bi" or config.get("bi_data"):
        raise CheckpointError("Only XLNets of 'attn_type' bi, without 'bi_data', are published and supported.")
    return {"attention_dropout": config.get("attention_dropout", config.get("dropout", 0.1)), **_clamp(config)}


def _write_xlnet(spec: Spec) -> Config:
    attention = {"attention_dropout": spec.attention_dropout}  # for us alone: the reference has one rate for both
    return {**_clamp_key(spec), "tie_word_embeddings": spec.tied, **attention}


XLNET = Family(
    name="xlnet",
    about="any order of prediction, in two streams; distances and a memory",
    prefix="transformer.",
    body={
        "words.table": "word_embedding",
        "words.query": "mask_emb",
        "stack.layers.{i}.attention.query.weight": "layer.{i}.rel_attn.q",
        "stack.layers.{i}.attention.key.weight": "layer.{i}.rel_attn.k",
        "stack.layers.{i}.attention.value.weight": "layer.{i}.rel_attn.v",
        "stack.layers.{i}.attention.output.weight": "layer.{i}.rel_attn.o",
        f"{RELATION}.net.weight": "layer.{i}.rel_attn.r",
        f"{RELATION}.content_bias": "layer.{i}.rel_attn.r_w_bias",
        f"{RELATION}.position_bias": "layer.{i}.rel_attn.r_r_bias",
        f"{RELATION}.segment_bias": "layer.{i}.rel_attn.r_s_bias",
        f"{RELATION}.segments": "layer.{i}.rel_attn.seg_embed",
        "stack.layers.{i}.attention_norm": "layer.{i}.rel_attn.layer_norm",
        "stack.layers.{i}.feedforward.inner": "layer.{i}.ff.layer_1",
        "stack.layers.{i}.feedforward.outer": "layer.{i}.ff.layer_2",
        "stack.layers.{i}.feedforward_norm": "layer.{i}.ff.layer_norm",
    },
    heads={
        "lm": {"heads.lm.bias": "lm_loss.bias", "heads.lm.decoder": "lm_loss"},
        "tag": {"heads.tag": "classifier"},
        "span": {"heads.span": "qa_outputs"},
    },
    architectures={
        "XLNetModel": (),
        "XLNetLMHeadModel": ("lm",),
        "XLNetForTokenClassification": ("tag",),
        "XLNetForQuestionAnsweringSimple": ("span",),
    },
    keys={
        "vocab": "vocab_size",
        "width": "d_model",
        "layers": "n_layer",
        "heads": "n_head",
        "feedforward": "d_inner",
        "activation": "ff_activation",
        "epsilon": "layer_norm_eps",
        "dropout": "dropout",
        "init_std": "initializer_range",
        "pad": "pad_token_id",
    },
    defaults={"pad": 5},
    fixed={
        "positions": ("transformer-xl",),
        "segment_relation": True,
        "segments": 0,
        "query_vector": True,
        "embedding_norm": False,
        "attention_bias": False,
        "lm_dense": False,
    },
    read=_read_xlnet,
    write=_write_xlnet,
    ignored=(r"lm_loss\.weight",),
    split=_split_xlnet,
    merge=_merge_xlnet,
)


_TOGETHER = "dec_attn.qkv_net", ("dec_attn.q_net", "dec_attn.k_net", "dec_attn.v_net")
_SHARED = ("r_w_bias", "r_r_bias")


def _split_txl(weights: Weights) -> Weights:
    """Separate queries, keys and values, and copy shared biases to every layer."""
    shared = {name: weights.pop(name) for name in _SHARED if name in weights}
    layers = {name.removesuffix("qkv_net.weight") for name in weights if name.endswith(".qkv_net.weight")}
    given = {layer + name: tensor for layer in layers for name, tensor in shared.items()}
    return apart(weights, *_TOGETHER) | given


def _merge_txl(weights: Weights, spec: Spec) -> Weights:
    whole = together(weights, *_TOGETHER)
    for name in _SHARED if spec.share_biases else ():
        first = next(each for each in whole if each.endswith(f"layers.0.dec_attn.{name}"))
        whole[first.replace("layers.0.dec_attn.", "")] = whole[first]
    return whole


def _read_txl(config: Config) -> dict[str, Any]:
    if config.get("div_val", 1) != 1 or config.get("d_embed", config["d_model"]) != config["d_model"]:
        raise CheckpointError(
            "Transformer-XLs whose rarer words have narrower embeddings ('div_val') are not supported."
        )
    return {"share_biases": not config.get("untie_r", True), **_clamp(config)}


def _write_txl(spec: Spec) -> Config:
    return {"untie_r": not spec.share_biases, "d_embed": spec.width, "div_val": 1, **_clamp_key(spec)}


TRANSFORMER_XL = Family(
    name="transfo-xl",
    about="left to right, with distances and a memory of the previous segment",
    prefix="transformer.",
    body={
        "words.table": "word_emb.emb_layers.0",
        "stack.layers.{i}.attention.query": "layers.{i}.dec_attn.q_net",
        "stack.layers.{i}.attention.key": "layers.{i}.dec_attn.k_net",
        "stack.layers.{i}.attention.value": "layers.{i}.dec_attn.v_net",
        "stack.layers.{i}.attention.output": "layers.{i}.dec_attn.o_net",
        f"{RELATION}.net": "layers.{i}.dec_attn.r_net",
        f"{RELATION}.content_bias": "layers.{i}.dec_attn.r_w_bias",
        f"{RELATION}.position_bias": "layers.{i}.dec_attn.r_r_bias",
        "stack.layers.{i}.attention_norm": "layers.{i}.dec_attn.layer_norm",
        "stack.layers.{i}.feedforward.inner": "layers.{i}.pos_ff.CoreNet.0",
        "stack.layers.{i}.feedforward.outer": "layers.{i}.pos_ff.CoreNet.3",
        "stack.layers.{i}.feedforward_norm": "layers.{i}.pos_ff.layer_norm",
    },
    heads={
        "lm": {
            "heads.lm.bias": "crit.out_layers.0.bias",
            "heads.lm.clusters.weight": "crit.cluster_weight",
            "heads.lm.clusters.bias": "crit.cluster_bias",
        },
    },
    architectures={"TransfoXLModel": (), "TransfoXLLMHeadModel": ("lm",)},
    keys={
        "vocab": "vocab_size",
        "width": "d_model",
        "layers": "n_layer",
        "heads": "n_head",
        "head_size": "d_head",
        "feedforward": "d_inner",
        "cutoffs": "cutoffs",
        "epsilon": "layer_norm_epsilon",
        "dropout": "dropout",
        "attention_dropout": "dropatt",
        "norm_first": "pre_lnorm",
        "init_std": "init_std",
    },
    defaults={"epsilon": 1e-5, "attention_dropout": 0.0},
    fixed={
        "positions": ("transformer-xl",),
        "mask": "causal",
        "activation": "relu",
        "segments": 0,
        "embedding_scale": True,
        "embedding_norm": False,
        "final_norm": False,
        "attention_bias": False,
        "lm_dense": False,
    },
    read=_read_txl,
    write=_write_txl,
    ignored=(r"pos_emb\.inv_freq", r"crit\.out_layers\.0\.weight", r"crit\.out_projs\..*"),
    signs=("dec_attn.",),
    split=_split_txl,
    merge=_merge_txl,
)
