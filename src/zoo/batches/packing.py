"""Packing: which examples share a row, decided by their sizes alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoo.examples.example import ExamplePlan
from zoo.examples.form import Limits
from zoo.objectives.mixture import Mixture

STEP = 16  # places


@dataclass(frozen=True)
class RowShape:
    """What a row holds.

    Args:
        length: places in the row that the heads score.
        source: places in the source row; 0 where there is none.
        longest: the most places of one example; None: `length`.
        longest_source: the same for its source; None: `source`.
        pack: whether examples share rows.
    """

    length: int
    source: int = 0
    longest: int | None = None
    longest_source: int | None = None
    pack: bool = True

    @property
    def limits(self) -> Limits:
        longest = self.length if self.longest is None else self.longest
        return Limits(longest, self.source if self.longest_source is None else self.longest_source, self.length)

    def around(self, rows: Sequence[Sequence[ExamplePlan]]) -> tuple[int, int]:
        """Places and source places that are enough for these rows, rounded up, so that few sizes occur."""
        used = max((sum(plan.length for plan in row) for row in rows), default=0)
        read = max((sum(plan.source_length for plan in row) for row in rows), default=0)
        return min(self.length, -(-used // STEP) * STEP), min(self.source, -(-read // STEP) * STEP)


def pack(plans: Sequence[ExamplePlan], shape: RowShape, mixture: Mixture) -> list[tuple[ExamplePlan, ...]]:
    """Rows of examples: as full as they get, no row over its places, its source places or what its heads score."""
    if not shape.pack:
        return [(plan,) for plan in plans]
    capacities = mixture.capacities(shape.length)
    most = [shape.length, shape.source, *capacities.values()]
    sizes = []
    for plan in plans:
        scored = mixture.scored(plan)
        sizes.append([plan.length, plan.source_length, *(scored[head] for head in capacities)])
    table = np.array(sizes, dtype=np.int64).reshape(-1, len(most))
    return [tuple(plans[i] for i in row) for row in fill(table, most, counted=2)]


def fill(sizes: NDArray[np.int64], most: Sequence[int], counted: int) -> list[list[int]]:
    """Group items into rows with at most `most` of each size; rows get full in the first `counted` sizes.

    One row after the other takes the item that best fits what it has left, scaled by what a row holds: in one dimension
    the longest that fits.
    Source: Panigrahy et al. 2011, "Heuristics for Vector Bin Packing", the dot-product heuristic, bin by bin.
    """
    kinds, kind_of = np.unique(sizes, axis=0, return_inverse=True)
    waiting: list[list[int]] = [[] for _ in kinds]
    for item in range(len(sizes) - 1, -1, -1):
        waiting[kind_of.reshape(-1)[item]].append(item)
    limits = np.array(most, dtype=np.int64)
    scale = 1.0 / np.maximum(limits, 1) ** 2
    scale[counted:] = 0.0
    rows: list[list[int]] = []
    while len(kinds):
        row = fill_row(kinds, waiting, limits, scale)
        assert row, "a planned example is larger than a row"
        # nothing else is chosen while there are items of these kinds: a long text is cut into thousands of one size
        for _ in range(min(len(waiting[kind]) // row.count(kind) for kind in set(row))):
            rows.append([waiting[kind].pop() for kind in row])
        for kind in sorted((kind for kind in set(row) if not waiting[kind]), reverse=True):
            kinds = np.delete(kinds, kind, axis=0)
            del waiting[kind]
    return rows


def fill_row(
    kinds: NDArray[np.int64], waiting: Sequence[Sequence[int]], limits: NDArray[np.int64], scale: NDArray[np.float64]
) -> list[int]:
    """The kinds of the items that one row takes, of those that wait."""
    left, row = limits.copy(), list[int]()
    able = np.ones(len(kinds), dtype=bool)
    while (fits := able & (kinds <= left).all(axis=1)).any():
        best = int(np.where(fits, kinds @ (left * scale), -1.0).argmax())
        row.append(best)
        able[best] = row.count(best) < len(waiting[best])
        left -= kinds[best]
    return row
