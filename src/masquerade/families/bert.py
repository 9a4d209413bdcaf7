"""BERT, and the weight names that its relatives share. SpanBERT is BERT with one more head."""

from __future__ import annotations

from typing import Any

from masquerade.families.base import Config, Family, bias_beside
from masquerade.nn.spec import Spec

LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feedforward.inner": "intermediate.dense",
    "feedforward.outer": "output.dense",
    "feedforward_norm": "output.LayerNorm",
}

BODY = {
    "words.table": "embeddings.word_embeddings",
    "embeddings.positions.learned.table": "embeddings.position_embeddings",
    "embeddings.segment": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "pooler": "pooler",
    **{f"stack.layers.{{i}}.{ours}": f"encoder.layer.{{i}}.{theirs}" for ours, theirs in LAYER.items()},
}

TASKS = {  # heads with the same names in every family
    "tag": {"heads.tag": "classifier"},
    "span": {"heads.span": "qa_outputs"},
    "classify": {"heads.classify": "classifier"},
}

HEADS = {
    "lm": {
        "heads.lm.dense": "cls.predictions.transform.dense",
        "heads.lm.norm": "cls.predictions.transform.LayerNorm",
        "heads.lm.bias": "cls.predictions.bias",
        "heads.lm.decoder": "cls.predictions.decoder",
    },
    "pair": {"heads.pair": "cls.seq_relationship"},
    **TASKS,
}

BOUNDARY = {
    "heads.boundary.place": "cls.pair_target_predictions.position_embeddings",
    "heads.boundary.first": "cls.pair_target_predictions.mlp_layer_norm.linear1",
    "heads.boundary.first_norm": "cls.pair_target_predictions.mlp_layer_norm.layer_norm1",
    "heads.boundary.second": "cls.pair_target_predictions.mlp_layer_norm.linear2",
    "heads.boundary.second_norm": "cls.pair_target_predictions.mlp_layer_norm.layer_norm2",
    "heads.boundary.bias": "cls.pair_target_predictions.bias",
}

IGNORED = (
    r"embeddings\.position_ids",
    r"cls\.predictions\.(decoder\.weight|decoder\.bias|bias)",
    r"cls\.pair_target_predictions\.decoder\.weight",
    r"cls\.(dense|LayerNorm)\.(weight|bias)",  # the projection of a RealmEmbedder
)


def architectures(name: str, causal: str = "ForCausalLM") -> dict[str, tuple[str, ...]]:
    """The classes of the reference library for a family like BERT."""
    return {
        f"{name}Model": (),
        f"{name}ForPreTraining": ("lm", "pair"),
        f"{name}ForMaskedLM": ("lm",),
        f"{name}{causal}": ("lm",),
        f"{name}ForNextSentencePrediction": ("pair",),
        f"{name}ForSequenceClassification": ("classify",),
        f"{name}ForTokenClassification": ("tag",),
        f"{name}ForQuestionAnswering": ("span",),
    }


def same_activation(config: Config, usual: str = "gelu") -> dict[str, str]:
    """The language head uses the network's own activation."""
    return {"lm_activation": config.get("hidden_act") or usual}


def _read(config: Config) -> dict[str, Any]:
    """Some small Chinese BERTs (SimBERT-tiny) have ALBERT's narrow embeddings."""
    return {"embedding": config.get("embedding_size"), **same_activation(config)}


def _write(spec: Spec) -> Config:
    return {"embedding_size": spec.embedding} if spec.embedding else {}


BERT = Family(
    name="bert",
    about="every token sees every token; learned positions, norm after each sublayer",
    prefix="bert.",
    body=BODY | {"embeddings.project": "encoder.embedding_hidden_mapping_in"},
    heads=HEADS | {"boundary": BOUNDARY},
    architectures=architectures("Bert", "LMHeadModel"),
    read=_read,
    write=_write,
    ignored=IGNORED,
    **bias_beside("cls.predictions"),
    causal="BertLMHeadModel",
)
