"""Attention maps as one PNG image: a labeled heatmap per head, or each word's weights over the image."""

import io
import warnings
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoo.data.ids import Picture
from zoo.inference.attend import AttentionMaps
from zoo.report.attention_page import names
from zoo.report.attention_panels import INCH, Panel, PanelGroup, choose_panels, label_step, points, shortened
from zoo.report.fonts import families, letters

try:
    from matplotlib import rc_context
    from matplotlib.figure import Figure
except ImportError:  # the extra `plots` is not installed: then there is no PNG
    Figure = None  # type: ignore[assignment, misc]

DPI = 130
EDGE, GAP, HEADING, CAPTION = 0.2, 0.2, 0.42, 0.24  # inches
NARROWEST = 6.0  # inches
SIZE = 9.0  # points
LETTERS, MOST_LINES = 13, 4  # letters per inch, and lines of a text above the maps
DARK = 0.2  # brightness of the image where the weight is 0
SCALES = {  # whether the keys are an image grid -> legend
    False: "rows attend to columns; darker is more (square root of the weight, per panel)",
    True: "an image is dark where it gets little attention",
}
HEATMAP, SPOTLIGHT = 4, 2  # the strongest color is at least this multiple of a uniform weight
BLANK = 255  # value of all pixels if there is no image


def is_possible() -> bool:
    """Whether matplotlib is installed."""
    return Figure is not None


def draw_picture(attention: AttentionMaps, title: str) -> bytes:
    """All maps of an example, one below the other, as a PNG file; needs matplotlib, which `check_output` ensures."""
    groups = [choose_panels(found, name) for found, name in zip(attention.maps, names(attention.maps), strict=True)]
    scales = [SCALES[grid] for grid in sorted({one.keys.grid is not None for one in groups})]
    said = [title, *(f"{name}: {text}" for name, text in attention.texts.items()), "; ".join(scales)]
    labels = [label for one in groups for places in (one.queries, one.keys) for label in places.labels]
    with rc_context({"font.family": families([*said, *labels])}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # `families` has logged it once
        return draw_groups(groups, said, attention.picture)


def draw_groups(groups: list[PanelGroup], said: list[str], picture: Picture | None) -> bytes:
    """Draw the texts (`said`) and below them the maps, in a figure of the size they need."""
    width = max(NARROWEST, *(one.left + one.columns * (one.width + GAP) for one in groups)) + 2 * EDGE
    lines = [line for text in said for line in wrapped(text, LETTERS * width)]
    top = EDGE + 0.2 * len(lines)
    height = top + sum(map(group_height, groups)) + EDGE
    figure = Figure(figsize=(width, height), dpi=DPI)
    for number, line in enumerate(lines):
        write(figure, line, EDGE, EDGE + 0.2 * number, bold=number == 0)
    for one in groups:
        draw_group(figure, one, top, picture)
        top += group_height(one)
    written = io.BytesIO()
    figure.savefig(written, format="png", metadata={"Software": None})  # the same maps give the same bytes
    return written.getvalue()


def wrapped(text: str, most: float) -> list[str]:
    """Wrap a text into lines of at most `most` letters."""
    signs = int(most * len(text) / max(1, letters(text)))
    return wrap(text, max(1, signs), max_lines=MOST_LINES, placeholder=" …")


def group_height(one: PanelGroup) -> float:
    """The height of a group with its headings and labels (inches)."""
    return HEADING + one.rows * (one.height + CAPTION + GAP) + one.below


def write(figure: Any, text: str, left: float, top: float, bold: bool = False) -> None:
    """Write a line of text at `left` and `top` (inches)."""
    wide, high = figure.get_size_inches()
    weight = "bold" if bold else "normal"
    figure.text(left / wide, 1 - top / high, text, fontsize=SIZE, fontweight=weight, va="top", parse_math=False)


def draw_group(figure: Any, one: PanelGroup, top: float, picture: Picture | None) -> None:
    """Draw the panels of one map; only the outer panels have labels: first column, and last of each column."""
    wide, high = figure.get_size_inches()
    write(figure, one.name, EDGE, top + 0.18, bold=True)
    for number, panel in enumerate(one.panels):
        row, column = divmod(number, one.columns)
        left = EDGE + one.left + column * (one.width + GAP)
        down = top + HEADING + CAPTION + row * (one.height + CAPTION + GAP)
        axes = figure.add_axes((left / wide, 1 - (down + one.height) / high, one.width / wide, one.height / high))
        axes.set_title(panel.title, fontsize=SIZE - 1, pad=3, parse_math=False)
        if one.keys.grid is not None:
            draw_over(axes, panel, picture)
            continue
        most = strongest_weight(panel.weights, len(one.keys.labels), HEATMAP)
        axes.imshow(np.sqrt(panel.weights), cmap="Blues", aspect="auto", vmin=0, vmax=np.sqrt(most))
        label(axes.xaxis, one.keys.labels, one.width, number + one.columns >= len(one.panels))
        label(axes.yaxis, one.queries.labels, one.height, column == 0)
        axes.tick_params(axis="x", rotation=90)


def strongest_weight(weights: NDArray[np.float32], keys: int, shares: float) -> float:
    """The weight with the strongest color: the largest, but at least `shares` / `keys`: uniform weights stay pale."""
    return max(float(weights.max()), min(1.0, shares / keys))


def label(axis: Any, labels: Any, side: float, shown: bool) -> None:
    """Label an axis with tokens, or every n-th if they do not all fit; no labels unless `shown`."""
    ticks = range(0, len(labels), label_step(len(labels), side)) if shown else range(0)
    axis.set_ticks(ticks, [shortened(labels[i]) for i in ticks], fontsize=points(len(labels), side), parse_math=False)
    axis.set_tick_params(length=0, pad=2)


def draw_over(axes: Any, panel: Panel, picture: Picture | None) -> None:
    """Draw the image, darkened where the weights are small."""
    shares = panel.weights / strongest_weight(panel.weights, panel.weights.size, SPOTLIGHT)
    pixels = np.full((3, 64, 64), BLANK, dtype=np.uint8) if picture is None else picture
    light = smooth(shares, pixels.shape[1:])
    axes.imshow((pixels.transpose(1, 2, 0) * (DARK + (1 - DARK) * light)[..., None]).astype(np.uint8))
    if panel.query_position is not None:
        high, wide = (pixels.shape[i + 1] / shares.shape[i] for i in (0, 1))
        corner, size = (panel.query_position[1] * wide, panel.query_position[0] * high), points(1, wide / INCH)
        axes.plot(corner[0] + wide / 2, corner[1] + high / 2, "s", ms=size, mfc="none", mec="orange", mew=1.5)
    axes.set_axis_off()


def smooth(shares: NDArray[np.float32], size: tuple[int, ...]) -> NDArray[np.float32]:
    """Interpolate the values of a grid smoothly to every pixel."""
    grown = Image.fromarray((shares * 255).astype(np.uint8)).resize((size[1], size[0]), Image.Resampling.BICUBIC)
    return np.asarray(grown, dtype=np.float32) / np.float32(255)
