"""Normalisation, by the name a Spec uses."""

from torch import nn

from masquerade.nn.spec import Spec


def norm(spec: Spec, width: int | None = None) -> nn.Module:
    """The spec's normalisation for vectors of ``width`` (if not given, the network's width)."""
    kind = nn.LayerNorm if spec.norm == "layer" else nn.RMSNorm
    return kind(width or spec.width, eps=spec.epsilon)
