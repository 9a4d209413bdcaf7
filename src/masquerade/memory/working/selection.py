"""Long texts for any task model: the blocks that a judge keeps, as one short text with the way back (CogLTX)."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from masquerade.memory.working.blocks import SIZE, TextBlock, block_groups, each_block
from masquerade.memory.working.judge import Judge
from masquerade.memory.working.recall import TIMES, recall
from masquerade.reading.lexical import K1, B

MOST = 512  # blocks that are judged for a query; of longer texts, those that share most words with it
KEPT = 4  # texts whose blocks are kept from one call to the next
BETWEEN = "\n"  # stands between two pieces that were not neighbours


@dataclass(frozen=True)
class ShortText:
    """The kept blocks of one text or several as one text."""

    blocks: tuple[TextBlock, ...]
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


class TextBlocks(Sequence[TextBlock]):
    """The blocks of texts in flat arrays, 4 bytes a token and 20 a block; and which of them to judge for a query."""

    def __init__(self, blocks: Iterable[TextBlock]) -> None:
        ids, rows = array("i"), array("i")
        for block in blocks:
            ids.extend(block.ids)
            rows.extend((len(ids), block.start, block.end, block.text))
        self.ids = np.array(ids, dtype=np.int32)  # (tokens,), of all blocks
        self.rows = np.array(rows, dtype=np.int32).reshape(-1, 4)  # (blocks, 4): the end of its ids, and its place
        self.lengths = np.diff(self.rows[:, 0], prepend=0)  # (blocks,), in tokens

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> TextBlock: ...

    @overload
    def __getitem__(self, index: slice) -> list[TextBlock]: ...

    def __getitem__(self, index: int | slice) -> TextBlock | list[TextBlock]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        last, start, end, text = self.rows[index].tolist()
        return TextBlock(tuple(self.ids[last - int(self.lengths[index]) : last].tolist()), start, end, text)

    def scores(self, query: Sequence[int]) -> NDArray[np.float64]:
        """The BM25 score of each block for a query's ids, as of ``LexicalIndex``, by single tokens and pairs of
        neighbours: (blocks,). Nothing is kept, so that long texts need no index."""
        found, ends = np.zeros(len(self)), self.rows[:, 0]
        sizes = 2.0 * self.lengths - 1  # the tokens and pairs of a block
        norm = K1 * (1 - B + B * sizes / max(float(sizes.mean()), 1.0)) if len(self) else sizes
        tokens = list(dict.fromkeys(query))
        for first, second in [*((token, None) for token in tokens), *dict.fromkeys(pairwise(query))]:
            hits = np.flatnonzero(self.ids == first)
            owners = np.searchsorted(ends, hits, side="right")
            if second is not None:
                both = hits + 1 < ends[owners]
                hits, owners = hits[both], owners[both]
                owners = owners[self.ids[hits + 1] == second]
            blocks, counts = np.unique(owners, return_counts=True)
            rarity = np.log1p((len(self) - len(blocks) + 0.5) / (len(blocks) + 0.5))
            found[blocks] += rarity * counts * (K1 + 1) / (counts + norm[blocks])
        return found

    def best(self, query: Sequence[int], most: int) -> list[int]:
        """The numbers of the ``most`` blocks that share most words with a query's ids; without a query, blocks that are
        spread evenly over the text."""
        if len(self) <= most:
            return list(range(len(self)))
        if not query:
            return sorted(set(np.linspace(0, len(self) - 1, most).round().astype(int).tolist()))
        return sorted(np.argsort(-self.scores(query), kind="stable")[:most].tolist())


class WorkingMemory:
    """A judge and the sizes of what it selects."""

    def __init__(self, judge: Judge, size: int = SIZE, times: Sequence[int] = TIMES, most: int = MOST) -> None:
        self.judge, self.times, self.most = judge, tuple(times), most
        self.size = min(size, max(1, judge.window // 2 - 4))

    @cached_property
    def blocks(self) -> Callable[[tuple[str, ...]], TextBlocks]:
        """The blocks of texts; those of the last few texts are kept."""

        def cut(texts: tuple[str, ...]) -> TextBlocks:
            each = (each_block(self.judge.tokenizer, text, self.size, n) for n, text in enumerate(texts))
            return TextBlocks(block for some in each for block in some)

        return lru_cache(maxsize=KEPT)(cut)

    def select(self, query: str, texts: str | Sequence[str], room: int = 0) -> ShortText:
        """The blocks of texts that belong to a query, which may be empty. ``room`` is the number of tokens that a task
        model has for them; 0: as many as the judge's window has beside the query."""
        given = (texts,) if isinstance(texts, str) else tuple(texts)
        return self._select(given, self.judge.query(query), (), room)

    def around(self, text: str, first: int, last: int, room: int = 0) -> ShortText:
        """The blocks of a text from number ``first`` to before ``last``, and those that belong to them."""
        blocks = self.blocks((text,))[first:last]
        asked = (self.judge.cls, *(token for block in blocks for token in block.ids), self.judge.sep)
        return self._select((text,), asked, range(first, last), room)

    def groups(self, text: str) -> list[tuple[int, int]]:
        """The blocks of a text in groups (first number, last number + 1) that are queries for the others: up to a third
        of the judge's window."""
        return block_groups(self.blocks((text,)).lengths.tolist(), self.judge.window // 3)

    def _select(self, texts: tuple[str, ...], asked: tuple[int, ...], held: Sequence[int], room: int) -> ShortText:
        """The blocks in ``held``, which are the query, and those that belong to the query ``asked``."""
        blocks = self.blocks(texts)
        window = self.judge.window if not room else min(self.judge.window, room + (2 if held else len(asked)))
        window = max(window, len(asked) + int(blocks.lengths.max(initial=0)) + 1)
        if (2 if held else len(asked)) + len(blocks.ids) + len(blocks) <= window:
            return short_text(texts, blocks, range(len(blocks)), (), len(blocks))
        numbers = [number for number in blocks.best(asked[1:-1], self.most) if number not in held]
        closed = [self.judge.closed(blocks[number].ids) for number in numbers]
        found = recall(self.judge, [asked], closed, window, self.times)
        scores = dict.fromkeys(held, 1.0)
        scores |= {numbers[each]: score for each, score in zip(found.kept, found.scores, strict=True)}
        kept = sorted(scores)
        return short_text(texts, blocks, kept, [scores[number] for number in kept], len(numbers) + len(held))


def short_text(
    texts: Sequence[str], blocks: Sequence[TextBlock], kept: Sequence[int], scores: Sequence[float], judged: int
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
