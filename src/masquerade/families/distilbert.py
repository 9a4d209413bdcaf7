"""DistilBERT: half of BERT's layers, taught by BERT; no segments, no pooler."""

from __future__ import annotations

from typing import Any

from masquerade.families.base import KEYS, Config, Family
from masquerade.families.bert import BODY, TASKS

_LAYER = {
    "attention.query": "attention.q_lin",
    "attention.key": "attention.k_lin",
    "attention.value": "attention.v_lin",
    "attention.output": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "feedforward.inner": "ffn.lin1",
    "feedforward.outer": "ffn.lin2",
    "feedforward_norm": "output_layer_norm",
}


def _read(config: Config) -> dict[str, Any]:
    """The language head uses the network's own activation."""
    return {"lm_activation": config.get("activation") or "gelu"}


DISTILBERT = Family(
    name="distilbert",
    about="half of BERT's layers, taught by BERT",
    prefix="distilbert.",
    body={
        **{
            name: theirs
            for name, theirs in BODY.items()
            if name.startswith(("words", "embeddings.positions", "embeddings.norm"))
        },
        **{f"stack.layers.{{i}}.{ours}": f"transformer.layer.{{i}}.{theirs}" for ours, theirs in _LAYER.items()},
    },
    heads={
        "lm": {
            "heads.lm.dense": "vocab_transform",
            "heads.lm.norm": "vocab_layer_norm",
            "heads.lm.bias": "vocab_projector.bias",
            "heads.lm.decoder": "vocab_projector",
        },
        **TASKS,
        "classify": {"heads.classify.0.dense": "pre_classifier", "heads.classify.2": "classifier"},
    },
    architectures={
        "DistilBertModel": (),
        "DistilBertForMaskedLM": ("lm",),
        "DistilBertForSequenceClassification": ("classify",),
        "DistilBertForTokenClassification": ("tag",),
        "DistilBertForQuestionAnswering": ("span",),
    },
    keys={ours: theirs for ours, theirs in KEYS.items() if ours not in ("segments", "epsilon")}
    | {
        "width": "dim",
        "layers": "n_layers",
        "heads": "n_heads",
        "feedforward": "hidden_dim",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
    },
    fixed={"mask": "bidirectional", "segments": 0, "pooled": False, "classifier_activation": "relu"},
    read=_read,
    ignored=(r"embeddings\.position_ids", r"vocab_projector\.weight"),
    signs=("vocab_projector", "sa_layer_norm"),
)
