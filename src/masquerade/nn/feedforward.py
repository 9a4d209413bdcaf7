"""The feed-forward half of a layer."""

from torch import Tensor, nn

from masquerade.nn.activations import ACTIVATIONS
from masquerade.nn.spec import Spec


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, for each token alone; with ``gated``, a third map multiplies
    the activations."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.inner = nn.Linear(spec.width, spec.feedforward, bias=spec.feedforward_bias)
        self.gate = nn.Linear(spec.width, spec.feedforward, bias=spec.feedforward_bias) if spec.gated else None
        self.outer = nn.Linear(spec.feedforward, spec.width, bias=spec.feedforward_bias)
        self.activation = ACTIVATIONS[spec.activation]

    def forward(self, x: Tensor) -> Tensor:
        """(…, width) → (…, width)"""
        inside = self.activation(self.inner(x))
        out: Tensor = self.outer(inside if self.gate is None else inside * self.gate(x))
        return out
