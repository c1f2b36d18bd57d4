"""Arrays of several shards read as numpy reads their concatenation."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from zoo.data.store.joined import join, join_offsets

VALUES = [np.arange(3, dtype=np.uint16), np.arange(3, 3, dtype=np.uint16), np.arange(3, 8, dtype=np.uint16)]
OFFSETS = [np.array([0, 2, 5]), np.array([0, 1]), np.array([0, 3, 4, 9])]


@pytest.mark.parametrize(
    ("joined", "whole"),
    [
        (join([3, 0, 5], VALUES.__getitem__), np.concatenate(VALUES)),
        (join_offsets([2, 1, 3], [5, 1, 9], OFFSETS.__getitem__), np.array([0, 2, 5, 6, 9, 10, 15])),
    ],
    ids=["values", "offsets"],
)
def test_slices_and_indices_are_read_as_numpy_reads_them(joined: Any, whole: Any) -> None:
    bounds = [None, -20, -4, -1, 0, 1, 4, len(whole), 20]
    for start, stop, step in product(bounds, bounds, [None, 2, 20, -1, -3]):
        found = joined[start:stop:step]
        assert found.tolist() == whole[start:stop:step].tolist() and found.dtype == whole.dtype
    for index in range(-len(whole), len(whole)):
        assert joined[index] == whole[index]
    assert joined[[-1, 2]].tolist() == whole[[-1, 2]].tolist() and joined[[]].dtype == whole.dtype
    for beyond in (-len(whole) - 1, len(whole)):
        with pytest.raises(IndexError):
            joined[beyond]
