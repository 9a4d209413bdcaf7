"""A vector for each part of a passage: a question is about one or two of its clauses, not about all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import normalize

from masquerade.layout import Layout
from masquerade.nn.model import Model
from masquerade.text.tokenizer import Tokenizer

STOPS = '.?!,;:()"–—。！？，；：'  # parts end behind them; ends of sentences alone find less (docs/results.md)


@lru_cache(maxsize=8)
def clause_ends(tokenizer: Tokenizer) -> frozenset[int]:
    """The ids of the tokens that end a clause or a sentence."""
    words = tokenizer.backend.get_vocab().items()
    return frozenset(number for word, number in words if word.strip("▁Ġ#") in (*STOPS,))


def part_ends(ids: Sequence[int], stops: frozenset[int], least: int) -> list[int]:
    """Where the parts of a text end. Each is of at least ``least`` tokens and ends with a clause; a shorter rest
    belongs to the last part."""
    ends = list[int]()
    for place, number in enumerate(ids, start=1):
        if number in stops and place - (ends[-1] if ends else 0) >= least:
            ends.append(place)
    if ends and len(ids) - ends[-1] < least:
        ends[-1] = len(ids)
    return ends if ends and ends[-1] == len(ids) else [*ends, len(ids)]


def part_vectors(model: Model, layout: Layout, ends: Sequence[Sequence[int]], unit: bool) -> Tensor:
    """The mean of the states of each part of texts, one text a row, each state of which has seen the whole text; with
    ``unit`` of length 1: (n, longest) → (parts, width)"""
    states = model.hidden(layout)  # (n, longest, width)
    counts = [[end - start for start, end in pairwise([0, *row])] for row in ends]
    total = sum(map(len, counts))
    owner = torch.full(layout.ids.shape, total)  # of each token the number of its part; padding has one of its own
    first = 0
    for row, own in enumerate(counts):
        numbers = torch.arange(first, first + len(own))
        owner[row, : sum(own)] = numbers.repeat_interleave(torch.tensor(own))
        first += len(own)
    summed = states.new_zeros(total + 1, states.shape[-1])
    summed = summed.index_add(0, owner.flatten().to(states.device), states.flatten(0, 1))[:-1]
    sizes = torch.tensor([count for own in counts for count in own], device=states.device)
    means = summed / sizes[:, None]
    return normalize(means, dim=-1) if unit else means


def best_parts(scores: Tensor, owner: Tensor, count: int) -> Tensor:
    """The scores of texts, each that of its best part. scores: (queries, parts); owner: of each part the number of its
    text, (parts,) → (queries, count)"""
    if len(owner) == count:
        return scores
    best = scores.new_full((len(scores), count), float("-inf"))
    return best.scatter_reduce(1, owner.expand_as(scores), scores, "amax")
