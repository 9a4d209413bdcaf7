"""The walk by which the parallel reader was first decoded: greedy, along the n-grams of the passage.

Each slot takes the most probable token among those that, behind the tokens taken so far, stand somewhere in the
passage, or the end. What it takes first it cannot take back, so it may miss the best span, which the search in
``decoding.spans`` never does. It is here to be compared with.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from masquerade.decoding.constraints import END, SpanOf


def walk(log_probs: Tensor, passage: Sequence[int], end: int, least: int = 0) -> tuple[list[int], float]:
    """The tokens of an answer, and their log-probability with that of the end behind them: log-probabilities
    (slots, vocab) and the ids of a passage. With ``least`` the answer has so many tokens at the fewest, if the passage
    goes on for so long; else it may end at once, which says that there is none."""
    spans, ids, total = SpanOf(passage), list[int](), 0.0
    state = spans.start()
    for scores in log_probs:
        following = [token for token in spans.allowed(state, room=1).tolist() if token not in (END, end)]
        allowed = following if following and len(ids) < least else [*following, end]
        taken = allowed[int(scores[torch.tensor(allowed, device=scores.device)].argmax())]
        total += float(scores[taken])
        if taken == end:
            break
        ids.append(taken)
        state = spans.advance(state, taken)
    return ids, total
