"""Loss curves as PNG files."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from masquerade.files import write_whole


def save_curve(series: Mapping[str, Sequence[tuple[int, float]]], path: Path) -> None:
    """Draw named series of (step, value) points to a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, points in series.items():
        steps, values = zip(*points, strict=True)
        axes.plot(steps, values, label=name.replace("_", "-"), marker="o" if len(points) < 20 else None, markersize=3)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.grid(alpha=0.3)
    axes.legend()
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150)
    write_whole(path, lambda temporary: temporary.write_bytes(image.getvalue()))
