"""What the heads of a reader say of every span of a passage.

Three heads may speak: the vocabulary at the slots (which word is word i of the answer?), copying (which place of the
passage does slot i copy?) and pointers (is this the first, the last word of the answer?). Each scores all spans, and
that there is no answer; the weighted mean of these scores is searched exactly. An answer may have more words than there
are slots where pointers speak, who alone know its end; to the slots all of these lengths are alike.
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
from masquerade.reading.layouts import Sheet

PARTS = {"words": "lm", "copies": "copy", "pointers": "span"}  # what speaks, and with which head


@dataclass(frozen=True)
class Rows:
    """Questions with their passages behind them, a row each, as they come out of the network: [CLS] slots [SEP]
    question [SEP] passage [SEP]."""

    states: Tensor  # (rows, n, width)
    layout: Layout  # (rows, n), with no branches left
    sheet: Sheet

    @property
    def slots(self) -> Tensor:
        """The states of the slots: (rows, slots, width)"""
        return self.states[:, 1 : 1 + self.sheet.slots]

    @property
    def passage(self) -> Tensor:
        """Which tokens are of the passage or its [SEP]: bool (rows, n)"""
        return self.layout.real & (self.layout.position >= self.sheet.start)

    @property
    def begin(self) -> Tensor:
        """The place of each passage's first token: (rows,)"""
        return (self.layout.real & ~self.passage).sum(-1)

    @property
    def close(self) -> Tensor:
        """The place of each passage's [SEP]: (rows,)"""
        return self.layout.real.sum(-1) - 1

    def __getitem__(self, chosen: Tensor) -> Rows:
        """Some of the rows, bool (rows,)"""
        return Rows(self.states[chosen], self.layout.select(chosen), self.sheet)

    def ends(self, model: Model) -> Tensor:
        """Which place is the first word, which the last; [CLS] for there being none: log-probabilities (rows, n, 2)"""
        scores = model.head("span", self.states).float()
        place = torch.arange(self.layout.ids.shape[1], device=scores.device)
        possible = (self.passage & (place != self.close[:, None])) | (place == 0)
        return scores.masked_fill(~possible[..., None], -torch.inf).log_softmax(1)


@dataclass(frozen=True)
class Marks:
    """How good every span is, and that there is no answer: log-scores."""

    spans: Tensor  # (rows, longest passage, longest answer): entry (start, j) is the span of j + 1 tokens from start on
    none: Tensor  # (rows,)
    passage: Tensor  # (rows, longest passage), the ids of the passage; below 0 behind its end

    @property
    def shares(self) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the spans and of no answer, one of which is true in each row."""
        whole = torch.cat([self.none[:, None], self.spans.flatten(1)], dim=1).log_softmax(-1)
        return whole[:, 1:].view_as(self.spans), whole[:, 0]


def mark(model: Model, rows: Rows, weights: Mapping[str, float]) -> Marks:
    """The weighted mean of what the heads say; ``weights`` by the names in PARTS, those of weight 0 are not asked."""
    sheet, begin = rows.sheet, rows.begin
    longest = int((rows.close - begin).max())
    place = begin[:, None] + torch.arange(max(longest, 1), device=begin.device)  # (rows, longest)
    inside = place < rows.close[:, None]
    place = place.clamp(max=rows.layout.ids.shape[1] - 1)
    passage = rows.layout.ids.gather(1, place).masked_fill(~inside, PADDING)
    share = {name: weight / sum(weights.values()) for name, weight in weights.items() if weight}
    words, ends, extra, none = [], [], None, []
    if "words" in share:
        logs = model.head("lm", rows.slots).float().log_softmax(-1)
        words.append(share["words"] * words_at(logs, passage, sheet.sep))
        ends.append(share["words"] * ends_at(logs, sheet.sep))
    if "copies" in share:
        scores = model.copy_scores(rows.slots, rows.states).float()  # (rows, slots, n)
        at = scores.gather(-1, place[:, None].expand(-1, sheet.slots, -1)).masked_fill(~inside[:, None], -torch.inf)
        closing = scores.gather(-1, rows.close[:, None, None].expand(-1, sheet.slots, -1))[..., 0]
        words.append(share["copies"] * at)
        ends.append(share["copies"] * torch.cat([closing, torch.zeros_like(closing[:, :1])], dim=-1))
    if "pointers" in share:
        logs = rows.ends(model)
        first, last = (logs[..., side].gather(1, place).masked_fill(~inside, -torch.inf) for side in (0, 1))
        extra = share["pointers"] * pointers(first, last, sheet.longest_answer)
        none.append(share["pointers"] * logs[:, 0].sum(-1))
    if words:
        none += [end[:, 0] for end in ends]
        end = torch.stack(ends).sum(0)
        if extra is not None:  # what slots say of the full ones is shared by all lengths from there on
            end[:, -1] -= (1 - share["pointers"]) * math.log(sheet.longest_answer - sheet.slots + 1)
        spans = span_scores(torch.stack(words).sum(0), end, extra)
    else:
        assert extra is not None, "some part has to have a weight"
        spans = extra
    return Marks(spans, torch.stack(none).sum(0), passage)
