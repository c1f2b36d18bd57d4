"""A run's curves as one small image: loss by step, and validation metrics."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

try:
    from matplotlib.figure import Figure
except ImportError:  # the extra `plots` is not installed: then there are no curves
    Figure = None  # type: ignore[assignment, misc]

from zoo.runs.metrics import VALIDATION, is_metric

MOST_POINTS = 200  # most points of a curve; neighbors are averaged
WIDTH, HEIGHT, DPI = 4.2, 2.8, 100  # inches of one panel, and dots in an inch
Lines = Sequence[Mapping[str, Any]]
Curve = list[tuple[float, float]]


def draw_curves(lines: Lines, until: int | None = None) -> bytes | None:
    """Draw the lines of metrics.jsonl as a PNG image; None without matplotlib or without a training loss.

    Args:
        until: a step to mark: that of the checkpoint that was used.
    """
    losses = {"training": downsample(curve(lines, "loss")), "validation": curve(lines, f"{VALIDATION}loss")}
    names = dict.fromkeys(key for line in lines for key in line if key.startswith(VALIDATION))
    others = {name.removeprefix(VALIDATION): curve(lines, name) for name in names if is_metric(name)}
    if Figure is None or not losses["training"]:
        return None
    panels = [("loss", losses), *([("validation", others)] if any(others.values()) else [])]
    figure = Figure(figsize=(WIDTH * len(panels), HEIGHT), dpi=DPI, layout="constrained")
    for place, (title, curves) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        for name, points in curves.items():
            if points:
                axes.plot(*zip(*points, strict=True), label=name, linewidth=1.2, marker="o" * (len(points) < 20), ms=3)
        if until is not None:
            axes.axvline(until, color="0.6", linestyle=":", linewidth=1)
        axes.set(title=title, xlabel="step")
        axes.grid(alpha=0.25)
        for written in axes.legend(fontsize="small").get_texts():
            written.set_parse_math(False)  # a file's name may have $ in it
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})  # the same run gives the same bytes
    return picture.getvalue()


def curve(lines: Lines, name: str) -> Curve:
    """(step, value) of each line that has the value."""
    return [(line["step"], line[name]) for line in lines if line.get(name) is not None]


def downsample(points: Curve) -> Curve:
    """Average neighboring points so that at most `MOST_POINTS` are left."""
    size = -(-len(points) // MOST_POINTS)
    groups = [points[i : i + size] for i in range(0, len(points), size)] if size > 1 else []
    means = [tuple(sum(values) / len(values) for values in zip(*group, strict=True)) for group in groups]
    return [(step, value) for step, value in means] or points
