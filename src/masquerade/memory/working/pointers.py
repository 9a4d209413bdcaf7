"""The spans that system 1 of CogQA takes from its four pointers, and the loss of the pointers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

POINTERS = ("hop start", "hop end", "answer start", "answer end")  # the columns of the logits
HOPS, ANSWERS = 3, 1  # spans at most
LONGEST = 10  # tokens of a span
NONE = 0.1  # the target of [CLS], as a start, where there is no span


@dataclass(frozen=True)
class TokenSpan:
    """A span of tokens, the last included, and the number of its sentence."""

    start: int
    end: int
    sentence: int
    score: float = 0.0  # how much its start's logit exceeds that of [CLS]


@dataclass(frozen=True)
class Pointed:
    """The spans of a paragraph, best first; and how much the best start of an answer lacks, 0 if there is an answer."""

    hops: tuple[TokenSpan, ...] = ()
    answers: tuple[TokenSpan, ...] = ()
    gap: float = 0.0
    margin: float = 0.0  # how much the best start, of a hop or an answer, exceeds [CLS]; below 0: none does


def point(logits: Tensor, begin: int, ends: Sequence[int], allow: float = 0.0, slack: float = 0.0) -> Pointed:
    """The spans of a paragraph whose first token is ``begin`` and whose sentences' [SEP]s are at ``ends``: logits
    (n, 4), in the order of POINTERS. ``allow`` is taken off the threshold of answers, ``slack`` off that of hops.
    Nothing without a paragraph."""
    if not ends:
        return Pointed()
    logits = logits.detach().float()
    hops, lack = _spans(logits[:, 0], logits[:, 1], begin, ends, HOPS, slack)
    answers, gap = _spans(logits[:, 2], logits[:, 3], begin, ends, ANSWERS, allow)
    return Pointed(tuple(hops), tuple(answers), gap if not answers else 0.0, -min(lack, gap))


def _spans(
    first: Tensor, last: Tensor, begin: int, ends: Sequence[int], most: int, allow: float
) -> tuple[list[TokenSpan], float]:
    """The ``most`` best spans above the threshold; and the logit of [CLS] less that of the best start."""
    places = [at for start, end in pairwise([begin - 1, *ends]) for at in range(start + 1, end)]
    if not places:
        return [], 0.0
    starts = first[places]
    none, found = float(first[0]), list[TokenSpan]()
    for rank in starts.argsort(descending=True, stable=True)[:most].tolist():
        at = places[rank]
        if float(first[at]) <= none - allow:
            break
        sentence = next(number for number, end in enumerate(ends) if at < end)
        stop = min(at + LONGEST, ends[sentence])
        found.append(TokenSpan(at, at + int(last[at:stop].argmax()), sentence, float(first[at]) - none))
    return found, none - float(starts.max())


def pointer_targets(count: int, spans: Sequence[tuple[int, int]], none: float = NONE) -> tuple[Tensor, Tensor]:
    """The targets of starts and ends, (count,) each: 1 at every start and end; ``none`` at [CLS] as a start without
    any."""
    start, end = torch.zeros(count), torch.zeros(count)
    for first, last in spans:
        start[first], end[last] = 1.0, 1.0
    if not spans:
        start[0] = none
    return start, end


def pointer_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """The loss of each pointer of each sequence, −Σ target · log softmax: logits and targets (rows, n, 4) → (rows, 4).
    Logits of what is no token are −inf and have the target 0."""
    logs = logits.float().log_softmax(1)
    return -(targets * logs.masked_fill(targets == 0, 0.0)).sum(1)
