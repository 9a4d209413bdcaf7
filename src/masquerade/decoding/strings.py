"""The best strings for slots that are filled together, with or without a constraint.

A string is a list of ids, one for each slot from the first on. If it is shorter than the slots, its last id is the end
token, and the slots after it do not count.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

import torch
from torch import Tensor

from masquerade.decoding.constraints import Constraint, SpanOf, State
from masquerade.decoding.loop import DecodingTask
from masquerade.decoding.spans import choose_spans, ends_at, span_scores, words_at


def best_strings(
    task: DecodingTask, constraint: Constraint, state: State, table: Tensor, room: int, n: int
) -> list[list[int]]:
    """The ``n`` best strings that a constraint allows after a state, by the sum of their scores in the table, (slots,
    vocab); fewer if it allows fewer. ``room`` is the number of tokens that may still be written, in these slots and
    after them: a string that fills all slots may continue there."""
    if isinstance(constraint, SpanOf) and task.end is not None:
        return _spans(constraint, state, table, task.end, n)
    return _walk(task, constraint, state, table, room, n)


def _spans(constraint: SpanOf, state: State, table: Tensor, end: int, n: int) -> list[list[int]]:
    """Spans of the passage, or continuations of the spans of the state."""
    passage = torch.tensor(constraint.passage, device=table.device)
    scores = span_scores(words_at(table, passage, end), ends_at(table, end))
    if state:
        places = torch.arange(len(passage), device=table.device)
        begun = torch.isin(places, torch.tensor(state, device=table.device))
        scores = scores.masked_fill(~begun[:, None], -torch.inf)
    found = [
        (choice.score, constraint.passage[choice.start : choice.start + choice.length])
        for choice in choose_spans(scores, passage, n)
    ]
    if state and table[0, end] > -torch.inf:
        found.append((float(table[0, end]), []))
    found.sort(key=lambda each: -each[0])
    return [ids if len(ids) == len(table) else [*ids, end] for _, ids in found[:n]]


def _walk(
    task: DecodingTask, constraint: Constraint, state: State, table: Tensor, room: int, n: int
) -> list[list[int]]:
    """Best-first search. An unfinished string is ranked by its score plus the greatest scores of its remaining slots,
    so the first finished string taken from the queue is the best."""
    best = table.amax(-1).clamp(min=0)
    hope = [*best.flip(0).cumsum(0).flip(0).tolist(), 0.0]  # the most that slots i and following can add
    order, found = count(), list[list[int]]()
    waiting: list[tuple[float, int, float, list[int], State]] = [(-hope[0], next(order), 0.0, [], state)]
    while waiting and len(found) < n:
        _, _, score, ids, now = heappop(waiting)
        if len(ids) == len(table) or ids[-1:] == [task.end]:
            found.append(ids)
            continue
        allowed = task.allowed(constraint, now, room - len(ids)).to(table.device)
        for token, value in zip(allowed.tolist(), table[len(ids), allowed].tolist(), strict=True):
            if value == -torch.inf:
                continue
            ended, total = token == task.end, score + value
            after = now if ended else constraint.advance(now, token)
            hoped = 0.0 if ended else hope[len(ids) + 1]
            heappush(waiting, (-total - hoped, next(order), total, [*ids, token], after))
    return found


def variations(table: Tensor, end: int | None, n: int) -> list[list[int]]:
    """The best string by a table (slots, vocab), each slot's best id up to the first end token, and the ``n`` − 1 that
    differ from it at the least cost; slots after an end token count with their best score."""
    scores, ids = table.new_zeros(1), torch.zeros(1, 0, dtype=torch.long, device=table.device)
    over = torch.zeros(1, dtype=torch.bool, device=table.device)
    for slot in table:
        values, tokens = slot.topk(min(n, len(slot)))
        gains = values.expand(len(scores), -1).clone()
        gains[over, 1:] = -torch.inf  # a finished string has one continuation
        flat = (scores[:, None] + gains).flatten()
        scores, chosen = flat.topk(min(n, int((flat > -torch.inf).sum())))
        rows, token = chosen // len(values), tokens[chosen % len(values)]
        if end is not None:
            token = token.masked_fill(over[rows], end)
            over = over[rows] | (token == end)
        else:
            over = over[rows]
        ids = torch.cat([ids[rows], token[:, None]], dim=1)
    return [row[: row.index(end) + 1] if end in row else row for row in ids.tolist()]
