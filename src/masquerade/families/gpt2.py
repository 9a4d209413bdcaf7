"""GPT-2: causal, norm before each sublayer. Its matrices are transposed, and queries, keys and values are stored
together."""

from __future__ import annotations

import re

from masquerade.errors import CheckpointError
from masquerade.families.base import Config, Family, Weights, apart, together

_TURNED = re.compile(r"\.(attn\.(c_proj|[qkv])|mlp\.(c_fc|c_proj))\.weight$")
_TOGETHER = "attn.c_attn", ("attn.q", "attn.k", "attn.v"), -1


def _turn(weights: Weights) -> Weights:
    return {name: tensor.T.contiguous() if _TURNED.search(name) else tensor for name, tensor in weights.items()}


def _read(config: Config) -> dict[str, object]:
    if config.get("scale_attn_by_inverse_layer_idx") or not config.get("scale_attn_weights", True):
        raise CheckpointError("GPT-2s that scale their attention in another way are not supported.")
    return {"feedforward": config.get("n_inner") or 4 * config["n_embd"]}


GPT2 = Family(
    name="gpt2",
    about="every token sees itself and the tokens before it",
    prefix="transformer.",
    body={
        "words.table": "wte",
        "embeddings.positions.learned.table": "wpe",
        "stack.layers.{i}.attention_norm": "h.{i}.ln_1",
        "stack.layers.{i}.attention.query": "h.{i}.attn.q",
        "stack.layers.{i}.attention.key": "h.{i}.attn.k",
        "stack.layers.{i}.attention.value": "h.{i}.attn.v",
        "stack.layers.{i}.attention.output": "h.{i}.attn.c_proj",
        "stack.layers.{i}.feedforward_norm": "h.{i}.ln_2",
        "stack.layers.{i}.feedforward.inner": "h.{i}.mlp.c_fc",
        "stack.layers.{i}.feedforward.outer": "h.{i}.mlp.c_proj",
        "stack.norm": "ln_f",
    },
    heads={
        "lm": {"heads.lm.decoder": "lm_head"},
        "tag": {"heads.tag": "classifier"},
        "span": {"heads.span": "qa_outputs"},
    },
    architectures={
        "GPT2Model": (),
        "GPT2LMHeadModel": ("lm",),
        "GPT2ForTokenClassification": ("tag",),
        "GPT2ForQuestionAnswering": ("span",),
    },
    keys={
        "vocab": "vocab_size",
        "width": "n_embd",
        "layers": "n_layer",
        "heads": "n_head",
        "feedforward": "n_inner",
        "longest": "n_positions",
        "activation": "activation_function",
        "epsilon": "layer_norm_epsilon",
        "dropout": "resid_pdrop",
        "attention_dropout": "attn_pdrop",
        "init_std": "initializer_range",
    },
    defaults={"activation": "gelu_new", "epsilon": 1e-5, "longest": 1024},
    fixed={"norm_first": True, "segments": 0, "mask": "causal", "lm_dense": False, "lm_bias": False},
    read=_read,
    write=lambda spec: {"tie_word_embeddings": spec.tied},
    ignored=(r"lm_head\.weight", r"h\.\d+\.attn\.(bias|masked_bias)"),
    split=lambda weights: _turn(apart(weights, *_TOGETHER)),
    merge=lambda weights, _: together(_turn(weights), *_TOGETHER),
)
