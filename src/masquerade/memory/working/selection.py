"""Long texts for any task model: the blocks that a judge keeps, as one short text with the way back (CogLTX)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np

from masquerade.memory.working.blocks import SIZE, Block, text_blocks
from masquerade.memory.working.judge import Judge
from masquerade.memory.working.recall import TIMES, recall
from masquerade.reading.lexical import LexicalIndex

MOST = 512  # blocks that are judged for a query; of longer texts, those that share most words with it
KEPT = 4  # texts whose blocks are kept from one call to the next
BETWEEN = "\n"  # stands between two pieces that were not neighbours


@dataclass(frozen=True)
class ShortText:
    """The kept blocks of one text or several as one text."""

    blocks: tuple[Block, ...]
    scores: tuple[float, ...]  # of the judge, for all blocks together; empty where everything fits
    pieces: tuple[tuple[int, int, int], ...]  # (number of the text, start, end): neighbouring blocks are one piece
    text: str
    total: int  # blocks of the whole text
    judged: int  # blocks that were judged; fewer than ``total`` if most share no word with the query

    @property
    def whole(self) -> bool:
        """Whether every block was kept."""
        return len(self.blocks) == self.total

    def original(self, start: int, end: int) -> tuple[int, int, int]:
        """The place that a span of this text comes from: the number of the text, start and end there. Of a span over
        two pieces, the part in the first."""
        begins = list(accumulate((last - first + len(BETWEEN) for _, first, last in self.pieces), initial=0))
        index = max(0, bisect_right(begins, start, hi=len(self.pieces)) - 1)
        number, first, last = self.pieces[index]
        shift = first - begins[index]
        return number, start + shift, min(end + shift, last)


class TextBlocks:
    """The blocks of texts, and which of them to judge for a query."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = blocks

    @cached_property
    def lexical(self) -> LexicalIndex:
        """The index of their token ids, made when it is first needed."""
        return LexicalIndex([block.ids for block in self.blocks])

    def best(self, query: Sequence[int], most: int) -> list[int]:
        """The numbers of the ``most`` blocks that share most words with a query's ids; without a query, blocks that are
        spread evenly over the text."""
        if len(self.blocks) <= most:
            return list(range(len(self.blocks)))
        if not query:
            return sorted(set(np.linspace(0, len(self.blocks) - 1, most).round().astype(int).tolist()))
        return self.lexical.best(query, most)


class WorkingMemory:
    """A judge and the sizes of what it selects."""

    def __init__(self, judge: Judge, size: int = SIZE, times: Sequence[int] = TIMES, most: int = MOST) -> None:
        self.judge, self.times, self.most = judge, tuple(times), most
        self.size = min(size, max(1, judge.window // 2 - 4))

    @cached_property
    def blocks(self) -> Callable[[tuple[str, ...]], TextBlocks]:
        """The blocks of texts; those of the last few texts are kept."""

        def cut(texts: tuple[str, ...]) -> TextBlocks:
            each = (text_blocks(self.judge.tokenizer, text, self.size, n) for n, text in enumerate(texts))
            return TextBlocks([block for some in each for block in some])

        return lru_cache(maxsize=KEPT)(cut)

    def select(self, query: str, texts: str | Sequence[str], room: int = 0) -> ShortText:
        """The blocks of texts that belong to a query, which may be empty. ``room`` is the number of tokens that a task
        model has for them; 0: as many as the judge's window has beside the query."""
        given = (texts,) if isinstance(texts, str) else tuple(texts)
        held, asked = self.blocks(given), self.judge.query(query)
        blocks = held.blocks
        window = self.judge.window if not room else min(self.judge.window, room + len(asked))
        window = max(window, len(asked) + max((len(block.ids) + 1 for block in blocks), default=0))
        if len(asked) + sum(len(block.ids) + 1 for block in blocks) <= window:
            return short_text(given, blocks, range(len(blocks)), (), len(blocks))
        numbers = held.best(asked[1:-1], self.most)
        closed = [self.judge.closed(blocks[number].ids) for number in numbers]
        found = recall(self.judge, [asked], closed, window, self.times)
        return short_text(given, blocks, [numbers[each] for each in found.kept], found.scores, len(numbers))


def short_text(
    texts: Sequence[str], blocks: Sequence[Block], kept: Sequence[int], scores: Sequence[float], judged: int
) -> ShortText:
    """Some blocks as one text. Neighbours keep what stands between them."""
    pieces, before = list[tuple[int, int, int]](), -2
    for number in kept:
        block = blocks[number]
        if pieces and number == before + 1 and pieces[-1][0] == block.text:
            pieces[-1] = (block.text, pieces[-1][1], block.end)
        else:
            pieces.append((block.text, block.start, block.end))
        before = number
    joined = BETWEEN.join(texts[number][start:end] for number, start, end in pieces)
    chosen = tuple(blocks[number] for number in kept)
    return ShortText(chosen, tuple(scores), tuple(pieces), joined, len(blocks), judged)
