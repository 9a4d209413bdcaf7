"""The progress bar of everything that takes long: how many of how many, the rate, and the time left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress_bar(what: str, total: int, shown: bool = True) -> Iterator[Callable[[float], None]]:
    """A bar on standard error, where that is a terminal. Yields a function to call with how many more are done."""
    if not (shown and sys.stderr.isatty()):
        yield lambda count: None
        return
    with make_progress(what, "{task.fields[rate]}", transient=True) as progress:
        task = progress.add_task(what, total=total, rate="")

        def advance(count: float) -> None:
            progress.update(task, advance=count)
            speed = progress.tasks[0].speed
            progress.update(task, rate=f"{speed:,.1f}/s" if speed else "")

        yield advance


def make_progress(what: str, fields: str, transient: bool = False, shown: bool = True) -> Progress:
    """A bar with its title, count, the given fields of the task, and the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), MofNCompleteColumn(), BarColumn(), TextColumn(fields), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=transient, disable=not shown)
