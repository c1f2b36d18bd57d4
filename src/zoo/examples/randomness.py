"""Random generators keyed by what they decide, so that draws do not depend on the order of calls."""

from enum import IntEnum
from functools import cached_property

import numpy as np


class Purpose(IntEnum):
    """What a generator is used for; the first part of its key, so that no two purposes share a random stream."""

    ORDER = 1
    PLAN = 2
    ROWS = 3
    EXAMPLE = 4
    SAMPLE = 5
    POOL = 6
    BLOCKS = 7
    SOURCE = 8


def keyed(purpose: Purpose, *key: int) -> np.random.Generator:
    """Create a generator that depends only on its purpose and key."""
    # numpy pads a short key with zeros: without the purpose, (seed, epoch) and (seed, epoch, 0) would draw the same
    numbers = [purpose, *key]
    if min(numbers) < 0 or max(numbers) >= 1 << 32:
        return np.random.default_rng(numbers)
    # numpy converts a list number by number, which dominates the time; a uint32 array gives the same stream
    return np.random.default_rng(np.array(numbers, np.uint32))


class Randomness:
    """The random generator of one example, created when it is first used.

    Most objectives draw nothing, and creating a generator takes as long as building a short example.
    """

    def __init__(self, purpose: Purpose, *key: int) -> None:
        self.purpose, self.key = purpose, key

    @cached_property
    def generator(self) -> np.random.Generator:
        return keyed(self.purpose, *self.key)
