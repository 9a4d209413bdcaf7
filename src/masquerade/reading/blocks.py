"""Which blocks of a long text go on into the layers after the fork, for a question that is encoded apart from it.

The fork's ``BlockScorer`` gives every block the log-odds that the answer begins in it. The best blocks of all windows,
with their neighbours, are read; the layers after the fork never see the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from masquerade.nn.blocks import BlockScorer
from masquerade.reading.layouts import Window
from masquerade.reading.memory import EncodedPassage

BLOCKS = 32  # blocks of a text that are read for a question, beside their neighbours


def choose_blocks(
    scorer: BlockScorer,
    question: Tensor,
    windows: Sequence[Window],
    passages: Sequence[EncodedPassage],
    most: int = BLOCKS,
) -> list[tuple[int, ...] | None]:
    """For each window the tokens to read, by their indices: those of the ``most`` best blocks of all windows and of the
    blocks beside them; None for a whole window, () for one that is not read. ``question`` (width,) is its [CLS] state.
    Where there are no more than twice as many blocks, all are read."""
    counts = [-(-len(window.ids) // scorer.block) for window in windows]
    if sum(counts) <= 2 * most:
        return [None] * len(windows)
    first = [0, *accumulate(counts)]
    numbers = [
        start + torch.arange(len(window.ids)) // scorer.block for start, window in zip(first, windows, strict=False)
    ]
    tokens = torch.cat([each.tokens[:-1].float() for each in passages if each.tokens is not None])
    number = torch.cat(numbers).to(tokens.device)
    scores = scorer.score(tokens[None], scorer.question(question)[None], number[None])[0]
    scores[~own_blocks(windows, first, scorer.block).to(scores.device)] = -torch.inf
    kept = [set[int]() for _ in windows]
    for best in scores.topk(most).indices.tolist():
        window = bisect_left(first, best + 1) - 1
        here = best - first[window]
        kept[window].update(near for near in (here - 1, here, here + 1) if 0 <= near < counts[window])
    return [_tokens(sorted(blocks), scorer.block, len(each.ids)) for blocks, each in zip(kept, windows, strict=True)]


def own_blocks(windows: Sequence[Window], first: Sequence[int], block: int) -> Tensor:
    """Which blocks of all windows have a token of their window's own: bool (blocks,). The others are read elsewhere."""
    own = torch.zeros(first[-1], dtype=torch.bool)
    for window, start in zip(windows, first, strict=False):
        begin, end = window.own
        own[start + begin // block : start - (-end // block)] = True
    return own


def _tokens(blocks: Sequence[int], block: int, length: int) -> tuple[int, ...] | None:
    """The indices of the tokens of some blocks of a window; None if these are all tokens."""
    found = tuple(at for each in blocks for at in range(each * block, min((each + 1) * block, length)))
    return None if len(found) == length else found


def unbroken(tokens: Sequence[int], longest: int) -> Tensor:
    """Which spans of the tokens that are read have no gap in the text, by start and length − 1: bool (n, longest)"""
    places = torch.tensor(tokens)
    last = torch.arange(len(places))[:, None] + torch.arange(longest)
    ends = places[last.clamp(max=len(places) - 1)]
    return (last < len(places)) & ((ends - places[:, None]) == torch.arange(longest))


def own_range(tokens: Sequence[int], own: tuple[int, int]) -> tuple[int, int]:
    """A window's own tokens as a range of those that are read."""
    return bisect_left(tokens, own[0]), bisect_left(tokens, own[1])
