"""The parallel methods, as named plans of masked decoding: all tokens at once, in rounds, in blocks."""

from __future__ import annotations

from masquerade.decoding.masked_decoding import Lengths, Plan


def parallel(lengths: Lengths | None = None, copies: int = 1, both_ways: bool = True) -> Plan:
    """All tokens in one pass, each the most probable one at its position, up to the first end token.

    ``lengths`` is the number of tokens, or several numbers to try in one batch, of which the one with the greatest mean
    log-probability wins; the end token is then given from the start. With ``copies``, the next best texts of the same
    pass are returned as well. Without ``both_ways`` the new tokens see the prompt, but the prompt does not see them.
    """
    return Plan(lengths=lengths, copies=copies, both_ways=both_ways, vary=True)


def mask_predict(rounds: int = 4, lengths: Lengths | None = None, copies: int = 1, both_ways: bool = True) -> Plan:
    """All tokens in one pass; in each further round the least certain ones, fewer each time, are masked and predicted
    again. ``lengths`` are as for ``parallel``; with several of them there can be as many copies."""
    return Plan(rounds, lengths=lengths, copies=copies, both_ways=both_ways, revise=True)


def diffusion(
    rounds: int = 8,
    schedule: str = "linear",
    each: int | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    lengths: Lengths | None = None,
    copies: int = 1,
    both_ways: bool = True,
) -> Plan:
    """Masked diffusion: every round keeps the most certain tokens and predicts the others again.

    The number kept follows the ``schedule``, "linear" or "cosine", or is ``each`` in every round. With a
    ``temperature`` tokens are sampled, and ``copies`` texts with them.
    """
    return Plan(rounds, None, both_ways, False, schedule, each, lengths, temperature, seed, copies)


def blocks(
    size: int = 4,
    rounds: int = 1,
    schedule: str = "linear",
    each: int | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    copies: int = 1,
) -> Plan:
    """Block diffusion: blocks of ``size`` tokens from left to right, each written as by ``diffusion``. A block sees
    only what precedes it, so keys and values are cached. Size 1 is greedy; one block for everything is diffusion."""
    return Plan(rounds, size, True, False, schedule, each, None, temperature, seed, copies)
