"""What the tests of masks share: words, a check against a definition, and one layout of every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from masquerade import masks
from masquerade.layout import IGNORE, Layout, visible

seeded = settings(derandomize=True, deadline=None, max_examples=50)

MASK, PSEUDO, CLS, SEP = 3, 4, 1, 2  # ids of special tokens; words begin at 10
SPECIAL: dict[str, Any] = {"cls": CLS, "sep": SEP, "mask": MASK}  # those that a reader is given

Name = Any  # what a definition calls a token: its index, or its stream and its place there


def words(n: int, first: int = 10) -> list[int]:
    """n ids, all different."""
    return list(range(first, first + n))


def check(layout: Layout, tokens: Sequence[Name], may_see: Callable[[Name, Name], bool], **fields: Any) -> None:
    """The layout has these tokens, sees as the definition says, and its other fields are these lists."""
    assert len(layout) == len(tokens)
    drawn = [[bool(may_see(row, column)) for column in tokens] for row in tokens]
    assert visible(layout).tolist() == drawn
    plain = {"inner": 0, "segment": 0, "task": 0, "document": 0, "label": IGNORE}
    for name, value in plain.items():
        fields.setdefault(name, [value] * len(tokens))
    for name, values in fields.items():
        assert getattr(layout, name).tolist() == values, name


def rows_seen(layout: Layout) -> list[set[int]]:
    """Which tokens each row sees."""
    return [{k for k, seen in enumerate(row) if seen} for row in visible(layout).tolist()]


sizes = st.integers(0, 9)
orders = st.integers(1, 8).flatmap(lambda n: st.permutations(range(n)))


@st.composite
def spans_of(draw: st.DrawFn) -> tuple[int, list[list[int]]]:
    """A sentence length and disjoint spans of it (indices in any order), which need not cover it."""
    n = draw(st.integers(1, 9))
    chosen = draw(st.permutations(range(n)))[: draw(st.integers(0, n))]
    cuts = sorted(draw(st.sets(st.integers(1, max(len(chosen) - 1, 1)), max_size=4)))
    edges = [0, *(cut for cut in cuts if cut < len(chosen)), len(chosen)]
    return n, [list(chosen[a:b]) for a, b in pairwise(edges) if a < b]


GALLERY: dict[str, Layout] = {
    "bidirectional": masks.bidirectional(words(4)),
    "causal": masks.causal(words(4)),
    "backward": masks.backward(words(4)),
    "permuted": masks.permuted(words(4), [2, 0, 3, 1]),
    "prefix": masks.prefix(words(3), words(2, 50)),
    "infill": masks.infill(words(4), [(2, words(2, 50)), (0, words(3, 60))]),
    "two_stream": masks.two_stream(words(4), [2, 0, 3, 1], mask=MASK),
    "compensated": masks.compensated(words(4), [2, 0, 3, 1], known=2, mask=MASK),
    "pseudo": masks.pseudo(words(5), [[3, 1], [4]], mask=MASK),
    "blocks": masks.blocks(words(5), 2, noisy=[MASK] * 5),
    "masked_answer": masks.masked_answer(words(2), words(3), 2, **SPECIAL),
    "shared_passage": masks.shared_passage(words(3), [words(1), words(2)], 1, **SPECIAL),
}
SOME = st.sampled_from(sorted(GALLERY))
each_of_the_gallery = pytest.mark.parametrize("name", list(GALLERY))
