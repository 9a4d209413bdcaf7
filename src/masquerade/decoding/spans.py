"""The best spans of a passage for [MASK] slots, by exhaustive scoring.

Slot i holds token i of the answer, and the slot after its last token holds the end token. The score of a span is

    score(start, length) = Σ_{i < length} words[i, start + i] + ends[length] + extra[start, length]

and all spans are scored at once by cumulative sums along diagonals. ``words`` holds scores of a token at a passage
position (vocabulary, copy head, or both), ``extra`` scores of a whole span (pointers). A span longer than the slots
fills them with its first tokens; only ``extra`` depends on its end.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from masquerade.errors import MasqueradeError


@dataclass(frozen=True)
class SpanChoice:
    """A span of a passage and its score, with all starts of the same tokens in the passage, the best first."""

    start: int
    length: int
    score: float
    places: tuple[int, ...]


def words_at(log_probs: Tensor, passage: Tensor, end: int | None = None) -> Tensor:
    """The log-probability that each slot holds the token at each passage position: log-probabilities (…, slots, vocab)
    and ids (…, n) → (…, slots, n). Ids below 0 and the end token cannot be in a span: −∞."""
    places = passage.clamp(min=0).unsqueeze(-2)
    found = log_probs.gather(-1, places.expand(*log_probs.shape[:-1], -1))
    nowhere = (passage < 0) if end is None else (passage < 0) | (passage == end)
    return found.masked_fill(nowhere.unsqueeze(-2), -torch.inf)


def ends_at(log_probs: Tensor, end: int | None) -> Tensor:
    """The log-probability of the end token at each slot: log-probabilities (…, slots, vocab) → (…, slots + 1). The last
    entry, for a span that fills all slots, is 0; without an end token all others are −∞."""
    last = torch.zeros_like(log_probs[..., :1, 0])
    before = torch.full_like(log_probs[..., 0], -torch.inf) if end is None else log_probs[..., end]
    return torch.cat([before, last], dim=-1)


def pointers(starts: Tensor, ends: Tensor, longest: int) -> Tensor:
    """Start and end scores, each (…, n), summed for every span: (…, n, longest)"""
    lasts = _along(ends.unsqueeze(-2).expand(*ends.shape[:-1], longest, -1))
    return starts.unsqueeze(-1) + lasts


def span_scores(words: Tensor, ends: Tensor, extra: Tensor | None = None) -> Tensor:
    """The score of every span: words (…, slots, n), ends (…, slots + 1), perhaps extra (…, n, longest) → (…, n, slots),
    or (…, n, longest) if there is extra, where longest ≥ slots; entry (start, j) is the span of j + 1 tokens
    from ``start`` on; −∞ where it exceeds the passage."""
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
    """The best spans of a passage, ids (n,), by scores (n, slots), the best first. Equal token sequences at several
    positions are one choice, with the score of the best position."""
    if n_best < 1:
        raise MasqueradeError(f"The best {n_best} spans cannot be listed; give at least one.")
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
    """The choice of a token sequence, with its positions among ``starts``; scores (n, slots)."""
    length = len(text)
    places = [start for start in starts if tuple(ids[start : start + length]) == text]
    if len(places) > 1:
        at = dict(zip(places, scores[places, length - 1].tolist(), strict=True))
        places = sorted((place for place in places if at[place] > -torch.inf), key=lambda place: -at[place])
    return SpanChoice(places[0], length, score, tuple(places))
