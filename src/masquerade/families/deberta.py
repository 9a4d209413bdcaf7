"""DeBERTa-v2 and v3: attention scores content and relative position separately; v2-xlarge adds a convolution."""

from __future__ import annotations

from typing import Any

from masquerade.errors import CheckpointError
from masquerade.families.base import KEYS, Config, Family, bias_beside
from masquerade.families.bert import BODY, HEADS, IGNORED, TASKS
from masquerade.nn.spec import Spec


def _read(config: Config) -> dict[str, Any]:
    """What the configuration says of relative positions and of the convolution."""
    if config.get("embedding_size", config.get("hidden_size")) != config.get("hidden_size"):
        raise CheckpointError("DeBERTa with embeddings narrower than its layers is not supported.")
    if config.get("conv_kernel_size") and config.get("conv_groups", 1) != 1:
        raise CheckpointError("DeBERTa with a convolution in groups is not supported.")
    given = config.get("pos_att_type") or ()
    kinds = {kind.strip() for kind in (given.lower().split("|") if isinstance(given, str) else given)}
    relative = config.get("relative_attention", False)
    if not relative and kinds:
        raise CheckpointError("DeBERTa with 'pos_att_type' but without 'relative_attention' is not supported.")
    farthest = config.get("max_relative_positions", -1)
    size = config.get("conv_kernel_size", 0)
    convolution = ("convolution", {"size": size, "activation": config.get("conv_act", "tanh")})
    return {
        "positions": ("learned",) * config.get("position_biased_input", True) + ("disentangled",) * relative,
        "position_scores": tuple(kind for kind in ("c2p", "p2c") if kind in kinds),
        "share_projections": bool(config.get("share_att_key", False)),
        "relative_norm": "layer_norm" in config.get("norm_rel_ebd", "none").lower() if relative else False,
        "buckets": max(config.get("position_buckets", -1), 0),
        "max_distance": farthest if farthest > 0 else config.get("max_position_embeddings", 512),
        "between": {0: convolution, 1: ("add-convolution", {})} if size > 0 else {},
        "lm_activation": config.get("hidden_act") or "gelu",
    }


def _write(spec: Spec) -> Config:
    config: Config = {
        "relative_attention": "disentangled" in spec.positions,
        "position_biased_input": "learned" in spec.positions,
        "pos_att_type": list(spec.position_scores),
        "share_att_key": spec.share_projections,
        "norm_rel_ebd": "layer_norm" if spec.relative_norm else "none",
        "position_buckets": spec.buckets or -1,
        "max_relative_positions": spec.max_distance,
        "legacy": True,  # the names under which the language head is saved
    }
    if spec.between:
        _, options = spec.between[0]
        config |= {"conv_kernel_size": options["size"], "conv_act": options["activation"], "conv_groups": 1}
    return config


DEBERTA = Family(
    name="deberta-v2",
    about="content and relative position scored separately, with positions in buckets",
    prefix="deberta.",
    body={name: theirs for name, theirs in BODY.items() if name != "pooler"}
    | {
        "stack.layers.{i}.attention.query": "encoder.layer.{i}.attention.self.query_proj",
        "stack.layers.{i}.attention.key": "encoder.layer.{i}.attention.self.key_proj",
        "stack.layers.{i}.attention.value": "encoder.layer.{i}.attention.self.value_proj",
        "stack.layers.{i}.attention.relation.query": "encoder.layer.{i}.attention.self.pos_query_proj",
        "stack.layers.{i}.attention.relation.key": "encoder.layer.{i}.attention.self.pos_key_proj",
        "stack.relative.table": "encoder.rel_embeddings",
        "stack.relative.norm": "encoder.LayerNorm",
        "stack.between.0.conv": "encoder.conv.conv",
        "stack.between.1.norm": "encoder.conv.LayerNorm",
    },
    heads={
        "lm": HEADS["lm"],
        **TASKS,
        "classify": {"pooler": "pooler", "heads.classify": "classifier"},  # its pooler stands outside of the body
    },
    architectures={
        "DebertaV2Model": (),
        "DebertaV2ForMaskedLM": ("lm",),
        "DebertaV2ForSequenceClassification": ("classify",),
        "DebertaV2ForTokenClassification": ("tag",),
        "DebertaV2ForQuestionAnswering": ("span",),
    },
    keys=KEYS | {"classifier_activation": "pooler_hidden_act"},
    defaults={"segments": 0, "epsilon": 1e-7, "classifier_activation": "gelu"},
    fixed={"mask": "bidirectional"},
    read=_read,
    write=_write,
    **bias_beside("cls.predictions"),
    ignored=(*IGNORED, r"mask_predictions\..*", r"embeddings\.position_embeddings\.weight"),
    legacy=(  # the names of its own release, which computes the same
        (r"^lm_predictions\.lm_head\.(dense|LayerNorm)\.", r"cls.predictions.transform.\1."),
        (r"^lm_predictions\.lm_head\.bias$", "cls.predictions.bias"),
    ),
    signs=("rel_embeddings", "query_proj"),
)
