"""Networks of working memory on the layers of a pretrained encoder or reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from masquerade.nn.model import Model
from masquerade.objectives.networks import savable


def on_encoder(
    model: Model,
    outputs: tuple[str, ...],
    parts: Mapping[int, tuple[str, Mapping[str, Any]]] | None = None,
    **fields: Any,
) -> Model:
    """A network with the layers of another, fresh heads and further parts between the layers. Of a reader, the layers
    are used and its fork is left out. ``fields`` change other fields of the Spec, such as the number of layers."""
    last = fields.get("layers", model.spec.layers)
    kept = {layer: part for layer, part in model.spec.between.items() if part[0] != "fork" and layer <= last}
    spec = replace(model.spec, between={**kept, **(parts or {})}, outputs=outputs, spare=(), pooler=False, **fields)
    made, known = Model(spec, model.tokenizer), model.state_dict()
    fresh = made.state_dict()
    made.load_state_dict(
        {
            name: known[name] if name in known and known[name].shape == fresh[name].shape else fresh[name]
            for name in fresh
        }
    )
    made.spec = savable(made.spec)
    return made.to(model.device)
