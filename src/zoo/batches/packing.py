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

STEP = 16  # places
REMEMBERED = 1 << 20  # products of kinds and places left that are kept: 8 MB


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
    sizes = [[plan.length for plan in plans], [plan.source_length for plan in plans]]
    if capacities:
        scored = list(map(mixture.scored, plans))
        sizes += [[each[head] for each in scored] for head in capacities]
    table = np.array(sizes, dtype=np.int64).T
    return [tuple(plans[i] for i in row) for row in fill(table, most, counted=2)]


def fill(sizes: NDArray[np.int64], most: Sequence[int], counted: int) -> list[list[int]]:
    """Group items into rows with at most `most` of each size; rows get full in the first `counted` sizes.

    One row after the other takes the item that best fits what it has left, scaled by what a row holds: in one dimension
    the longest that fits.
    Source: Panigrahy et al. 2011, "Heuristics for Vector Bin Packing", the dot-product heuristic, bin by bin.
    """
    kinds, kind_of = np.unique(sizes, axis=0, return_inverse=True)
    waiting: list[list[int]] = [[] for _ in kinds]
    items_of = kind_of.reshape(-1).tolist()
    for item in range(len(sizes) - 1, -1, -1):
        waiting[items_of[item]].append(item)
    left: Kinds = (OrderedKinds if are_ordered(kinds, counted) else ScaledKinds)(kinds, most, counted)
    counts = list(map(len, waiting))
    rows: list[list[int]] = []
    packed = 0
    while packed < len(sizes):
        row = left.fill_row(counts)
        assert row, "a planned example is larger than a row"
        # nothing else is chosen while there are items of these kinds: a long text is cut into thousands of one size
        taken = Counter(row)
        alike = min(counts[kind] // count for kind, count in taken.items())
        rows += [[waiting[kind].pop() for kind in row] for _ in range(alike)]
        packed += alike * len(row)
        for kind, count in taken.items():
            counts[kind] -= alike * count
            if not counts[kind]:
                left.drop(kind)
    return rows


class Kinds(ABC):
    """The different sizes of the items that wait."""

    @abstractmethod
    def drop(self, kind: int) -> None:
        """Forget a kind of which no item waits any more."""

    @abstractmethod
    def fill_row(self, counts: Sequence[int]) -> list[int]:
        """The kinds of the items that one row takes.

        Args:
            counts: by kind, how many items wait.
        """


class ScaledKinds(Kinds):
    """Kinds of several sizes that compete: what fits best is looked up among all of them.

    Args:
        kinds: one size a row, in lexicographic order.
        most, counted: as in `fill`.
    """

    def __init__(self, kinds: NDArray[np.int64], most: Sequence[int], counted: int) -> None:
        self.sizes = [size for size in range(len(most)) if kinds[:, size].any()]
        self.kinds, self.most = kinds[:, self.sizes].tolist(), [most[size] for size in self.sizes]
        self.columns = np.ascontiguousarray(kinds.T)
        self.scale = [1.0 / max(places, 1) ** 2 if i < counted else 0.0 for i, places in enumerate(most)]
        self.gone = np.zeros(len(kinds))  # or -inf, once no item of a kind waits
        self.known: dict[tuple[int, int], NDArray[np.float64]] = {}

    def worth(self, size: int, left: int) -> NDArray[np.float64]:
        """What each kind adds to the product in one size, with so many places left in a row; -inf: it does not fit."""
        if (size, left) not in self.known:
            if (len(self.known) + 1) * len(self.gone) > REMEMBERED:
                self.known.clear()
            column = self.columns[size]
            self.known[size, left] = np.where(column <= left, column * (left * self.scale[size]), -np.inf)
        return self.known[size, left]

    def drop(self, kind: int) -> None:
        self.gone[kind] = -np.inf

    def fill_row(self, counts: Sequence[int]) -> list[int]:
        left, row = self.most, list[int]()
        while True:
            worth = self.gone
            for size, places in zip(self.sizes, left, strict=True):
                worth = worth + self.worth(size, places)
            best = int(worth.argmax())
            if worth[best] < 0:
                return row
            row.append(best)
            if row.count(best) == counts[best]:
                self.drop(best)  # no other row will have any of these items
            left = [places - taken for places, taken in zip(left, self.kinds[best], strict=True)]


def are_ordered(kinds: NDArray[np.int64], counted: int) -> bool:
    """Whether rows get full in the first size alone, and what is larger in it is not smaller in any other."""
    steps = np.diff(kinds, axis=0)
    return bool(
        (kinds[:, 0] > 0).all() and (kinds[:, 1:counted] == 0).all() and (steps[:, 0] > 0).all() and (steps >= 0).all()
    )


class OrderedKinds(Kinds):
    """The same where kinds are ordered: those that fit are the first ones, and the last of them fits best."""

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
            best = min(map(bisect_right, self.columns, left)) - 1
            while best >= 0 and taken[best] == counts[self.waiting[best]]:
                best -= 1
            if best < 0:
                return row
            row.append(self.waiting[best])
            taken[best] += 1
            left = [places - column[best] for places, column in zip(left, self.columns, strict=True)]
