"""The progress of everything that takes long: how many of how many, the rate, and the time left. A bar in a terminal;
elsewhere, as in a log file, a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

SECONDS = 10.0  # between two lines, where there is no terminal


@contextmanager
def progress_bar(what: str, total: int, shown: bool = True) -> Iterator[Callable[[float], None]]:
    """A bar on standard error, or lines where that is no terminal. Yields a function to call with how many more are
    done."""
    if not shown:
        yield lambda count: None
        return
    if not sys.stderr.isatty():
        yield ProgressLines(what, total).advance
        return
    with make_progress(what, "{task.fields[rate]}", transient=True) as progress:
        task = progress.add_task(what, total=total, rate="")

        def advance(count: float) -> None:
            progress.update(task, advance=count)
            speed = progress.tasks[0].speed
            progress.update(task, rate=f"{speed:,.1f}/s" if speed else "")

        yield advance


class ProgressLines:
    """Lines on standard error, one every SECONDS; nothing for what takes less time."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0.0
        self.begun = self.shown = time.monotonic()

    def advance(self, count: float) -> None:
        """Count what was done, and print a line if the last one is old enough and there is more to do."""
        self.done += count
        now = time.monotonic()
        if now - self.shown < SECONDS or self.done >= self.total:
            return
        self.shown = now
        speed = self.done / (now - self.begun)
        left = f", {(self.total - self.done) / speed:,.0f} s left" if speed else ""
        print(f"{self.what}: {self.done:,.0f} of {self.total:,}, {speed:,.1f}/s{left}", file=sys.stderr, flush=True)


def make_progress(what: str, fields: str, transient: bool = False, shown: bool = True) -> Progress:
    """A bar with its title, count, the given fields of the task, and the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), MofNCompleteColumn(), BarColumn(), TextColumn(fields), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=transient, disable=not shown)
