"""RoBERTa: BERT without sentence pairs; positions begin after the padding id, and heads have other names."""

from __future__ import annotations

from dataclasses import replace

from masquerade.families.base import Config, Family, bias_beside
from masquerade.families.bert import BODY, TASKS

CLASSIFIER = {"heads.classify.0.dense": "classifier.dense", "heads.classify.2": "classifier.out_proj"}

LANGUAGE = {
    "heads.lm.dense": "lm_head.dense",
    "heads.lm.norm": "lm_head.layer_norm",
    "heads.lm.bias": "lm_head.bias",
    "heads.lm.decoder": "lm_head.decoder",
}

IGNORED = (r"embeddings\.position_ids", r"lm_head\.(decoder\.weight|decoder\.bias|bias)")


def positions(config: Config) -> dict[str, int]:
    """Position 0 has the row after the padding id."""
    return {"position_offset": config.get("pad_token_id", 1) + 1}


ROBERTA = Family(
    name="roberta",
    about="BERT without sentence pairs, under dynamic masks",
    prefix="roberta.",
    body=BODY,
    heads={"lm": LANGUAGE, **TASKS, "classify": CLASSIFIER},
    architectures={
        "RobertaModel": (),
        "RobertaForMaskedLM": ("lm",),
        "RobertaForCausalLM": ("lm",),
        "RobertaForSequenceClassification": ("classify",),
        "RobertaForTokenClassification": ("tag",),
        "RobertaForQuestionAnswering": ("span",),
    },
    defaults={"pad": 1},
    fixed={"pooled": False, "skip_padding": True},
    read=positions,
    ignored=IGNORED,
    **bias_beside("lm_head"),
    causal="RobertaForCausalLM",
)

XLM_ROBERTA = replace(
    ROBERTA,
    name="xlm-roberta",
    about="RoBERTa for a hundred languages",
    architectures={f"XLM{name}": outputs for name, outputs in ROBERTA.architectures.items()},
    causal="XLMRobertaForCausalLM",
)
