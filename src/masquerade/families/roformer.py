"""RoFormer: BERT with rotary positions: queries and keys are rotated."""

from __future__ import annotations

from typing import Any

from masquerade.errors import CheckpointError
from masquerade.families.base import Config, Family, bias_beside
from masquerade.families.bert import BODY, HEADS, IGNORED, same_activation
from masquerade.families.electra import embedding, embedding_size
from masquerade.families.roberta import CLASSIFIER


def _read(config: Config) -> dict[str, Any]:
    if config.get("rotary_value"):
        raise CheckpointError("RoFormers that turn their values too ('rotary_value') are not supported.")
    activation = same_activation(config)["lm_activation"]
    return {"lm_activation": activation, "classifier_activation": activation, **embedding(config)}


ROFORMER = Family(
    name="roformer",
    about="BERT with rotary positions",
    prefix="roformer.",
    body={name: theirs for name, theirs in BODY.items() if "positions" not in name}
    | {"embeddings.project": "embeddings_project"},
    heads=HEADS | {"classify": CLASSIFIER},
    architectures={
        "RoFormerModel": (),
        "RoFormerForMaskedLM": ("lm",),
        "RoFormerForCausalLM": ("lm",),
        "RoFormerForSequenceClassification": ("classify",),
        "RoFormerForTokenClassification": ("tag",),
        "RoFormerForQuestionAnswering": ("span",),
    },
    fixed={"positions": ("rotary",), "pooled": False},
    read=_read,
    write=embedding_size,
    ignored=(*IGNORED, r"encoder\.embed_positions\.weight"),
    causal="RoFormerForCausalLM",
    **bias_beside("cls.predictions"),
)
