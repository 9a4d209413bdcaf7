"""MPNet: BERT's stack with a learned bias for each bucket of distance beside its learned positions."""

from __future__ import annotations

from typing import Any

from masquerade.errors import CheckpointError
from masquerade.families.base import KEYS, Config, Family, bias_beside
from masquerade.families.bert import BODY, TASKS
from masquerade.families.roberta import CLASSIFIER, IGNORED, LANGUAGE, positions


def _read(config: Config) -> dict[str, Any]:
    """The first position; the reference counts positions from padding id 1, whatever the configuration says."""
    if config.get("pad_token_id", 1) != 1:
        raise CheckpointError(f"MPNet with a padding id of {config['pad_token_id']} instead of 1 is not supported.")
    return positions(config)


MPNET = Family(
    name="mpnet",
    about="permuted prediction with position compensation; distances in buckets",
    prefix="mpnet.",
    body={name: theirs for name, theirs in BODY.items() if name != "embeddings.segment"}
    | {
        "stack.buckets.table": "encoder.relative_attention_bias",
        "stack.layers.{i}.attention.query": "encoder.layer.{i}.attention.attn.q",
        "stack.layers.{i}.attention.key": "encoder.layer.{i}.attention.attn.k",
        "stack.layers.{i}.attention.value": "encoder.layer.{i}.attention.attn.v",
        "stack.layers.{i}.attention.output": "encoder.layer.{i}.attention.attn.o",
        "stack.layers.{i}.attention_norm": "encoder.layer.{i}.attention.LayerNorm",
    },
    heads={"lm": LANGUAGE, **TASKS, "classify": CLASSIFIER},
    architectures={
        "MPNetModel": (),
        "MPNetForMaskedLM": ("lm",),
        "MPNetForSequenceClassification": ("classify",),
        "MPNetForTokenClassification": ("tag",),
        "MPNetForQuestionAnswering": ("span",),
    },
    keys={ours: theirs for ours, theirs in KEYS.items() if ours != "segments"}
    | {"buckets": "relative_attention_num_buckets"},
    defaults={"pad": 1},
    fixed={
        "mask": "bidirectional",
        "positions": ("learned", "buckets"),
        "max_distance": 128,
        "segments": 0,
        "pooled": False,
        "skip_padding": True,
    },
    read=_read,
    ignored=IGNORED,
    **bias_beside("lm_head"),
    signs=("relative_attention_num_buckets",),
)
