"""Pieces, objectives and questions about layouts that the tests of objectives share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from masquerade import Layout
from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.layout import FIELDS, IGNORE
from masquerade.objectives.diffusion import BlockDiffusion, MaskedDiffusion
from masquerade.objectives.electra import ReplacedTokens
from masquerade.objectives.glm import LongBlank, ShortBlanks
from masquerade.objectives.masked import MaskedTokens
from masquerade.objectives.pairs import NextSentence, SentenceOrder
from masquerade.objectives.permutation import MaskedPermutedTokens, PermutedTokens
from masquerade.objectives.span import MaskedSpans
from masquerade.objectives.unilm import UnifiedMasks
from masquerade.text.vocabulary import Vocabulary

PAD, UNK, CLS, SEP, MASK = range(5)
TERMS = Vocabulary(60, MASK, CLS, SEP, frozenset(range(5)), frozenset(range(50, 60)))
WORDS = dataclasses.replace(TERMS, continues=frozenset())  # the same, every token a word
Make = Callable[[Sequence[int], Rng], Example]


def piece(n: int, seed: int = 0) -> list[int]:
    """[CLS], n ordinary tokens (some of them continuing words), [SEP]."""
    return [CLS, *np.random.default_rng(seed).integers(5, 60, n).tolist(), SEP]


def paired(objective: NextSentence | SentenceOrder) -> Make:
    """A pair objective called with one piece: its two halves are the texts."""

    def make(ids: Sequence[int], rng: Rng) -> Example:
        words = [number for number in ids if number not in (CLS, SEP)]
        return objective.joined(words[: len(words) // 2], words[len(words) // 2 :], int(rng.integers(2)), rng)

    return make


CLOZE: dict[str, Make] = {  # one row a token of the piece, in place
    "words": MaskedTokens(TERMS),
    "whole words": MaskedTokens(TERMS, units=TERMS.words),
    "span": MaskedSpans(TERMS),
    "electra": ReplacedTokens(TERMS),
    "diffusion": MaskedDiffusion(TERMS),
}
MAKERS: dict[str, Make] = CLOZE | {
    "next sentence": paired(NextSentence(TERMS, frozenset())),
    "sentence order": paired(SentenceOrder(TERMS, frozenset(), MaskedSpans(TERMS))),
    "xlnet": PermutedTokens(TERMS),
    "mpnet": MaskedPermutedTokens(TERMS),
    "mpnet, noisy": MaskedPermutedTokens(TERMS, rate=0.4, units=TERMS.words, noisy=True),
    "unilm": UnifiedMasks(TERMS),
    "glm": ShortBlanks(TERMS),
    "glm, long": LongBlank(TERMS),
    "block 1": BlockDiffusion(TERMS, size=1),
    "block 4": BlockDiffusion(TERMS),
    "block any": BlockDiffusion(TERMS, size=None),
}


def labelled(layout: Layout) -> list[int]:
    """The rows that predict a word."""
    return (layout.label != IGNORE).nonzero().squeeze(-1).tolist()


def restored(layout: Layout) -> list[int]:
    """The tokens with every label in its place."""
    return torch.where(layout.label == IGNORE, layout.ids, layout.label).tolist()


def same(one: Any, two: Any) -> bool:
    if isinstance(one, Layout):
        return all(torch.equal(getattr(one, name), getattr(two, name)) for name in FIELDS)
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(torch.equal(one[name].tensor, two[name].tensor) for name in one)
    return torch.equal(one, two) if isinstance(one, Tensor) else bool(one == two)


def fates(layout: Layout, rows: Sequence[int]) -> list[str]:
    """How each of the labelled rows is shown."""
    shown, label = layout.ids.tolist(), layout.label.tolist()
    return ["mask" if shown[r] == MASK else "kept" if shown[r] == label[r] else "drawn" for r in rows]


def assert_shares(values: Sequence[Any], expected: dict[Any, float], within: float = 0.03) -> None:
    for value, share in expected.items():
        assert sum(v == value for v in values) / len(values) == pytest.approx(share, abs=within), value
