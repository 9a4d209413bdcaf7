"""The best spans of a passage for a row of [MASK] slots, found exactly.

Slot i holds word i of the answer, and the slot behind its last word holds the end. So the score of a span is

    score(start, length) = Σ_{i < length} words[i, start + i] + ends[length] + extra[start, length]

and all of them are one table: words along the diagonals, summed up. Whatever scores a word at a passage position (the
vocabulary, a copy head, both) goes into ``words``; whatever scores a span as a whole (pointers) goes into ``extra``. A
span that is longer than the slots fills all of them with its first words, and only ``extra`` knows where it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade.errors import MasqueradeError


@dataclass(frozen=True)
class SpanChoice:
    """A span of a passage and how good it is; with all the places where the same words stand, the best one first."""

    start: int
    length: int
    score: float
    places: tuple[int, ...]


def words_at(log_probs: Tensor, passage: Tensor, end: int | None = None) -> Tensor:
    """How probable each slot holds the word at each place of a passage: log-probabilities (…, slots, vocab) and ids
    (…, n) → (…, slots, n). A place that has no id (below 0) or the end token cannot be in a span: −∞."""
    places = passage.clamp(min=0).unsqueeze(-2)
    found = log_probs.gather(-1, places.expand(*log_probs.shape[:-1], -1))
    nowhere = (passage < 0) if end is None else (passage < 0) | (passage == end)
    return found.masked_fill(nowhere.unsqueeze(-2), -torch.inf)


def ends_at(log_probs: Tensor, end: int | None) -> Tensor:
    """What it costs that a span has ended before each slot: log-probabilities (…, slots, vocab) → (…, slots + 1). A
    span that fills all slots has no slot for its end, and where there is no end token only such spans are whole."""
    last = torch.zeros_like(log_probs[..., :1, 0])
    before = torch.full_like(log_probs[..., 0], -torch.inf) if end is None else log_probs[..., end]
    return torch.cat([before, last], dim=-1)


def pointers(starts: Tensor, ends: Tensor, longest: int) -> Tensor:
    """Scores of a span's first and last word, each (…, n), as what they add to every span: (…, n, longest)"""
    lasts = _along(ends.unsqueeze(-2).expand(*ends.shape[:-1], longest, -1))
    return starts.unsqueeze(-1) + lasts


def span_scores(words: Tensor, ends: Tensor, extra: Tensor | None = None) -> Tensor:
    """The score of every span: words (…, slots, n), ends (…, slots + 1), perhaps extra (…, n, longest) → (…, n, slots),
    or (…, n, longest) if there is extra, with at least as many words as slots; entry (start, j) is the span of j + 1
    words from ``start`` on; −∞ where it runs out of the passage."""
    scores = _along(words).cumsum(-1) + ends[..., 1:].unsqueeze(-2)
    if extra is None:
        return scores
    longer = scores[..., -1:].expand(*scores.shape[:-1], extra.shape[-1] - scores.shape[-1])
    return torch.cat([scores, longer], dim=-1) + extra


def _along(words: Tensor) -> Tensor:
    """The diagonals of (…, slots, n) as rows (…, n, slots): entry (start, i) is that of slot i at place start + i."""
    slots, n = words.shape[-2:]
    places = torch.arange(n, device=words.device)[:, None] + torch.arange(slots, device=words.device)
    rows = words.transpose(-1, -2).gather(-2, places.clamp(max=n - 1).expand(*words.shape[:-2], -1, -1))
    return rows.masked_fill(places >= n, -torch.inf)


def choose_spans(scores: Tensor, passage: Tensor, n_best: int = 1) -> list[SpanChoice]:
    """The best spans of a passage, ids (n,), by their scores (n, slots), the best first. The same words at several
    places are one choice, which has the score of the best of these places."""
    if n_best < 1:
        raise MasqueradeError(f"The best {n_best} spans cannot be listed; ask for at least one.")
    slots, ids, flat = scores.shape[-1], passage.tolist(), scores.flatten()
    possible = int((flat > -torch.inf).sum())
    count, found = min(n_best, possible), dict[tuple[int, ...], float]()
    while count:
        values, spans = flat.topk(count)
        for value, span in zip(values.tolist(), spans.tolist(), strict=True):
            start = span // slots
            found.setdefault(tuple(ids[start : start + span % slots + 1]), value)
        if len(found) >= n_best or count == possible:
            break
        count = min(4 * count, possible)
    where = dict[int, list[int]]()
    for place, word in enumerate(ids):
        where.setdefault(word, []).append(place)
    return [_choice(text, score, where[text[0]], ids, scores) for text, score in list(found.items())[:n_best]]


def _choice(text: tuple[int, ...], score: float, starts: list[int], ids: list[int], scores: Tensor) -> SpanChoice:
    """A span and all places of its words, which can only be at the starts; scores (n, slots)."""
    length = len(text)
    places = [start for start in starts if tuple(ids[start : start + length]) == text]
    if len(places) > 1:
        at = dict(zip(places, scores[places, length - 1].tolist(), strict=True))
        places = sorted((place for place in places if at[place] > -torch.inf), key=lambda place: -at[place])
    return SpanChoice(places[0], length, score, tuple(places))


def best_spans(
    log_probs: Tensor, passage: Tensor | Sequence[int], end: int | None, n_best: int = 1
) -> list[SpanChoice]:
    """The best spans of a passage, ids (n,), by the vocabulary's log-probabilities at the slots, (slots, vocab): the
    greatest Σ log p(word i at slot i) + log p(end at the slot behind them)."""
    ids = torch.as_tensor(passage, dtype=torch.long, device=log_probs.device)
    return best_spans_of(log_probs[None], ids[None], end, n_best)[0]


def best_spans_of(log_probs: Tensor, passages: Tensor, end: int | None, n_best: int = 1) -> list[list[SpanChoice]]:
    """``best_spans`` for a batch: (rows, slots, vocab), and ids (rows, n), below 0 where a passage is shorter."""
    if not passages.shape[-1]:
        raise MasqueradeError("There is no span in an empty passage; give the passage's tokens.")
    scores = span_scores(words_at(log_probs, passages, end), ends_at(log_probs, end))
    return [choose_spans(row, ids, n_best) for row, ids in zip(scores, passages, strict=True)]
