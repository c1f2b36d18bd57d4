"""Arrays spread over many shards, read as one; an array is memory-mapped only when it is read."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]


class Joined:
    """Several arrays, read as their concatenation.

    Args:
        counts: number of values per array.
        array: returns the array with a given number.
    """

    def __init__(self, counts: Sequence[int], array: Callable[[int], Values]) -> None:
        self.starts = [0, *accumulate(counts)]
        self.array = array

    def __len__(self) -> int:
        return self.starts[-1]

    def find(self, index: int) -> int:
        """The number of the array that holds a value."""
        return bisect_right(self.starts, index, hi=len(self.starts) - 1) - 1

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> Any: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int]) -> Values: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step > 0:
                return self.read_range(start, max(start, stop))[::step]
            index = range(start, stop, step)
        if isinstance(index, Sequence):
            return np.array([self[i] for i in index]) if index else self.read_range(0, 0)
        return self.at(range(len(self))[index])

    def at(self, index: int) -> Any:
        """One value."""
        number = self.find(index)
        return self.array(number)[index - self.starts[number]]

    def read_range(self, start: int, stop: int) -> Values:
        """The values start:stop; a range within one array is not copied."""
        number = self.find(start) if start < len(self) else len(self.starts) - 2
        parts = [self.array(number)[start - self.starts[number] : stop - self.starts[number]]]
        while stop > self.starts[number + 1]:
            number += 1
            parts.append(self.array(number)[: stop - self.starts[number]])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def sum(self) -> int:
        return sum(int(self.array(number).sum()) for number in range(len(self.starts) - 1))


class JoinedOffsets(Joined):
    """Offsets into the concatenation of several arrays; the offsets into each array begin with 0 and end with a total.

    Args:
        counts: number of units per array of offsets: one less than its length.
        totals: the last offset of each array of offsets.
    """

    def __init__(self, counts: Sequence[int], totals: Sequence[int], array: Callable[[int], Values]) -> None:
        super().__init__(counts, array)
        self.bases = [0, *accumulate(totals)]

    def __len__(self) -> int:
        return self.starts[-1] + 1

    def at(self, index: int) -> Any:
        number = self.find(min(index, self.starts[-1] - 1))
        return self.bases[number] + int(self.array(number)[index - self.starts[number]])

    def read_range(self, start: int, stop: int) -> Values:
        number = self.find(min(start, self.starts[-1] - 1))
        parts = [self.array(number)[start - self.starts[number] : stop - self.starts[number]] + self.bases[number]]
        while stop > self.starts[number + 1] + 1:
            number += 1
            # without its first offset, 0, which is the last one of the array before
            parts.append(self.array(number)[1 : stop - self.starts[number]] + self.bases[number])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def join(counts: Sequence[int], array: Callable[[int], Values]) -> Any:
    """The concatenation of several arrays; a single array is returned as it is."""
    return array(0) if len(counts) == 1 else Joined(counts, array)


def join_offsets(counts: Sequence[int], totals: Sequence[int], array: Callable[[int], Values]) -> Any:
    """Offsets into several arrays, as offsets into their concatenation."""
    return array(0) if len(counts) == 1 else JoinedOffsets(counts, totals, array)
