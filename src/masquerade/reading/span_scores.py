"""Scores of every span of a passage, by the heads of a reader.

Up to three heads are used: the vocabulary at the slots (token i of the answer), copying (the token of the passage that
slot i copies) and pointers (the first and the last token of the answer). Each scores all spans, and no answer; the
weighted mean of their scores is searched exactly. With pointers an answer may be longer than the slots; the slots then
give the same score to all of these lengths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade.decoding.spans import ends_at, pointers, span_scores, words_at
from masquerade.layout import PADDING, Layout
from masquerade.nn.model import Model
from masquerade.reading.layouts import ReaderLayout

PARTS = {"words": "lm", "copies": "copy", "pointers": "span"}  # the parts of a score, and their heads


@dataclass(frozen=True)
class ReaderRows:
    """The network's states for questions with their passages, a row each: [CLS] slots [SEP] question [SEP] passage
    [SEP]."""

    states: Tensor  # (rows, n, width)
    layout: Layout  # (rows, n), without branches
    sizes: ReaderLayout

    @property
    def slots(self) -> Tensor:
        """The states of the slots: (rows, slots, width)"""
        return self.states[:, 1 : 1 + self.sizes.slots]

    @property
    def passage(self) -> Tensor:
        """Which tokens are of the passage or its [SEP]: bool (rows, n)"""
        return self.layout.real & (self.layout.position >= self.sizes.start)

    @property
    def begin(self) -> Tensor:
        """The index of each passage's first token: (rows,)"""
        return (self.layout.real & ~self.passage).sum(-1)

    @property
    def close(self) -> Tensor:
        """The index of each passage's [SEP]: (rows,)"""
        return self.layout.real.sum(-1) - 1

    def __getitem__(self, chosen: Tensor) -> ReaderRows:
        """Some of the rows: bool (rows,)"""
        return ReaderRows(self.states[chosen], self.layout.select(chosen), self.sizes)

    def ends(self, model: Model) -> Tensor:
        """Log-probabilities of the first and of the last token; [CLS] stands for no answer: (rows, n, 2)"""
        scores = model.head("span", self.states).float()
        index = torch.arange(self.layout.ids.shape[1], device=scores.device)
        possible = (self.passage & (index != self.close[:, None])) | (index == 0)
        return scores.masked_fill(~possible[..., None], -torch.inf).log_softmax(1)


@dataclass(frozen=True)
class SpanScores:
    """Log-scores of every span and of no answer."""

    spans: Tensor  # (rows, longest passage, longest answer): entry (start, j) is the span of j + 1 tokens from start
    none: Tensor  # (rows,)
    passage: Tensor  # (rows, longest passage), the ids of the passage; below 0 after its end


def score_spans(model: Model, rows: ReaderRows, weights: Mapping[str, float]) -> SpanScores:
    """The weighted mean of the heads' scores; ``weights`` by the names in PARTS. Heads of weight 0 are not run."""
    sizes, begin = rows.sizes, rows.begin
    longest = int((rows.close - begin).max())
    place = begin[:, None] + torch.arange(max(longest, 1), device=begin.device)  # (rows, longest)
    inside = place < rows.close[:, None]
    place = place.clamp(max=rows.layout.ids.shape[1] - 1)
    passage = rows.layout.ids.gather(1, place).masked_fill(~inside, PADDING)
    share = {name: weight / sum(weights.values()) for name, weight in weights.items() if weight}
    words, ends, extra, none = [], [], None, []
    if "words" in share:
        logs = model.head("lm", rows.slots).float().log_softmax(-1)
        words.append(share["words"] * words_at(logs, passage, sizes.sep))
        ends.append(share["words"] * ends_at(logs, sizes.sep))
    if "copies" in share:
        scores = model.copy_scores(rows.slots, rows.states).float()  # (rows, slots, n)
        at = scores.gather(-1, place[:, None].expand(-1, sizes.slots, -1)).masked_fill(~inside[:, None], -torch.inf)
        closing = scores.gather(-1, rows.close[:, None, None].expand(-1, sizes.slots, -1))[..., 0]
        words.append(share["copies"] * at)
        ends.append(share["copies"] * torch.cat([closing, torch.zeros_like(closing[:, :1])], dim=-1))
    if "pointers" in share:
        logs = rows.ends(model)
        first, last = (logs[..., side].gather(1, place).masked_fill(~inside, -torch.inf) for side in (0, 1))
        extra = share["pointers"] * pointers(first, last, sizes.longest_answer)
        none.append(share["pointers"] * logs[:, 0].sum(-1))
    if words:
        none += [end[:, 0] for end in ends]
        end = torch.stack(ends).sum(0)
        if extra is not None:  # all lengths that fill every slot share the slots' score of full slots
            end[:, -1] -= (1 - share["pointers"]) * math.log(sizes.longest_answer - sizes.slots + 1)
        spans = span_scores(torch.stack(words).sum(0), end, extra)
    else:
        assert extra is not None, "one part has a weight"
        spans = extra
    return SpanScores(spans, torch.stack(none).sum(0), passage)
