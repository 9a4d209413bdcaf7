"""The feed-forward half of a layer."""

from torch import Tensor, nn

from masquerade.nn.activations import ACTIVATIONS
from masquerade.nn.spec import Spec


class FeedForward(nn.Module):
    """Each token by itself: out to the feed-forward width, through the activation, and back."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.inner = nn.Linear(spec.width, spec.feedforward)
        self.outer = nn.Linear(spec.feedforward, spec.width)
        self.activation = ACTIVATIONS[spec.activation]

    def forward(self, x: Tensor) -> Tensor:
        """(…, width) → (…, width)"""
        out: Tensor = self.outer(self.activation(self.inner(x)))
        return out
