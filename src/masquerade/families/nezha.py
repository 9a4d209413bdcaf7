"""NEZHA: BERT without position embeddings; attention uses clipped distances instead."""

from __future__ import annotations

from masquerade.families.base import KEYS, Family, bias_beside
from masquerade.families.bert import BODY, HEADS, IGNORED, architectures, same_activation

NEZHA = Family(
    name="nezha",
    about="BERT with fixed relative positions in keys and values",
    prefix="nezha.",
    body={name: theirs for name, theirs in BODY.items() if "positions" not in name},
    heads=HEADS,
    architectures=architectures("Nezha"),
    keys=KEYS | {"max_distance": "max_relative_position"},
    fixed={"positions": ("nezha",)},
    defaults={"max_distance": 64},
    read=same_activation,
    **bias_beside("cls.predictions"),
    ignored=(*IGNORED, r"encoder\.layer\.\d+\.attention\.self\.relative_positions_encoding\..*"),
    signs=("max_relative_position", "nezha."),
    legacy=((r"^bert\.", "nezha."),),
)
