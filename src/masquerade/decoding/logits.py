"""Processors that change the scores of the next token, and sampling."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from masquerade.decoding.canvas import NO_TOKEN
from masquerade.errors import MasqueradeError

Processor = Callable[[Tensor, Tensor], Tensor]  # scores (rows, vocab), tokens so far (rows, n) → scores (rows, vocab)


def repetition(penalty: float) -> Processor:
    """A processor that makes tokens of the history less likely: positive scores are divided by the penalty, negative
    ones multiplied. A penalty below 1 makes them more likely."""
    if not penalty > 0:
        raise MasqueradeError(f"A repetition penalty of {penalty} has no meaning; give a number above 0 (1 is none).")

    def process(scores: Tensor, history: Tensor) -> Tensor:
        seen = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
        rows, places = (history != NO_TOKEN).nonzero(as_tuple=True)
        seen[rows, history[rows, places]] = True
        return torch.where(seen, torch.where(scores < 0, scores * penalty, scores / penalty), scores)

    return process


def no_repeat(n: int) -> Processor:
    """A processor that forbids n-grams of ``n`` tokens that have occurred."""
    if n < 1:
        raise MasqueradeError(f"Repeated runs of {n} tokens cannot be forbidden; the shortest run is one token.")

    def process(scores: Tensor, history: Tensor) -> Tensor:
        if history.shape[1] < n:
            return scores
        runs = history.unfold(1, n, 1)  # (rows, runs, n): all n-grams of the history
        now = history[:, history.shape[1] - n + 1 :]  # (rows, n − 1): the beginning of the next n-gram
        again = (runs[:, :, :-1] == now[:, None]).all(-1) & (runs != NO_TOKEN).all(-1)
        rows, places = again.nonzero(as_tuple=True)
        scores = scores.clone()
        scores[rows, runs[rows, places, -1]] = -torch.inf
        return scores

    return process


def forced(token: int, length: int) -> Processor:
    """A processor that forces this token, with score 0, after ``length`` tokens, as BART ends truncated texts."""

    def process(scores: Tensor, history: Tensor) -> Tensor:
        if history.shape[1] != length:
            return scores
        only = torch.full_like(scores, -torch.inf)
        only[:, token] = 0
        return only

    return process


def temperature(value: float) -> Processor:
    """A processor that divides scores: values below 1 sharpen the distribution, above 1 flatten it."""
    if not value > 0:
        raise MasqueradeError(
            f"A temperature of {value} cannot be sampled at; give one above 0, or use the method greedy."
        )
    return lambda scores, _: scores / value


def top_k(k: int) -> Processor:
    """A processor that keeps the ``k`` best tokens, and those that tie with the last of them."""
    if k < 1:
        raise MasqueradeError(f"No token can be sampled from the best {k}; give at least 1.")

    def process(scores: Tensor, _: Tensor) -> Tensor:
        worst = scores.topk(min(k, scores.shape[-1])).values[:, -1:]
        return scores.masked_fill(scores < worst, -torch.inf)

    return process


def top_p(p: float) -> Processor:
    """A processor that keeps the best tokens up to a cumulative probability of ``p``; at least one."""
    if not 0 < p <= 1:
        raise MasqueradeError(f"The best tokens cannot have a probability of {p} together; give top_p in (0, 1].")

    def process(scores: Tensor, _: Tensor) -> Tensor:
        values, order = scores.sort(dim=-1)
        out = values.softmax(-1).cumsum(-1) <= 1 - p
        out[:, -1] = False
        return scores.masked_fill(torch.zeros_like(out).scatter(1, order, out), -torch.inf)

    return process


def any_seed(seed: int | None) -> int:
    """The seed, or a random one where none is given."""
    return int(torch.randint(2**31 - 1, ())) if seed is None else seed


def rng_for_text(seed: int, prompt: Sequence[int], copy: int) -> torch.Generator:
    """The generator of one text. It depends only on the seed, the prompt and the number of the copy, so a prompt gives
    the same texts alone and in any batch."""
    mixed = hashlib.sha256(json.dumps([seed, copy, list(prompt)]).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(mixed[:7], "little"))


def draw(scores: Tensor, rngs: Sequence[torch.Generator]) -> Tensor:
    """One sampled token a row, each row with its own generator: (rows, vocab) → (rows,)"""
    shares = scores.double().softmax(-1).cumsum(-1)
    places = torch.cat([torch.rand(1, generator=rng, dtype=torch.float64) for rng in rngs])
    reached = torch.searchsorted(shares, places.to(shares.device)[:, None] * shares[:, -1:], right=True)
    return reached[:, 0].clamp(max=scores.shape[-1] - 1)
