"""An example: what a network reads and what it predicts."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from masquerade.layout import Layout


@dataclass(frozen=True)
class Example:
    """What a network is to read and predict. Labels of words are in the layout; an encoder–decoder also has a source;
    some objectives predict more than words."""

    layout: Layout  # an encoder–decoder's target
    source: Layout | None = None
    verdict: int | float | None = None  # what is said of the whole: 1 of a pair that does not belong together, a class
    spans: Tensor | None = None  # (m, 3): for each labelled word of a span, the tokens left and right of it, its place
    answers: Tensor | None = None  # (branches, 2): the span of the trunk, start and length, that answers each branch
    weight: float | Tensor = 1.0  # what the loss of its labels counts: one number, or one a token, (n,)
    count: int | None = None  # what the loss is divided by; None: the number of labels
