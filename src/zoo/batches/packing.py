"""Packing: which examples share a row, decided by their sizes alone."""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoo.examples.example import ExamplePlan
from zoo.examples.form import Limits
from zoo.objectives.mixture import Mixture

MULTIPLE = 16  # lengths are rounded up to a multiple of it
FITS_NOWHERE = np.iinfo(np.int64).max  # a size that fits no row
EAGER_TABLE = 1 << 16  # a table with up to this many scores is computed at once, which is faster than entry by entry
CACHED_SCORES = 1 << 20  # scores that are cached: 8 MB


@dataclass(frozen=True)
class RowShape:
    """The capacity of a row, in tokens.

    Args:
        length: of the row that the heads score.
        source: of the source row; 0: there is none.
        longest: the most tokens of one example; None: `length`.
        longest_source: the most tokens of one example's source; None: `source`.
        pack: whether examples share rows.
    """

    length: int
    source: int = 0
    longest: int | None = None
    longest_source: int | None = None
    pack: bool = True

    @property
    def limits(self) -> Limits:
        """The most tokens of one document, with the defaults filled in."""
        longest = self.length if self.longest is None else self.longest
        return Limits(longest, self.source if self.longest_source is None else self.longest_source, self.length)

    def needed_shape(self, rows: Sequence[Sequence[ExamplePlan]]) -> tuple[int, int]:
        """Return the length and source length that these rows need, rounded up so that few shapes occur."""
        used = max((sum(plan.length for plan in row) for row in rows), default=0)
        read = max((sum(plan.source_length for plan in row) for row in rows), default=0)
        return min(self.length, -(-used // MULTIPLE) * MULTIPLE), min(self.source, -(-read // MULTIPLE) * MULTIPLE)


def pack(plans: Sequence[ExamplePlan], shape: RowShape, mixture: Mixture) -> list[tuple[ExamplePlan, ...]]:
    """Pack examples into rows, as full as possible, within the row's length, source length and heads' capacities."""
    if not shape.pack:
        return [(plan,) for plan in plans]
    capacities = mixture.capacities(shape.length)
    most = [shape.length, shape.source, *capacities.values()]
    sizes = [[plan.length for plan in plans], [plan.source_length for plan in plans]]
    if capacities:
        scored = list(map(mixture.scored, plans))
        sizes += [[each[head] for each in scored] for head in capacities]
    table = np.array(sizes, dtype=np.int64).T
    return [tuple(plans[i] for i in row) for row in fill_rows(table, most, counted=2)]


def fill_rows(sizes: NDArray[np.int64], most: Sequence[int], counted: int) -> list[list[int]]:
    """Group items into rows; return the indices of each row's items.

    Rows are filled one at a time, with the item that best fits the space left, relative to the row's capacity. In one
    dimension that is the longest item that fits.
    Source: Panigrahy et al. 2011, "Heuristics for Vector Bin Packing", the dot-product heuristic, bin by bin.

    Args:
        sizes: of shape (items, dimensions).
        most: the capacity of a row in each dimension.
        counted: the first `counted` dimensions decide which item fits best; the others are limits only.
    """
    ordered = np.lexsort(sizes.T[::-1])  # to group equal items; np.unique would take eight times as long
    begins = np.flatnonzero(np.append(True, (np.diff(sizes[ordered], axis=0) != 0).any(axis=1))[: len(sizes)])
    kinds = sizes[ordered[begins]]
    waiting = [items[::-1].tolist() for items in np.split(ordered, begins[1:])]  # reversed: `pop` takes them in order
    left: Kinds = (OrderedKinds if are_ordered(kinds, counted) else ScaledKinds)(kinds, most, counted)
    counts = list(map(len, waiting))
    rows: list[list[int]] = []
    packed = 0
    while packed < len(sizes):
        row = left.fill_row(counts)
        assert row, "a planned example is larger than a row"
        # the next rows would be the same while items of these kinds last, so make them all now: a long text is cut into
        # thousands of examples of one size
        taken = Counter(row)
        alike = min(counts[kind] // count for kind, count in taken.items())
        assert alike, "a row has more items of a kind than wait"
        rows += [[waiting[kind].pop() for kind in row] for _ in range(alike)]
        packed += alike * len(row)
        for kind, count in taken.items():
            counts[kind] -= alike * count
            if not counts[kind]:
                left.drop(kind)
    return rows


class Kinds(ABC):
    """The distinct size vectors ("kinds") of the items that are not packed yet."""

    @abstractmethod
    def drop(self, kind: int) -> None:
        """Remove a kind that has no items left."""

    @abstractmethod
    def fill_row(self, counts: Sequence[int]) -> list[int]:
        """Return the kinds of the items that one row takes.

        Args:
            counts: items left, by kind.
        """


class FitScores(dict[int, NDArray[np.float64]]):
    """By the space left in a row, each kind's term of the dot product in one dimension; -inf: it does not fit.

    Args:
        sizes: the size of each kind.
        scale: the factor of the product.
        most: the capacity of a row.
        cache_size: how many values of the space left are cached. A small table is computed at once.
    """

    def __init__(self, sizes: NDArray[np.int64], scale: float, most: int, cache_size: int) -> None:
        super().__init__()
        self.sizes, self.scale = sizes.copy(), scale
        self.table = np.empty((min(most + 1, max(1, cache_size)), len(sizes)))
        if most < len(self.table) and self.table.size <= EAGER_TABLE:
            self.table[:] = self.scores_of(np.arange(most + 1)[:, None])
            self.update(enumerate(self.table))

    def scores_of(self, left: int | NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute the terms of all kinds for a space left in a row."""
        found: NDArray[np.float64] = np.where(self.sizes <= left, self.sizes * (left * self.scale), -np.inf)
        return found

    def __missing__(self, left: int) -> NDArray[np.float64]:
        if len(self) == len(self.table):
            self.clear()
        found: NDArray[np.float64] = self.table[len(self)]
        found[:] = self.scores_of(left)
        self[left] = found
        return found

    def drop(self, kind: int) -> None:
        if self.sizes.item(kind) != FITS_NOWHERE:
            self.sizes[kind] = FITS_NOWHERE
            self.table[: len(self), kind] = -np.inf


class ScaledKinds(Kinds):
    """Kinds that compete in several dimensions: every pick compares all of them.

    Args:
        kinds: of shape (kinds, dimensions), in lexicographic order.
        most, counted: as in `fill_rows`.
    """

    def __init__(self, kinds: NDArray[np.int64], most: Sequence[int], counted: int) -> None:
        # without the dimensions that no item uses; at least one must remain
        sizes = [size for size in range(len(most)) if kinds[:, size].any()] or [0]
        self.kinds, self.most = kinds[:, sizes].tolist(), [most[size] for size in sizes]
        cache_size = CACHED_SCORES // (len(kinds) * len(sizes))
        # squared, since both factors of a product, an item's size and the space left, are relative to the capacity
        scales = (1.0 / max(most[size], 1) ** 2 if size < counted else 0.0 for size in sizes)
        first, *others = (
            FitScores(kinds[:, size], scale, most[size], cache_size) for size, scale in zip(sizes, scales, strict=True)
        )
        self.first, self.others = first, list(enumerate(others, start=1))
        self.product = np.empty(len(kinds))

    def drop(self, kind: int) -> None:
        self.first.drop(kind)

    def fill_row(self, counts: Sequence[int]) -> list[int]:
        left, row, kinds = list(self.most), list[int](), self.kinds
        while True:  # the hot loop, kept short: a pick takes about a microsecond, and each example of a run is one
            scores = self.first[left[0]]
            for number, size in self.others:
                scores = np.add(scores, size[left[number]], self.product)
            best = int(scores.argmax())
            if scores.item(best) < 0:
                return row
            row.append(best)
            if row.count(best) == counts[best]:
                self.drop(best)  # this row takes the last items of the kind
            for number, taken in enumerate(kinds[best]):
                left[number] -= taken


def are_ordered(kinds: NDArray[np.int64], counted: int) -> bool:
    """Whether only the first dimension is counted, and kinds that are larger in it are not smaller in any other."""
    steps = np.diff(kinds, axis=0)
    return bool(
        (kinds[:, 0] > 0).all() and (kinds[:, 1:counted] == 0).all() and (steps[:, 0] > 0).all() and (steps >= 0).all()
    )


class OrderedKinds(Kinds):
    """Kinds that `are_ordered`: those that fit come first, and the last of these fits best, so bisection finds it."""

    def __init__(self, kinds: NDArray[np.int64], most: Sequence[int], counted: int) -> None:
        self.most, self.waiting = most, list(range(len(kinds)))
        self.columns: list[list[int]] = kinds.T.tolist()

    def drop(self, kind: int) -> None:
        at = bisect_left(self.waiting, kind)
        for column in (self.waiting, *self.columns):
            del column[at]

    def fill_row(self, counts: Sequence[int]) -> list[int]:
        left, row, taken = list(self.most), list[int](), Counter[int]()
        while True:
            best = min(map(bisect_right, self.columns, left)) - 1  # the last kind that fits in every dimension
            while best >= 0 and taken[best] == counts[self.waiting[best]]:
                best -= 1
            if best < 0:
                return row
            row.append(self.waiting[best])
            taken[best] += 1
            left = [places - column[best] for places, column in zip(left, self.columns, strict=True)]
