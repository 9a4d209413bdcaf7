"""ALBERT: narrow embeddings widened by a matrix, and one set of layer weights used for all layers."""

from __future__ import annotations

from masquerade.families.base import KEYS, Family, bias_beside
from masquerade.families.bert import BODY, TASKS, same_activation

_SHARED = "encoder.albert_layer_groups.{g}.albert_layers.{j}"

ALBERT = Family(
    name="albert",
    about="factorised embeddings, shared layers, sentence order instead of next sentence",
    prefix="albert.",
    body={name: theirs for name, theirs in BODY.items() if not name.startswith("stack.")}
    | {
        "embeddings.project": "encoder.embedding_hidden_mapping_in",
        "pooler.dense": "pooler",
        "stack.layers.{i}.attention.query": f"{_SHARED}.attention.query",
        "stack.layers.{i}.attention.key": f"{_SHARED}.attention.key",
        "stack.layers.{i}.attention.value": f"{_SHARED}.attention.value",
        "stack.layers.{i}.attention.output": f"{_SHARED}.attention.dense",
        "stack.layers.{i}.attention_norm": f"{_SHARED}.attention.LayerNorm",
        "stack.layers.{i}.feedforward.inner": f"{_SHARED}.ffn",
        "stack.layers.{i}.feedforward.outer": f"{_SHARED}.ffn_output",
        "stack.layers.{i}.feedforward_norm": f"{_SHARED}.full_layer_layer_norm",
    },
    heads={
        "lm": {
            "heads.lm.dense": "predictions.dense",
            "heads.lm.norm": "predictions.LayerNorm",
            "heads.lm.bias": "predictions.bias",
            "heads.lm.decoder": "predictions.decoder",
        },
        "pair": {"heads.pair": "sop_classifier.classifier"},
        **TASKS,
    },
    architectures={
        "AlbertModel": (),
        "AlbertForPreTraining": ("lm", "pair"),
        "AlbertForMaskedLM": ("lm",),
        "AlbertForSequenceClassification": ("classify",),
        "AlbertForTokenClassification": ("tag",),
        "AlbertForQuestionAnswering": ("span",),
    },
    keys=KEYS | {"embedding": "embedding_size", "groups": "num_hidden_groups", "group_size": "inner_group_num"},
    defaults={"activation": "gelu_new", "groups": 1, "dropout": 0.0, "attention_dropout": 0.0, "embedding": 128},
    fixed={"mask": "bidirectional"},
    read=lambda config: same_activation(config, usual="gelu_new"),
    **bias_beside("predictions"),
    ignored=(r"embeddings\.position_ids", r"predictions\.(decoder\.weight|decoder\.bias|bias)"),
    signs=("albert_layer_groups", "encoder.transformer.group_0"),
    legacy=(  # the names of the original TensorFlow release
        (r"^bert\.", "albert."),
        (r"^cls\.predictions\.transform\.", "predictions."),
        (r"^cls\.predictions\.", "predictions."),
        (r"^cls\.seq_relationship\.", "sop_classifier.classifier."),
        (r"pooler\.dense\.", "pooler."),
        (r"transformer\.group_(\d+)\.inner_group_(\d+)\.", r"albert_layer_groups.\1.albert_layers.\2."),
        (r"attention_1\.self\.", "attention."),
        (r"attention_1\.output\.dense\.", "attention.dense."),
        (r"(albert_layers\.\d+)\.LayerNorm\.", r"\1.attention.LayerNorm."),
        (r"(albert_layers\.\d+)\.LayerNorm_1\.", r"\1.full_layer_layer_norm."),
        (r"ffn_1\.intermediate\.dense\.", "ffn."),
        (r"ffn_1\.intermediate\.output\.dense\.", "ffn_output."),
    ),
)
