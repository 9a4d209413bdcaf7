"""What every objective is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from masquerade.data.examples import Example
from masquerade.data.rng import Rng


class Objective(Protocol):
    """Makes an example of a piece's ids. The same ids and the same state of the generator give the same example."""

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example: ...
