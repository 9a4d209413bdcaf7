"""Question and passage as one sequence, laid out as a family lays out its pairs, and the span logits of such pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade import kernels
from masquerade.errors import MasqueradeError
from masquerade.masks import Ids
from masquerade.nn.model import Model
from masquerade.nn.padded import padded_layout
from masquerade.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class PairTemplate:
    """The special tokens before a question, between question and passage, and after the passage, with the segments
    of all five: [CLS] question [SEP] passage [SEP] in BERT, <s> question </s></s> passage </s> in RoBERTa."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    segments: tuple[tuple[int, ...], int, tuple[int, ...], int, tuple[int, ...]]

    @staticmethod
    def of(tokenizer: Tokenizer) -> PairTemplate:
        """The template of a tokenizer, as its own encoding of a pair shows it."""
        made = tokenizer.backend.encode("a", "a")
        belongs = list(made.sequence_ids)
        if 0 not in belongs or 1 not in belongs or belongs[0] is not None:
            raise MasqueradeError("This tokenizer puts no special token before a pair, so no answer can be none.")
        first, second = belongs.index(0), belongs.index(1)
        middle, last = len(belongs) - belongs[::-1].index(0), len(belongs) - belongs[::-1].index(1)
        ids, types = tuple(made.ids), tuple(made.type_ids)
        segments = types[:first], types[first], types[middle:second], types[second], types[last:]
        return PairTemplate(ids[:first], ids[middle:second], ids[last:], segments)

    @property
    def size(self) -> int:
        """The number of special tokens."""
        return len(self.before) + len(self.between) + len(self.after)

    def join(self, question: Ids, passage: Ids) -> tuple[list[int], list[int], int]:
        """The ids of a pair, their segments, and the index of the passage's first token."""
        ids = [*self.before, *map(int, question), *self.between]
        first, asked, middle, read, last = self.segments
        segments = [*first, *[asked] * len(question), *middle, *[read] * len(passage), *last]
        return [*ids, *map(int, passage), *self.after], segments, len(ids)


@torch.inference_mode()
def pair_logits(model: Model, template: PairTemplate, pairs: Sequence[tuple[Ids, Ids]]) -> list[tuple[Tensor, Tensor]]:
    """The start and end logits of pairs, each (1 + n,): of the first token, which stands for no answer, and of the n
    tokens of the passage. Pairs of like length go through the network together."""
    joined = [template.join(question, passage) for question, passage in pairs]
    order = sorted(range(len(joined)), key=lambda index: len(joined[index][0]))
    found: dict[int, tuple[Tensor, Tensor]] = {}
    while order:
        rows = max(1, kernels.batch_tokens(model.device) // len(joined[order[-1]][0]))
        batch, order = order[-rows:], order[:-rows]  # the longest first: if memory runs out, then at once
        start, end = _logits(model, [joined[index] for index in batch])
        for row, index in enumerate(batch):
            first, n = joined[index][2], len(pairs[index][1])
            at = [0, *range(first, first + n)]
            found[index] = start[row, at], end[row, at]
    return [found[index] for index in range(len(joined))]


def _logits(model: Model, rows: Sequence[tuple[list[int], list[int], int]]) -> tuple[Tensor, Tensor]:
    """The start and end logits of padded rows, each (rows, longest)."""
    longest, spec = max(len(ids) for ids, _, _ in rows), model.spec
    ids = torch.tensor([[*ids, *[spec.pad] * (longest - len(ids))] for ids, _, _ in rows], device=model.device)
    segment = torch.tensor([[*each, *[0] * (longest - len(each))] for _, each, _ in rows], device=model.device)
    lengths = torch.tensor([len(ids) for ids, _, _ in rows], device=model.device)
    mask = torch.arange(longest, device=model.device) < lengths.unsqueeze(-1)
    fields = {"segment": segment} if spec.segments > 1 else {}
    states = model.hidden(padded_layout(spec, ids, mask.long(), **fields))
    start, end = model.head("span", states).float().cpu().unbind(-1)
    return start, end
