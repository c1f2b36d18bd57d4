"""Generators keyed by what they decide, so that nothing depends on the order in which it is asked."""

from enum import IntEnum
from functools import cached_property

import numpy as np


class Purpose(IntEnum):
    """What a generator draws; it stands first in the key, so that no two purposes share a stream."""

    ORDER = 1
    PLAN = 2
    ROWS = 3
    EXAMPLE = 4
    SAMPLE = 5
    POOL = 6
    BLOCKS = 7
    SOURCE = 8


def keyed(purpose: Purpose, *key: int) -> np.random.Generator:
    """A generator that is a function of its key alone."""
    # numpy pads a short key with zeros: without the purpose, (seed, epoch) and (seed, epoch, 0) would draw the same
    numbers = [purpose, *key]
    if min(numbers) < 0 or max(numbers) >= 1 << 32:
        return np.random.default_rng(numbers)
    # numpy reads a list number by number, which takes longer than all the rest; an array of words draws the same
    return np.random.default_rng(np.array(numbers, np.uint32))


class Randomness:
    """The draws of one example: a generator that is a function of its key, made when it is first asked.

    Most objectives draw nothing, and making a generator takes as long as building a short example.
    """

    def __init__(self, purpose: Purpose, *key: int) -> None:
        self.purpose, self.key = purpose, key

    @cached_property
    def generator(self) -> np.random.Generator:
        return keyed(self.purpose, *self.key)
