"""SpanBERT: spans are masked, and predicted from their own positions and from the two tokens around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from masquerade.data.examples import Example, PerExample, TokenIndex
from masquerade.data.packing import Batch
from masquerade.data.rng import Rng
from masquerade.layout import IGNORE
from masquerade.masks import bidirectional
from masquerade.nn.heads import Boundary
from masquerade.nn.model import Model
from masquerade.objectives.base import Objective
from masquerade.objectives.loss import StatesAt, Term, TokenTerm, at_indices
from masquerade.objectives.masked import Units
from masquerade.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class BoundaryTerm(Term):
    """Cross-entropy of the tokens of spans, predicted from the tokens just left and right of their span and their
    place in it."""

    def count(self, example: Example) -> int:
        return example.count("boundary_label")

    def tokens(self, batch: Batch) -> Tensor | None:
        return at_indices(batch, "boundary_left", "boundary_right")

    def sum(self, model: Model, states: StatesAt, batch: Batch) -> Tensor:
        left, right = (states.row[batch.extra[f"boundary_{side}"]] for side in ("left", "right"))
        scores = model.boundary_scores(states.states[None], left, right, batch.extra["boundary_place"])
        return F.cross_entropy(scores.float(), batch.extra["boundary_label"], reduction="sum")


def place(units: list[list[int]], length: int, taken: list[bool], rng: Rng, *, inside: bool = False) -> list[list[int]]:
    """A random free run of ``length`` neighbouring units; a shorter one if there is no room, empty if there is none.

    At least one token stays free between two runs, and no special token is inside a run. With ``inside`` a run also
    has a token on either side, so none is at the edge of the piece.
    """
    for count in range(min(length, len(units)), 0, -1):
        for first in rng.permutation(len(units) - count + 1).tolist():
            run = units[first : first + count]
            left, right = run[0][0] - 1, run[-1][-1] + 1
            whole = right - left - 1 == sum(map(len, run))
            room = left >= 0 and right < len(taken) if inside else True
            if whole and room and not any(taken[max(left, 0) : right + 1]):
                return run
    return []


@dataclass(frozen=True)
class MaskedSpans(Objective):
    """Masks spans until a share of the tokens is masked, and predicts them.

    A span begins anywhere and has a geometric number of words, at most ``longest``; the mean is 3.8. All tokens of a
    span are shown the same way ([MASK], random tokens, or unchanged). The last span ends where the share is reached.

    ``units`` are the words that a span is counted in: whole words (``vocabulary.words``) if not given.
    The extra fields ``boundary_left``, ``boundary_right``, ``boundary_place`` and ``boundary_label`` have one entry for
    each masked token, in reading order, for ``BoundaryTerm``.
    """

    vocabulary: Vocabulary
    rate: float = 0.15
    stop: float = 0.2  # the probability that a span ends after each of its words
    longest: int = 10
    units: Units | None = None

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        shown, label, rows = list(ids), [IGNORE] * len(ids), []
        for span in self._spans(ids, rng):
            draw = rng.random()
            for inner, index in enumerate(span):
                label[index] = ids[index]
                if draw < 0.8:
                    shown[index] = self.vocabulary.mask
                elif draw < 0.9:
                    shown[index] = self.vocabulary.draw(rng)
                rows.append((span[0] - 1, span[-1] + 1, min(inner, Boundary.PLACES - 1), ids[index]))
        if not rows:
            return Example(bidirectional(shown))
        left, right, place, token = zip(*rows, strict=True)
        boundary = {
            "boundary_left": TokenIndex(left),
            "boundary_right": TokenIndex(right),
            "boundary_place": PerExample(place),
            "boundary_label": PerExample(token),
        }
        return Example(bidirectional(shown).replace(label=label), extra=boundary)

    def terms(self) -> dict[str, Term]:
        return {"tokens": TokenTerm(), "boundaries": BoundaryTerm()}

    def _spans(self, ids: Sequence[int], rng: Rng) -> list[list[int]]:
        """The indices of each masked span, in reading order."""
        units = (self.units or self.vocabulary.words)(ids)
        budget = max(1, round(self.rate * len(self.vocabulary.maskable(ids))))
        taken, spans = [False] * len(ids), []
        while (left := budget - sum(taken)) > 0:
            span: list[int] = []
            for unit in place(units, self._length(rng), taken, rng, inside=True):
                span += unit if len(span) < left else []
            if not span:
                break
            for index in span:
                taken[index] = True
            spans.append(span)
        return sorted(spans)

    def _length(self, rng: Rng) -> int:
        """A geometric number from 1 to ``longest``; as published, the distribution is truncated, not clipped."""
        go = 1 - self.stop
        drawn = math.log(1 - rng.random() * (1 - go**self.longest)) / math.log(go)
        return min(1 + int(drawn), self.longest)
