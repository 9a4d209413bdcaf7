"""Texts with their mentions and blanks as the inputs of a network with a memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade.memory.entity.aliases import Mention
from masquerade.memory.entity.memories import EntityMemory
from masquerade.text.tokenizer import ROLES, Tokenizer

MOST = 16  # candidates of a mention

Span = tuple[int, int]  # first and last token


@dataclass(frozen=True)
class LinkedText:
    """A text's tokens, its mentions and its blanks. Mentions that do not fit into the window are left out."""

    ids: list[int]
    mentions: list[Mention]
    spans: list[Span]  # of the mentions, in tokens
    blanks: list[Span]  # runs of [MASK]

    def inputs(self, memory: str = "memory") -> dict[str, Tensor]:
        """Mentions (m, 2), candidates and priors (m, MOST), and blanks (b, 2), for ``Model.flow``."""
        numbers, priors = candidates(self.mentions)
        return {
            f"{memory}.mentions": torch.tensor(self.spans, dtype=torch.long).view(-1, 2),
            f"{memory}.candidates": torch.tensor(numbers, dtype=torch.long).view(-1, MOST),
            f"{memory}.priors": torch.tensor(priors).view(-1, MOST),
            f"{memory}.blanks": torch.tensor(self.blanks, dtype=torch.long).view(-1, 2),
        }


def candidates(mentions: Sequence[Mention]) -> tuple[list[list[int]], list[list[float]]]:
    """The best MOST candidates of each mention and their priors, −1 and 0 at padding."""
    numbers, priors = [], []
    for mention in mentions:
        best = mention.candidates[:MOST]
        numbers.append([number for number, _ in best] + [-1] * (MOST - len(best)))
        priors.append([prior for _, prior in best] + [0.0] * (MOST - len(best)))
    return numbers, priors


def link(text: str, tokenizer: Tokenizer, memory: EntityMemory, length: int) -> LinkedText:
    """A text of at most ``length`` tokens, with the names that the memory finds in it."""
    own = tokenizer.tokens([tokenizer.special("mask")])[0] if "mask" in tokenizer.specials else ""
    for name in ROLES["mask"]:
        text = text.replace(name, own) if own else text
    return lay_out(text, tokenizer, memory.find(text), length)


def lay_out(text: str, tokenizer: Tokenizer, mentions: Sequence[Mention], length: int) -> LinkedText:
    """A text of at most ``length`` tokens with given mentions. A mention that overlaps a [MASK] is left out."""
    encoding = tokenizer.backend.encode(text, add_special_tokens=True)
    ids, offsets = list(encoding.ids), list(encoding.offsets)
    if len(ids) > length:  # the last special token stays the last
        ids, offsets = [*ids[: length - 1], ids[-1]], [*offsets[: length - 1], offsets[-1]]
    mask = tokenizer.specials.get("mask", -1)
    masked = [number == mask for number in ids]
    kept, spans = [], []
    whole = max((end for _, end in offsets), default=0)
    for mention in mentions:
        inside = [
            index
            for index, (start, end) in enumerate(offsets)
            if start < end and start < mention.end and end > mention.start
        ]
        if inside and mention.end <= whole and not any(masked[index] for index in inside):
            kept.append(mention)
            spans.append((inside[0], inside[-1]))
    return LinkedText(ids, kept, spans, _runs(masked))


def _runs(flags: Sequence[bool]) -> list[Span]:
    """First and last index of each run of true flags."""
    found: list[Span] = []
    for index, flag in enumerate(flags):
        if flag and found and found[-1][1] == index - 1:
            found[-1] = (found[-1][0], index)
        elif flag:
            found.append((index, index))
    return found
