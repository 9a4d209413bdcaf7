"""The network that an objective trains: a Spec of the published family where the family can describe it, so that the
saved model loads in other libraries."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from masquerade.errors import CheckpointError, SpecError
from masquerade.families import FAMILIES
from masquerade.families.base import Family
from masquerade.nn.spec import Spec

logger = logging.getLogger(__name__)

OWN = "masquerade"  # the family of any spec that no published family can describe
_ENCODER_DECODER = {"segments": 0, "lm_dense": False, "epsilon": 1e-5}  # unless the family says otherwise


def fresh_spec(family: str, needed: Mapping[str, Any], given: Mapping[str, Any], decoder: bool = False) -> Spec:
    """A spec in a family, or in our own format if the family cannot describe it. ``needed`` are the fields that the
    objective needs and ``given`` those of the recipe. ``decoder`` asks for an encoder–decoder with equal stacks."""
    plain = {**needed, **given}
    if family != OWN:
        try:
            spec = _built(FAMILIES[family], plain, decoder)
            FAMILIES[family].config(spec)
            return spec
        except (SpecError, CheckpointError) as error:
            logger.info("The model is saved in our own format: %s", error)
    return _built(FAMILIES[OWN], plain, decoder)


def savable(spec: Spec) -> Spec:
    """The spec, in our own format if its family cannot describe it."""
    try:
        FAMILIES[spec.family].config(spec)
    except SpecError:
        return replace(spec, family=OWN)
    return spec


def _built(family: Family, given: Mapping[str, Any], decoder: bool) -> Spec:
    """The spec of a family with the given fields; what the family fixes or derives from them is filled in."""
    fields = {"longest": 512, **given}
    if "head_size" in family.keys and family.architectures and "width" in fields:
        fields.setdefault("head_size", fields["width"] // fields.get("heads", Spec.heads))
    if "pad" not in family.keys:
        fields.pop("pad", None)
    config = {theirs: fields[ours] for ours, theirs in family.keys.items() if ours in fields}
    details = {**(_ENCODER_DECODER if decoder else {}), **family.defaults, **family.read(config), **family.fixed}
    if details.get("position_offset"):  # the table has rows that no token uses
        fields["longest"] += details["position_offset"]
    elif "longest" not in family.keys and "learned" not in details.get("positions", ("learned",)):
        del fields["longest"]  # any length can be read
    values = {"family": family.name, **details, **fields}
    if decoder:
        values["decoder"] = Spec.of(values | {"cross": True, "mask": "causal", "outputs": (), "spare": ()})
    return Spec.of(values)
