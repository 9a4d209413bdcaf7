"""Texts and objectives that the tests of encoder–decoders share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from masquerade.data.examples import Example
from masquerade.data.rng import rng_for
from masquerade.layout import IGNORE, Layout
from masquerade.objectives.bart import (
    Denoise,
    delete_tokens,
    infill_text,
    mask_tokens,
    permute_sentences,
    rotate,
)
from masquerade.objectives.base import Objective
from masquerade.objectives.grouping import (
    MaskedNgrams,
)
from masquerade.objectives.mass import Mass
from masquerade.objectives.palm import Palm
from masquerade.objectives.pegasus import STRATEGIES, GapSentences
from masquerade.objectives.salient import Salient
from masquerade.objectives.t5 import SpanCorruption
from masquerade.text.vocabulary import Vocabulary

# ids 0 … 4 are special, 5 and 6 end sentences, 7 … 46 are sentinels (the last of them the gap), words come behind
PAD, UNK, CLS, SEP, MASK = range(5)
ENDS, SENTINELS, WORDS = frozenset({5, 6}), list(range(7, 47)), 50
GAP = SENTINELS[-1]
TERMS = Vocabulary(size=600, mask=MASK, cls=CLS, sep=SEP, specials=frozenset({PAD, UNK, CLS, SEP, MASK, *SENTINELS}))
LONG = [CLS, *range(WORDS, WORDS + 400), SEP]


def text(words: int, every: int = 0) -> list[int]:
    """[CLS] words [SEP], all words different, with an end after every so many of them."""
    inner: list[int] = []
    for number in range(words):
        inner.append(WORDS + number)
        if every and number % every == every - 1:
            inner.append(5)
    return [CLS, *inner, SEP]


SHORT, TALE = text(24), text(24, every=4)
HOLED = [CLS, 50, 51, UNK, 52, 53, 54, 55, UNK, 56, 57, 58, 59, 60, 61, SEP]  # with special tokens inside
MIXED = (partial(permute_sentences, ends=ENDS), infill_text)

PAIRS: dict[str, Objective] = {
    "mass": Mass(TERMS),
    "t5": SpanCorruption(TERMS, SENTINELS),
    "bart masks": Denoise(TERMS, (mask_tokens,)),
    "bart deletes": Denoise(TERMS, (delete_tokens,)),
    "bart infills": Denoise(TERMS, (infill_text,)),
    "bart permutes": Denoise(TERMS, (partial(permute_sentences, ends=ENDS),)),
    "bart rotates": Denoise(TERMS, (rotate,)),
    "bart": Denoise(TERMS, MIXED),
    "palm": Palm(TERMS),
    **{f"pegasus {strategy}": GapSentences(TERMS, ENDS, GAP, strategy) for strategy in STRATEGIES},
}
ALONE: dict[str, Objective] = {
    "palm, first stage": Palm(TERMS, stage=1),
    "salient": Salient(TERMS, lambda ids: [[3, 4, 5], [9]] if len(ids) > 9 else []),
    "salient, nothing found": Salient(TERMS, lambda ids: []),
    "n-grams": MaskedNgrams(TERMS),
}
EVERY = PAIRS | ALONE


def read(example: Example) -> list[int]:
    """What the encoder reads."""
    layout = example.layout if example.source is None else example.source
    return [int(number) for number in layout.ids]


def source_of(example: Example) -> list[int]:
    assert example.source is not None
    return read(example)


def labels_of(layout: Layout) -> list[int]:
    return [int(number) for number in layout.label if number != IGNORE]


def samples(objective: Objective, ids: Sequence[int], count: int) -> list[Example]:
    return [objective(ids, rng_for(7, number)) for number in range(count)]


def same(one: Layout | None, other: Layout | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)
