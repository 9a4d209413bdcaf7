"""How a batch is divided over processor threads, and how a part of it is grouped by length.

A question alone is computed by all threads together, which wait for each other at every step. Of several questions each
thread takes some, and none waits until the end: on two cores that answers more of them in the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Barrier
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")
PADDING = 0.25  # of what goes through a network together, the share that may be padding


def in_similar_lengths(
    work: Callable[[Sequence[T]], Sequence[R]], items: Sequence[T], size: Callable[[T], int]
) -> list[R]:
    """What ``work`` gives for some items, in their order; those of similar length are given to it together. A network
    pads all rows to the longest one, and on a processor padding costs as much as text."""
    group, real, found = list[int](), 0, dict[int, R]()

    def finish() -> None:
        found.update(zip(group, work([items[index] for index in group]), strict=True))

    for index in sorted(range(len(items)), key=lambda index: size(items[index])):
        own = size(items[index])
        padded = own * (len(group) + 1)
        if group and padded - real - own > PADDING * padded:
            finish()
            group, real = [], 0
        group.append(index)
        real += own
    if group:
        finish()
    return [found[index] for index in range(len(items))]


class BatchThreads:
    """As many threads as PyTorch has in the thread that makes it. Used and closed in that thread."""

    def __init__(self) -> None:
        self.count = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(self.count, "part", initializer=_one_thread)
        started = Barrier(self.count)
        wait([self._pool.submit(started.wait) for _ in range(self.count)])
        torch.set_num_threads(self.count)  # a thread that begins later takes what was set last

    def run(
        self,
        work: Callable[[Sequence[T]], Sequence[R]],
        items: Sequence[T],
        size: Callable[[T], int],
        together: Callable[[T], Hashable],
    ) -> list[R]:
        """What ``work`` gives for some items, in their order. They are divided into as many parts as there are threads,
        of about the same size; those with the same ``together`` stay in one part. Fewer than the threads run at once,
        with all threads for each step."""
        groups = dict[Hashable, list[int]]()
        for index, item in enumerate(items):
            groups.setdefault(together(item), []).append(index)
        if self.count == 1 or len(groups) < self.count:
            return list(work(items))
        sizes = {key: sum(size(items[index]) for index in some) for key, some in groups.items()}
        parts, sums = list[list[int]]([] for _ in range(self.count)), [0] * self.count
        for key in sorted(groups, key=lambda key: -sizes[key]):
            least = sums.index(min(sums))
            parts[least] += groups[key]
            sums[least] += sizes[key]
        futures = [self._pool.submit(work, [items[index] for index in part]) for part in parts]
        wait(futures)  # all of them, also if one fails: what follows must not run beside them
        found = dict[int, R]()
        for part, future in zip(parts, futures, strict=True):
            found.update(zip(part, future.result(), strict=True))
        return [found[index] for index in range(len(items))]

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


def _one_thread() -> None:
    """Compute in this thread alone from now on."""
    torch.set_num_threads(1)
    torch.get_num_threads()  # a thread asks for the number once; it has to do so before another one is set elsewhere
