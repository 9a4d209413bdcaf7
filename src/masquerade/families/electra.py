"""ELECTRA: a small generator fills masks, a discriminator finds replaced tokens. Two heads on BERT."""

from __future__ import annotations

from masquerade.families.base import Config, Family
from masquerade.families.bert import BODY, TASKS
from masquerade.families.roberta import CLASSIFIER
from masquerade.nn.spec import Spec


def embedding(config: Config) -> dict[str, int | None]:
    """Embeddings are projected only if they are narrower or wider than the network."""
    width = config.get("hidden_size", 256)
    narrow = config.get("embedding_size") or width
    return {"embedding": None if narrow == width else narrow}


def embedding_size(spec: Spec) -> Config:
    """The configuration key of their width."""
    return {"embedding_size": spec.embedding or spec.width}


ELECTRA = Family(
    name="electra",
    about="a generator proposes words, a discriminator finds the replaced ones",
    prefix="electra.",
    body=BODY | {"embeddings.project": "embeddings_project"},
    heads={
        "lm": {
            "heads.lm.dense": "generator_predictions.dense",
            "heads.lm.norm": "generator_predictions.LayerNorm",
            "heads.lm.bias": "generator_lm_head.bias",
            "heads.lm.decoder": "generator_lm_head",
        },
        "detect": {
            "heads.detect.0": "discriminator_predictions.dense",
            "heads.detect.2": "discriminator_predictions.dense_prediction",
        },
        **TASKS,
        "classify": CLASSIFIER,
    },
    architectures={
        "ElectraModel": (),
        "ElectraForPreTraining": ("detect",),
        "ElectraForMaskedLM": ("lm",),
        "ElectraForCausalLM": ("lm",),
        "ElectraForSequenceClassification": ("classify",),
        "ElectraForTokenClassification": ("tag",),
        "ElectraForQuestionAnswering": ("span",),
    },
    fixed={"pooled": False, "classifier_activation": "gelu"},
    read=embedding,
    write=embedding_size,
    ignored=(r"embeddings\.position_ids", r"generator_lm_head\.weight", r"generator(_predictions)?\..*"),
    legacy=((r"discriminator_predictions\.dense_1\.", "discriminator_predictions.dense_prediction."),),
    signs=("discriminator_predictions", "generator_predictions", "electra."),
    causal="ElectraForCausalLM",
)
