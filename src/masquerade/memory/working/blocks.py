"""A text as blocks: cut by dynamic programming at the ends of lines, sentences and clauses (CogLTX)."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from masquerade.text.tokenizer import Tokenizer

SIZE = 63  # tokens of a block at most, without the separator after it
BLOCK = 4  # the cost of each block, so that short ones are joined
LINE, SENTENCE, CLAUSE, ANYWHERE = 0, 1, 2, 8  # the cost of a block's end
PRICES = {"\n": LINE, **dict.fromkeys(".?!", SENTENCE), ",": CLAUSE}
CHINESE_PRICES = {**dict.fromkeys("。？！；", SENTENCE), **dict.fromkeys("，、", CLAUSE)}
PART = 100_000  # characters of a text that are tokenized at once, so that long texts take little memory


@dataclass(frozen=True)
class TextBlock:
    """A part of a text: its token ids, and its first character and the one after its last."""

    ids: tuple[int, ...]
    start: int
    end: int
    text: int = 0  # the number of the text, if there are several


def token_prices(tokens: Sequence[str], chinese: bool = True) -> list[int | None]:
    """The price of an end after each token; None where a block ends only if it must."""
    known = {**PRICES, **CHINESE_PRICES} if chinese else PRICES
    return [known.get(token.removeprefix("Ġ")) for token in tokens]


@lru_cache(maxsize=8)
def id_prices(tokenizer: Tokenizer) -> dict[int, int]:
    """The price of an end after each id that has one."""
    prices = enumerate(token_prices(tokenizer.tokens(range(len(tokenizer)))))
    return {number: price for number, price in prices if price is not None}


def cut(prices: Sequence[int | None], size: int = SIZE) -> list[int]:
    """The ends (exclusive) of the blocks whose costs add up to least, in linear time. The last end is the number of
    tokens; the text's last token costs nothing unless it has a price. Of equal sums the shorter last block wins."""
    if size < 1:
        raise ValueError(f"a block has at least 1 token, not {size}")
    places, costs, before = [0], [0], [-1]  # offered ends, their least sums, and the end before each
    queue = deque([0])  # offered ends that may come before the next one: sums rise from left to right

    def offer(place: int, price: int) -> None:
        while places[queue[0]] < place - size:
            queue.popleft()
        places.append(place)
        costs.append(costs[queue[0]] + BLOCK + price)
        before.append(queue[0])
        while queue and costs[queue[-1]] >= costs[-1]:
            queue.pop()
        queue.append(len(places) - 1)

    count = len(prices)
    for index, given in enumerate(prices):
        price = LINE if given is None and index == count - 1 else given
        if price is None:
            continue
        while index + 1 - places[-1] > size:
            offer(places[-1] + size, ANYWHERE)
        offer(index + 1, price)
    ends, at = list[int](), len(places) - 1
    while places[at]:
        ends.append(places[at])
        at = before[at]
    return ends[::-1]


def even_lengths(lengths: Sequence[int], size: int = SIZE) -> list[int]:
    """The lengths of blocks for sentences of these lengths: a sentence that is too long is cut evenly, short ones are
    not joined."""
    found = []
    for length in lengths:
        count = -(-length // size)
        each = -(-length // count) if count else 0
        found += [min(each, length - start) for start in range(0, length, each)] if count else []
    return found


def block_groups(lengths: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Neighbouring blocks of these lengths in groups (first number, last number + 1) of up to ``most`` tokens, at least
    a block."""
    found, first, size = list[tuple[int, int]](), 0, 0
    for number, length in enumerate(lengths):
        if number > first and size + length > most:
            found.append((first, number))
            first, size = number, 0
        size += length
    return [*found, (first, len(lengths))] if lengths else []


def text_blocks(tokenizer: Tokenizer, text: str, size: int = SIZE, number: int = 0) -> list[TextBlock]:
    """The blocks of a text; none for a text without tokens."""
    return list(each_block(tokenizer, text, size, number))


def each_block(tokenizer: Tokenizer, text: str, size: int = SIZE, number: int = 0) -> Iterator[TextBlock]:
    """The blocks of a text one after the other, so that a long text needs little memory. A line break after a token is
    its end of a line."""
    known = id_prices(tokenizer)
    for begin, end in _parts(text):
        ids, places = tokenizer.encode_places([text[begin:end]])[0]
        if not ids:
            continue
        prices = [known.get(number) for number in ids]
        ends, line = [last for _, last in places], text.find("\n", begin, end)
        while line >= 0:
            before = bisect_right(ends, line - begin) - 1
            if before >= 0:
                prices[before] = LINE
            line = text.find("\n", line + 1, end)
        first = 0
        for last in cut(prices, size):
            start, stop = begin + places[first][0], begin + places[last - 1][1]
            yield TextBlock(tuple(ids[first:last]), start, stop, number)
            first = last


def _parts(text: str) -> list[tuple[int, int]]:
    """Spans of about PART characters that end with a line, or with a word, where there is one."""
    found, start = list[tuple[int, int]](), 0
    while start < len(text):
        end = start + PART
        if end < len(text):
            cuts = (text.rfind(mark, start + PART // 2, end) + 1 for mark in ("\n", "。", " "))
            end = next((place for place in cuts if place > start), end)
        found.append((start, min(end, len(text))))
        start = end
    return found
