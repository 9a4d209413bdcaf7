"""The first Chinese ALBERTs, in their own older form: only the words are factorised (positions and segments are as
wide as the network), one layer is shared, and the language head goes back through the same two matrices."""

from __future__ import annotations

from masquerade.families.base import KEYS, Family, bias_beside
from masquerade.families.bert import BODY, HEADS, IGNORED, LAYER, same_activation

_LM = {name: theirs for name, theirs in HEADS["lm"].items() if name != "heads.lm.decoder"}  # no table of its own

ALBERT_ZH = Family(
    name="albert_zh",
    about="ALBERT in its older Chinese form: factorised words, one shared layer",
    prefix="bert.",
    body=BODY
    | {"words.project": "embeddings.word_embeddings_2"}
    | {f"stack.layers.{{i}}.{ours}": f"encoder.layer_shared.{theirs}" for ours, theirs in LAYER.items()},
    heads=HEADS | {"lm": _LM},
    architectures={
        "AlbertZhModel": (),
        "AlbertZhForPreTraining": ("lm", "pair"),
        "AlbertZhForMaskedLM": ("lm",),
        "AlbertZhForSequenceClassification": ("classify",),
        "AlbertZhForTokenClassification": ("tag",),
        "AlbertZhForQuestionAnswering": ("span",),
    },
    keys=KEYS | {"embedding": "embedding_size"},
    defaults={"dropout": 0.0, "attention_dropout": 0.0},
    fixed={"project_words": True, "groups": 1},
    read=same_activation,
    **bias_beside("cls.predictions"),
    ignored=(*IGNORED, r"cls\.predictions\.project_layer\.weight"),
    signs=("word_embeddings_2",),
)
