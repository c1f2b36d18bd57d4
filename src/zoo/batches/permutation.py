"""Shuffle documents by (seed, epoch); large stores need no table of all documents."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from zoo.data.ids import Ids
from zoo.examples.randomness import Purpose, keyed

# The version of the order, which checkpoints store. Raise it by 2 when the same (seed, epoch) gives another order: the
# number after it stands for windows of fewer documents (`Examples.order_version`).
ORDER_VERSION = 5
LARGEST_TABLE = 1 << 20  # up to this many documents are permuted as a whole
BLOCK = 256  # consecutive documents that stay together in larger stores
POOL = 64  # blocks whose documents are shuffled together
ROUNDS = 4  # of the Feistel network
CACHED_ORDERS = 32  # cached orders, of at most 4 MB each: a mixture takes rows from all its sources in turn


@lru_cache(maxsize=CACHED_ORDERS)
def shuffled_documents(seed: int, epoch: int, documents: int) -> NDArray[np.uint32]:
    """Return all documents in the order of an epoch."""
    return keyed(Purpose.ORDER, seed, epoch).permutation(documents).astype(np.uint32)


def count_windows(documents: int, window: int) -> int:
    """Number of windows in an epoch.

    Args:
        window: documents per window, a power of 2. Windows below BLOCK may be empty where the short last block falls.
    """
    if documents <= LARGEST_TABLE:
        return -(-documents // window)
    pools, rest = divmod(-(-documents // BLOCK), POOL)
    return pools * -(-POOL * BLOCK // window) + -(-rest * BLOCK // window)


def window_of(seed: int, epoch: int, documents: int, number: int, window: int) -> Ids:
    """Return the documents of a window of an epoch.

    Up to LARGEST_TABLE documents are permuted as a whole. In larger stores, a Feistel network permutes blocks of
    consecutive documents, and the documents of POOL blocks are shuffled. So reads are long and sequential, and a
    window's documents follow from its number.
    """
    if documents <= LARGEST_TABLE:
        return shuffled_documents(seed, epoch, documents)[number * window : (number + 1) * window].astype(np.int64)
    pool, within = divmod(number, -(-POOL * BLOCK // window))
    return mixed_pool(seed, epoch, documents, pool)[within * window : (within + 1) * window]


@lru_cache(maxsize=CACHED_ORDERS)
def mixed_pool(seed: int, epoch: int, documents: int, pool: int) -> Ids:
    """Return the documents of one pool of blocks, shuffled."""
    blocks = -(-documents // BLOCK)
    chosen = permute(np.arange(pool * POOL, min((pool + 1) * POOL, blocks), dtype=np.uint64), blocks, seed, epoch)
    found = (chosen.astype(np.int64)[:, None] * BLOCK + np.arange(BLOCK)).reshape(-1)
    # the store's last block may be short
    return keyed(Purpose.POOL, seed, epoch, pool).permutation(found[found < documents])


def permute(numbers: NDArray[np.uint64], size: int, seed: int, epoch: int) -> NDArray[np.uint64]:
    """Map each number to its place in a keyed permutation of 0 … size - 1: a Feistel network with cycle walking.

    Source: Black & Rogaway 2002, "Ciphers with Arbitrary Finite Domains", section 3. The network's domain has at most
    four times the size; results outside of 0 … size - 1 are enciphered again.
    """
    half = max(1, -(-(size - 1).bit_length() // 2))
    keys = keyed(Purpose.BLOCKS, seed, epoch).integers(0, 2**64, size=ROUNDS, dtype=np.uint64)
    found = encipher(numbers, half, keys)
    while len(outside := np.flatnonzero(found >= size)):
        found[outside] = encipher(found[outside], half, keys)
    return found


def encipher(numbers: NDArray[np.uint64], half: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Permute the numbers of 2 x half bits with a Feistel network."""
    bits, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = numbers >> bits, numbers & mask
    for key in keys:
        left, right = right, left ^ (scramble(right + key) & mask)
    return (left << bits) | right


def scramble(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of 64-bit numbers, so that every output bit depends on all input bits.

    Source: Steele et al. 2014, "Fast Splittable Pseudorandom Number Generators", figure 16 (with Stafford's constants).
    """
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
