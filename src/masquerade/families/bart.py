"""BART: the Transformer as it was first published, trained to undo noise; and PEGASUS, the same with the norm first
and fixed positions, trained to write missing sentences."""

from __future__ import annotations

from typing import Any

from masquerade.families.base import Config, Family, Weights
from masquerade.nn.spec import Spec


def _stack(stack: str, ours: str) -> dict[str, str]:
    layer, theirs = f"{ours}stack.layers.{{i}}", f"{stack}.layers.{{i}}"
    names = {
        f"{ours}embeddings.positions.learned.table": f"{stack}.embed_positions",
        f"{ours}embeddings.norm": f"{stack}.layernorm_embedding",
        f"{ours}stack.norm": f"{stack}.layer_norm",
        f"{layer}.attention_norm": f"{theirs}.self_attn_layer_norm",
        f"{layer}.cross_norm": f"{theirs}.encoder_attn_layer_norm",
        f"{layer}.feedforward.inner": f"{theirs}.fc1",
        f"{layer}.feedforward.outer": f"{theirs}.fc2",
        f"{layer}.feedforward_norm": f"{theirs}.final_layer_norm",
    }
    for part, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "out")):
        names[f"{layer}.attention.{part}"] = f"{theirs}.self_attn.{letter}_proj"
        names[f"{layer}.cross.{part}"] = f"{theirs}.encoder_attn.{letter}_proj"
    return names


BODY = {"words.table": "shared"} | _stack("encoder", "") | _stack("decoder", "decoder.")
LANGUAGE = {"heads.lm.bias": "final_logits_bias", "heads.lm.decoder": "lm_head"}
KEYS = {
    "vocab": "vocab_size",
    "width": "d_model",
    "layers": "encoder_layers",
    "heads": "encoder_attention_heads",
    "feedforward": "encoder_ffn_dim",
    "activation": "activation_function",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "init_std": "init_std",
    "embedding_scale": "scale_embedding",
    "pad": "pad_token_id",
}
DECODER = {"layers": "decoder_layers", "heads": "decoder_attention_heads", "feedforward": "decoder_ffn_dim"}
FIXED = {"mask": "bidirectional", "segments": 0, "lm_dense": False, "epsilon": 1e-5}
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
IGNORED = (r"(encoder|decoder)\.(embed_tokens\.weight|version)", r"lm_head\.weight")


def decoder(config: Config) -> dict[str, Any]:
    """The decoder may be of another size than the encoder."""
    return {ours: config[theirs] for ours, theirs in DECODER.items()}


def decoder_keys(spec: Spec) -> Config:
    """The decoder's size, for the configuration."""
    second = spec.decoder or spec
    sizes = {theirs: getattr(second, ours) for ours, theirs in DECODER.items()}
    return sizes | {"is_encoder_decoder": True, "tie_word_embeddings": spec.tied}


def flat_bias(weights: Weights) -> Weights:
    """The output bias as a vector; they store it as a row."""
    if "final_logits_bias" in weights:
        weights["final_logits_bias"] = weights["final_logits_bias"].flatten()
    return weights


def row_bias(weights: Weights, spec: Spec) -> Weights:
    """The inverse of ``flat_bias``. Where the output table is not tied, the reference reads all three tables of token
    embeddings from the file."""
    if not spec.tied:
        table = next(name for name in weights if name.endswith("shared.weight"))
        weights |= {table.replace("shared.weight", copy): weights[table] for copy in COPIES}
    if "final_logits_bias" in weights:
        weights["final_logits_bias"] = weights["final_logits_bias"][None]
    return weights


BART = Family(
    name="bart",
    about="an encoder reads noisy text, a decoder writes it clean",
    prefix="model.",
    body=BODY,
    heads={"lm": LANGUAGE},
    architectures={"BartModel": (), "BartForConditionalGeneration": ("lm",)},
    keys=KEYS,
    defaults={"pad": 1, "attention_dropout": 0.0},
    fixed=FIXED | {"position_offset": 2},
    read=lambda config: {"longest": config.get("max_position_embeddings", 1024) + 2},
    write=lambda spec: decoder_keys(spec) | {"max_position_embeddings": spec.longest - 2},
    decoder=decoder,
    ignored=IGNORED,
    copies=COPIES,
    split=flat_bias,
    merge=row_bias,
)

PEGASUS = Family(
    name="pegasus",
    about="an encoder reads a text without its main sentences, a decoder writes them",
    prefix="model.",
    body=BODY,
    heads={"lm": LANGUAGE},
    architectures={"PegasusModel": (), "PegasusForConditionalGeneration": ("lm",)},
    keys=KEYS | {"longest": "max_position_embeddings"},
    defaults={"pad": 0, "attention_dropout": 0.0},
    fixed=FIXED | {"positions": ("halves",), "norm_first": True},
    write=decoder_keys,
    decoder=decoder,
    ignored=(*IGNORED, r"(encoder|decoder)\.embed_positions\.weight"),
    copies=COPIES,
    split=flat_bias,
    merge=row_bias,
)
