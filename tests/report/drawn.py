"""Attention maps made of numbers: a translation and a caption, for tests of how they are drawn."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from zoo.inference.attend import AttentionMap, AttentionMaps, PositionLabels

HOSTILE = "</script><img src=x onerror=window.broken=1>"
SOURCE = ["the", "red", "·cat", "</s>"]
WRITTEN = ["eine", HOSTILE, "</s>"]
WORDS = ["a", "red", "cat", "</s>"]


def kept_figures(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that a module draws from now on, each as soon as it is begun."""
    figure = pytest.importorskip("matplotlib.figure").Figure
    kept: list[Any] = []

    class Kept(figure):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            kept.append(self)

    monkeypatch.setattr(module, "Figure", Kept)
    return kept


def shares(*shape: int) -> NDArray[np.float32]:
    """Rows that sum to 1."""
    drawn = np.random.default_rng(sum(shape)).dirichlet(np.full(shape[-1], 0.4), shape[:-1])
    return drawn.astype(np.float32)


def translation() -> AttentionMaps:
    """Three layers of two heads, in which a token is a trap."""
    source, written = PositionLabels(SOURCE), PositionLabels(WRITTEN)
    own, cross = ({n: shares(2, rows, 4) + 0 * n for n in (1, 2, 3)} for rows in (4, 3))
    own[2], cross[3] = own[2][:, ::-1].copy(), cross[3][:, ::-1].copy()
    maps = [AttentionMap("encoder.self", source, source, own), AttentionMap("decoder.cross", written, source, cross)]
    return AttentionMaps(maps, {"source": "the red cat", "target": f"eine {HOSTILE}"}, None)


def caption() -> AttentionMaps:
    """A word for each quarter of a gray picture, and a grid that reads itself."""
    grid, small = PositionLabels((), (2, 2)), PositionLabels((), (4, 4))
    quarters = np.eye(4, dtype=np.float32)[None]
    own = AttentionMap("encoder.self", small, small, {2: shares(1, 16, 16)})
    words = AttentionMap("decoder.cross", PositionLabels(WORDS), grid, {1: quarters})
    return AttentionMaps([own, words], {"picture": "a.png"}, np.full((3, 32, 32), 200, dtype=np.uint8))


def large() -> AttentionMaps:
    """64 tokens x 12 layers x 12 heads."""
    places = PositionLabels([f"token{i}" for i in range(64)])
    layers = {n: shares(12, 64, 64) for n in range(1, 13)}
    return AttentionMaps([AttentionMap("encoder.self", places, places, layers)], {"text": "tokens"}, None)
