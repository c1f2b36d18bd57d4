"""The documents of an epoch in an order that is a function of (seed, epoch), without a table of all of them."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from zoo.data.ids import Ids
from zoo.examples.randomness import Purpose, keyed

ORDER = 5  # checkpoints hold it: raise it by 2 where the same (seed, epoch) gives another order
PERMUTED = 1 << 20  # documents that are permuted at once
BLOCK = 256  # documents that lie together, where there are more
POOL = 64  # blocks that are mixed with each other
ROUNDS = 4
KEPT = 32  # orders that are kept, of at most 4 MB each: a mixture takes rows of all its sources in turn


@lru_cache(maxsize=KEPT)
def order(seed: int, epoch: int, documents: int) -> NDArray[np.uint32]:
    """All documents in the order of an epoch."""
    return keyed(Purpose.ORDER, seed, epoch).permutation(documents).astype(np.uint32)


def count_windows(documents: int, window: int) -> int:
    """How many windows an epoch has.

    Args:
        window: documents of a window; a multiple of BLOCK, so that it does not matter where the short last block falls.
    """
    if documents <= PERMUTED:
        return -(-documents // window)
    pools, rest = divmod(-(-documents // BLOCK), POOL)
    return pools * -(-POOL * BLOCK // window) + -(-rest * BLOCK // window)


def window_of(seed: int, epoch: int, documents: int, number: int, window: int) -> Ids:
    """The documents of a window of an epoch.

    Up to PERMUTED documents are permuted all together. Of more, blocks of neighbours are permuted by a formula, and the
    documents of POOL blocks are mixed, so that a store is read in long pieces and a window is found by its number.
    """
    if documents <= PERMUTED:
        return order(seed, epoch, documents)[number * window : (number + 1) * window].astype(np.int64)
    pool, within = divmod(number, -(-POOL * BLOCK // window))
    return mixed_pool(seed, epoch, documents, pool)[within * window : (within + 1) * window]


@lru_cache(maxsize=KEPT)
def mixed_pool(seed: int, epoch: int, documents: int, pool: int) -> Ids:
    """The documents of some blocks that the formula brings together, mixed."""
    blocks = -(-documents // BLOCK)
    chosen = permute(np.arange(pool * POOL, min((pool + 1) * POOL, blocks), dtype=np.uint64), blocks, seed, epoch)
    found = (chosen.astype(np.int64)[:, None] * BLOCK + np.arange(BLOCK)).reshape(-1)
    return keyed(Purpose.POOL, seed, epoch, pool).permutation(found[found < documents])


def permute(numbers: NDArray[np.uint64], size: int, seed: int, epoch: int) -> NDArray[np.uint64]:
    """Where a permutation of 0 … size - 1 takes each number: a Feistel network, walked until it is inside again.

    Source: Black & Rogaway 2002, "Ciphers with Arbitrary Finite Domains", section 3: cycle walking over a domain of at
    most four times the size.
    """
    half = max(1, -(-(size - 1).bit_length() // 2))
    keys = keyed(Purpose.BLOCKS, seed, epoch).integers(0, 2**64, size=ROUNDS, dtype=np.uint64)
    found = encipher(numbers, half, keys)
    while len(outside := np.flatnonzero(found >= size)):
        found[outside] = encipher(found[outside], half, keys)
    return found


def encipher(numbers: NDArray[np.uint64], half: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each number of 2 x half bits as another one."""
    bits, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = numbers >> bits, numbers & mask
    for key in keys:
        left, right = right, left ^ (scramble(right + key) & mask)
    return (left << bits) | right


def scramble(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers of 64 bits, each of which depends on all bits of what it was.

    Source: Steele et al. 2014, "Fast Splittable Pseudorandom Number Generators", figure 16 (with Stafford's constants).
    """
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
