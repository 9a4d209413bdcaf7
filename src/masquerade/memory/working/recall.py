"""MemRecall: which blocks of a text go into the window of a task model, by the scores of a judge (CogLTX)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from masquerade.errors import MasqueradeError

Ids = Sequence[int]
TokenJudge = Callable[[Sequence[Sequence[Ids]]], list[Tensor]]  # windows, as lists of blocks → token probabilities (n,)

TIMES = (3, 5)  # blocks that stay after each round but the last, which fills the window


@dataclass(frozen=True)
class Round:
    """One round of MemRecall, for people to look at."""

    competition: tuple[float, ...]  # the score of every block beside what was in memory
    chosen: tuple[int, ...]  # the blocks that filled the window
    rehearsal: tuple[float, ...]  # … and their scores together
    kept: tuple[int, ...]  # the blocks that stayed


@dataclass(frozen=True)
class RecalledBlocks:
    """The blocks in memory, in the order of the text, with their last scores together."""

    kept: tuple[int, ...]
    scores: tuple[float, ...]
    length: int  # tokens, with the query
    rounds: tuple[Round, ...] = field(default=(), compare=False)


def windows_of(query: Sequence[Ids], blocks: Sequence[Ids], window: int) -> list[list[int]]:
    """The numbers of the blocks in each window: as many as fit behind the query, in the order of the text. A block that
    does not fit alone gets a window of its own, which is too long."""
    room = window - sum(map(len, query))
    found, left = list[list[int]](), 0
    for number, block in enumerate(blocks):
        if not found or len(block) > left:
            found.append([])
            left = room
        found[-1].append(number)
        left -= len(block)
    return found


def block_means(scores: Tensor, blocks: Sequence[Ids]) -> list[float]:
    """The mean of each block's token scores, (n,) → one number a block."""
    return [float(part.mean()) for part in torch.split(scores, [len(block) for block in blocks])]


def compete(judge: TokenJudge, memory: Sequence[Ids], blocks: Sequence[Ids], window: int) -> list[float]:
    """The retrieval competition: the score of each block, judged in windows behind what is in memory."""
    numbers = windows_of(memory, blocks, window)
    packed = [[*memory, *(blocks[number] for number in some)] for some in numbers]
    means = [block_means(scores, each)[len(memory) :] for scores, each in zip(judge(packed), packed, strict=True)]
    return [score for some in means for score in some]


def fill(scores: Sequence[float], lengths: Sequence[int], held: Sequence[int], room: int) -> list[int]:
    """The blocks held and the best others, in the order of the text: best first, until the first that does not fit into
    ``room`` tokens."""
    chosen = list(held)
    room -= sum(lengths[number] for number in chosen)
    for number in sorted(range(len(scores)), key=lambda number: -scores[number]):
        if number in held:
            continue
        if lengths[number] > room:
            break
        chosen.append(number)
        room -= lengths[number]
    return sorted(chosen)


def recall(
    judge: TokenJudge,
    query: Sequence[Ids],
    blocks: Sequence[Ids],
    window: int,
    times: Sequence[int] = TIMES,
) -> RecalledBlocks:
    """The blocks that belong into a window of ``window`` tokens with a query. Query and blocks are ids that end with
    their separators. A round judges all blocks behind those in memory, fills the window with the best, judges the
    window as a whole, and keeps ``times[round]`` more than before; the last round keeps the full window."""
    room = window - sum(map(len, query))
    if room < 1 or any(len(block) > room for block in blocks):
        longest = max(map(len, blocks), default=1)
        raise MasqueradeError(
            f"A window of {window} tokens has no room for a query of {window - room} tokens and a block of {longest}; "
            "shorten the query or the blocks."
        )
    if not times or min(times) < 1:
        raise MasqueradeError("MemRecall needs at least one round, and each keeps at least 1 block.")
    held, scores, rounds = list[int](), list[float](), list[Round]()
    lengths = [len(block) for block in blocks]
    for number, more in enumerate(times):
        before = len(held)
        memory = _merged(query, blocks, held)
        competition = compete(judge, memory, blocks, max(window, _least(memory, lengths)))
        chosen = fill(competition, lengths, held, room)
        together = _merged(query, blocks, chosen)
        scores = block_means(judge([together])[0], together)[len(query) :] if chosen else []
        held = chosen
        last = number + 1 == len(times) or len(chosen) <= before + more
        if not last:
            best = sorted(range(len(chosen)), key=lambda place: -scores[place])[: before + more]
            held = [chosen[place] for place in sorted(best)]
        rounds.append(Round(tuple(competition), tuple(chosen), tuple(scores), tuple(held)))
        if last:
            break
    size = window - room + sum(lengths[number] for number in held)
    return RecalledBlocks(tuple(held), tuple(scores), size, tuple(rounds))


def _merged(query: Sequence[Ids], blocks: Sequence[Ids], held: Sequence[int]) -> list[Ids]:
    return [*query, *(blocks[number] for number in held)]


def _least(memory: Sequence[Ids], lengths: Sequence[int]) -> int:
    """The tokens of the smallest window that has room for any block behind what is in memory."""
    return sum(map(len, memory)) + max(lengths, default=0)
