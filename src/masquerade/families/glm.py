"""GLM, as first published: a GPT with two positions a token, that of the blank and that inside of the blank
(``masks.infill``). Queries, keys and values are stored together."""

from __future__ import annotations

from masquerade.families.base import Config, Family, apart, together

_TOGETHER = "attention.query_key_value", ("attention.query", "attention.key", "attention.value")


def _read(config: Config) -> dict[str, int]:
    return {"longest": config.get("max_sequence_length", 512) + 1, "feedforward": 4 * config["hidden_size"]}


GLM = Family(
    name="glm",
    about="blanks are filled token by token, in any order, after the text",
    prefix="glm.",
    body={
        "words.table": "word_embeddings",
        "embeddings.positions.learned.table": "transformer.position_embeddings",
        "embeddings.positions.inner.table": "transformer.block_position_embeddings",
        "stack.layers.{i}.attention_norm": "transformer.layers.{i}.input_layernorm",
        "stack.layers.{i}.attention": "transformer.layers.{i}.attention",
        "stack.layers.{i}.attention.output": "transformer.layers.{i}.attention.dense",
        "stack.layers.{i}.feedforward_norm": "transformer.layers.{i}.post_attention_layernorm",
        "stack.layers.{i}.feedforward.inner": "transformer.layers.{i}.mlp.dense_h_to_4h",
        "stack.layers.{i}.feedforward.outer": "transformer.layers.{i}.mlp.dense_4h_to_h",
        "stack.norm": "transformer.final_layernorm",
    },
    heads={"lm": {}},
    architectures={"GLMModel": ("lm",), "GLMForConditionalGeneration": ("lm",)},
    keys={
        "vocab": "vocab_size",
        "width": "hidden_size",
        "layers": "num_layers",
        "heads": "num_attention_heads",
        "dropout": "output_dropout_prob",
        "attention_dropout": "attention_dropout_prob",
        "init_std": "initializer_range",
    },
    fixed={
        "positions": ("learned", "inner"),
        "norm_first": True,
        "epsilon": 1e-5,
        "activation": "gelu_new",
        "segments": 0,
        "lm_dense": False,
        "lm_bias": False,
    },
    read=_read,
    write=lambda spec: {"max_sequence_length": spec.longest - 1, "block_position_encoding": True},
    signs=("block_position_embeddings",),
    split=lambda weights: apart(weights, *_TOGETHER),
    merge=lambda weights, _: together(weights, *_TOGETHER),
)
