"""Our own format, for any Spec that no published family describes: the Spec itself, and our own weight names."""

from __future__ import annotations

from dataclasses import fields

from masquerade.families.base import Family
from masquerade.nn.spec import HEADS, Spec

OWN = Family(
    name="masquerade",
    about="any spec of your own",
    prefix="",
    body={
        name: name
        for name in (
            "words",
            "embeddings",
            "stack.layers.{i}",
            "stack",
            "decoder.stack.layers.{i}",
            "decoder",
            "pooler",
        )
    },
    heads={name: {f"heads.{name}": f"heads.{name}"} for name in HEADS},
    architectures={},
    keys={field.name: field.name for field in fields(Spec) if field.name != "family"},
)
