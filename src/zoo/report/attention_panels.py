"""The layout of an attention map's heatmaps (panels): which ones, titles and sizes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.inference.attend import AttentionMap, PositionLabels
from zoo.report.fonts import letters

MOST_PANELS = 24  # layers x heads; if more: the mean of each layer, and each head of the last one
COLUMNS, THUMBS = 4, 8  # panels side by side, if not one per head
CELL, LEAST, MOST = 0.19, 1.0, 5.0  # inches: a token's cell; least and most for a heatmap's side
WIDEST = 20.0  # inches: all columns together
THUMB = 1.5  # inches: an image's side
ASKED = 3  # positions of an image grid that are shown as queries, along each side
LABEL, READABLE = 8.0, 5.0  # points: largest and smallest size of a token's label
INCH = 72  # points per inch
LETTER = 0.62  # width of a letter, as a share of the label's size
LONGEST = 24  # letters of a label

Weights = NDArray[np.float32]


class Panel(NamedTuple):
    """A titled heatmap: weights (queries, keys), or one query's weights over an image grid (rows, columns).

    Args:
        query_position: the query's own position in the grid (row, column), if it is in the grid.
    """

    title: str
    weights: Weights
    query_position: tuple[int, int] | None = None


@dataclass(frozen=True)
class PanelGroup:
    """The panels of one map, with the number of columns and the size of each panel (inches)."""

    name: str
    queries: PositionLabels
    keys: PositionLabels
    panels: Sequence[Panel]
    columns: int
    width: float
    height: float

    @property
    def rows(self) -> int:
        return math.ceil(len(self.panels) / self.columns)

    @property
    def left(self) -> float:
        """Inches for the labels of the queries."""
        return 0.1 if self.keys.grid else space(self.queries.labels, self.height)

    @property
    def below(self) -> float:
        """Inches for the labels of the keys."""
        return 0.1 if self.keys.grid else space(self.keys.labels, self.width)


def choose_panels(found: AttentionMap, name: str) -> PanelGroup:
    """Choose the panels of a map: heatmaps for tokens, weights over the image if the keys are a grid."""
    if found.keys.grid is None:
        return heatmaps(found, name)
    choose = word_panels if found.queries.grid is None else grid_panels
    return choose(found, name, found.keys.grid)


def heatmaps(found: AttentionMap, name: str) -> PanelGroup:
    """One panel per layer and head; beyond `MOST_PANELS`, the mean of each layer and the heads of the last one."""
    heads = max(map(len, found.layers.values()))
    last = max(found.layers)
    if len(found.layers) * heads <= MOST_PANELS and all(len(w) == heads for w in found.layers.values()):
        columns = heads if heads > 1 else min(COLUMNS, len(found.layers))
        panels = [Panel(head_title(n, h, w), w[h]) for n, w in found.layers.items() for h in range(heads)]
    else:
        columns = COLUMNS
        means = [Panel(f"layer {n}, mean of {len(w)} heads", w.mean(0)) for n, w in found.layers.items()]
        panels = means + [Panel(head_title(last, h, w), w) for h, w in enumerate(found.layers[last])]
    count = len(found.queries.labels), len(found.keys.labels)
    cell = min(CELL, min(MOST, WIDEST / columns) / max(count))
    height, width = (max(LEAST, cell * n) for n in count)
    return PanelGroup(name, found.queries, found.keys, panels, columns, width, height)


def head_title(layer: int, head: int, weights: Weights) -> str:
    return f"layer {layer}" if len(weights) == 1 else f"layer {layer}, head {head + 1}"


def word_panels(found: AttentionMap, name: str, grid: tuple[int, int]) -> PanelGroup:
    """One panel per word: its weights over the image, averaged over the last layer's heads."""
    last = max(found.layers)
    mean = found.layers[last].mean(0).reshape(-1, *grid)
    panels = [Panel(shortened(label), weights) for label, weights in zip(found.queries.labels, mean, strict=True)]
    said = f"{name}, layer {last}" + (", mean of heads" if len(found.layers[last]) > 1 else "")
    return PanelGroup(said, found.queries, found.keys, panels, min(THUMBS, len(panels)), THUMB, THUMB)


def grid_panels(found: AttentionMap, name: str, grid: tuple[int, int]) -> PanelGroup:
    """Panels of a few grid positions in each layer: their weights over the grid, averaged over heads."""
    # the middle cells of ASKED equal parts of each side; a set, since a small grid has fewer rows or columns than parts
    rows, columns = (sorted({round((2 * i + 1) * side / (2 * ASKED) - 0.5) for i in range(ASKED)}) for side in grid)
    panels = [
        Panel(f"layer {n}, row {r + 1}, column {c + 1}", w.mean(0)[r * grid[1] + c].reshape(grid), (r, c))
        for n, w in found.layers.items()
        for r in rows
        for c in columns
    ]
    return PanelGroup(name, found.queries, found.keys, panels, len(columns), THUMB, THUMB)


def points(count: int, side: float) -> float:
    """The font size (points) of `count` labels along a side (inches): as large as fits, but readable."""
    return max(READABLE, min(LABEL, 0.85 * INCH * side / max(1, count)))


def label_step(count: int, side: float) -> int:
    """n such that every n-th label fits along a side (inches); 1 if all fit."""
    return max(1, math.ceil(points(count, side) * count / (INCH * side)))


def space(labels: Sequence[str], side: float) -> float:
    """Inches that the longest label takes."""
    longest = max(letters(shortened(label)) for label in labels)
    return 0.15 + LETTER * longest * points(len(labels), side) / INCH


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
