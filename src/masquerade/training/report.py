"""The progress of a run: a progress bar, a log, TensorBoard if installed, and a plot at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from masquerade.progress import make_progress
from masquerade.training.checkpoints import Store


class Report:
    """Shows the progress of a run (on the main process) and writes it to files."""

    def __init__(self, store: Store, steps: int, done: int, shown: bool) -> None:
        self.store, self.shown = store, shown
        fields = "loss {task.fields[loss]}  {task.fields[speed]} tokens/s"
        self.progress = make_progress("step", fields, shown=shown)
        self.task = self.progress.add_task("train", total=steps, completed=done, loss="…", speed="…")
        self.board = _board(store) if shown else None
        self.since, self.read = time.perf_counter(), 0.0

    def __enter__(self) -> Report:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()
        if self.board is not None:
            self.board.close()

    def advance(self, step: int, values: dict[str, float], log: bool) -> None:
        """Show that a step is done, and log its values if ``log``."""
        self.read += values["tokens"]
        spent = time.perf_counter() - self.since
        speed = self.read / spent if spent else 0.0
        self.progress.update(self.task, completed=step, loss=f"{values['loss']:.3f}", speed=f"{speed:,.0f}")
        if log:
            self.note(step, {name: values[name] for name in ("loss", "rate", "gradient")})

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the time spent inside out of the tokens per second."""
        begun = time.perf_counter()
        yield
        self.since += time.perf_counter() - begun

    def note(self, step: int, values: dict[str, float]) -> None:
        """Write values to the log and to TensorBoard."""
        if not self.shown:
            return
        self.store.record({"step": step, **values})
        if self.board is not None:
            for name, value in values.items():
                self.board.add_scalar(name, value, step)
        if "held_out" in values:
            said = "  ".join(f"{name.replace('_', '-')} {value:.4f}" for name, value in values.items())
            self.progress.console.print(f"step {step}: {said}")

    def plot(self) -> None:
        """Plot the losses of the log as loss.png."""
        from masquerade.training.curves import save_curve

        history = self.store.history()
        series = {name: [(e["step"], e[name]) for e in history if name in e] for name in ("loss", "held_out")}
        save_curve({name: points for name, points in series.items() if points}, self.store.folder / "loss.png")


def _board(store: Store) -> Any:
    """A TensorBoard writer, or None if that is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(store.folder / "tensorboard"))
