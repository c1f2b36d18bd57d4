"""How backend `blocked` cuts attention into regions and tiles of queries and keys, and which of them need a mask."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.blocks.backends.backend import Queries
from zoo.blocks.rows.view import View, Visibility, to_additive_mask
from zoo.devices.precision import has_amx

# Queries per tile where causality or a window hides keys: a smaller tile computes fewer hidden scores. With AMX, matrix
# products are so fast that smaller tiles cost more than they save.
QUERIES = 256 if has_amx() else 128
WEIGHTS = 2**21  # attention weights per tile, so that they stay in the CPU's cache; four times as many for a single row
CUT = 512  # positions: only in longer rows are documents computed separately; in shorter ones a mask is as fast
LONG = 64  # positions: shorter documents are computed together, since operators would cost more than the mask saves
STEP = 32  # positions: lengths of separately computed regions are multiples of this


class Region(NamedTuple):
    """A slice of some rows that attends only to itself: one or more whole documents.

    Args:
        queries, keys: the positions that are computed: the region's own, and perhaps some of its neighbors'.
        own: the region's own positions; results for the others are discarded. All of them in cross-attention.
        masked: whether its own queries need a mask beyond the causal one.
    """

    rows: slice
    queries: slice
    keys: slice
    own: slice
    masked: bool


class Tile(NamedTuple):
    """Queries that are computed in one matrix product, and the keys that they may see.

    Args:
        own: as in the region.
        masked: the range of keys that some of the queries may not see.
    """

    rows: slice
    queries: slice
    keys: slice
    own: slice
    masked: slice


class Tiling(NamedTuple):
    """How a layer's attention is cut into regions and tiles, with its masks.

    Args:
        regions: cover all positions that see any key.
        tiles: the regions cut into blocks of queries.
        shares_keys: whether queries of several tiles may see the same key, so that gradients of keys are sums.
        covers_all: whether the regions cover every position.
        causal: whether a query sees only keys at or before its own index.
        additive_mask: -inf where a query may not see a key, all 0 for a query that sees none; None: no mask.
        sees_any: 0 for a query that sees no key, else 1; None: all see some.
    """

    regions: list[Region]
    tiles: list[Tile]
    shares_keys: bool
    covers_all: bool
    causal: bool
    additive_mask: Float[Tensor, "rows 1 queries keys"] | None
    sees_any: Float[Tensor, "rows 1 queries 1"] | None

    @staticmethod
    def of(view: View, window: int | None, queries: Queries) -> "Tiling":
        """Compute the tiling of one layer; `queries` give the number of heads, the length and the dtype."""
        seen, (_, heads, length, _) = view.visibility, queries.shape
        # for queries and keys of different lengths (cross-attention), distances between indices bound nothing
        aligned = length == seen.n_keys
        regions = regions_of(seen, window) if aligned else [every_place(seen, masked=True)]
        reach = seen.reach(window) if aligned else (None, None)
        tiles = [list(tiles_of(region, reach, heads)) for region in regions]
        several = any(len({tile.queries.start for tile in of_one}) > 1 for of_one in tiles)
        together = [tile for of_one in tiles for tile in of_one]
        complete = sum(map(count_own_queries, regions)) == seen.queries.numbers.numel()
        return Tiling(regions, together, several, complete, seen.causal, *masks(view, window, queries.dtype))

    def mask_for(self, rows: slice, queries: slice, keys: slice) -> Tensor | None:
        """Select a part of the additive mask; None: nothing is masked there."""
        if self.additive_mask is None or keys.start == keys.stop:
            return None
        return (self.additive_mask[rows] if len(self.additive_mask) > 1 else self.additive_mask)[:, :, queries, keys]


def count_own_queries(region: Region) -> int:
    """Number of a region's own queries, over all its rows."""
    return (region.rows.stop - region.rows.start) * width(part_of(region.queries, region.own))


def every_place(seen: Visibility, masked: bool) -> Region:
    """All rows as one region."""
    rows, length = seen.queries.numbers.shape
    return Region(slice(0, rows), slice(0, length), slice(0, seen.n_keys), slice(0, max(length, seen.n_keys)), masked)


def regions_of(seen: Visibility, window: int | None) -> list[Region]:
    """Regions of a batch whose queries and keys have one length.

    Compiled code gets a single region: others differ in each batch and would recompile it.
    """
    lengths = seen.queries.lengths
    apart = seen.keys is seen.queries and not seen.whole and seen.n_keys > CUT and not torch.compiler.is_compiling()
    if lengths is None or not apart:
        return [every_place(seen, masked=window is not None or not seen.whole)]
    return [region for row, of_row in enumerate(lengths) for region in regions_of_row(row, of_row, seen, window)]


def regions_of_row(row: int, lengths: Sequence[int], seen: Visibility, window: int | None) -> Iterator[Region]:
    """Yield a region per long document, and one per run of short documents that together are long enough."""
    start, stop, documents = 0, 0, 0
    for number, length in enumerate(lengths, 1):
        stop, documents = stop + length, documents + 1
        last = number == len(lengths)
        if stop > start and (last or stop - start >= LONG or lengths[number] >= LONG):
            own = slice(start, stop)
            places = widened(own, seen.n_keys)
            # in a causal row, positions after the region's own are hidden by causality alone
            unhidden = places.start < start or (places.stop > stop and not seen.causal)
            yield Region(slice(row, row + 1), places, places, own, window is not None or documents > 1 or unhidden)
            start, documents = stop, 0


def widened(own: slice, most: int) -> slice:
    """Widen a slice by some of its neighbors to a rounded length, so that few different lengths occur.

    oneDNN compiles and caches kernels per shape. Compiling takes milliseconds, and the cache fragments memory: with
    documents' exact lengths, a process grew for hundreds of steps.
    """
    length = width(own)
    step = max(STEP, 1 << max(0, length.bit_length() - 4))  # at most an eighth longer, except for short ones
    wide = min(most, -(-length // step) * step)
    start = min(own.start, most - wide)
    return slice(start, start + wide)


def width(places: slice) -> int:
    """Number of positions in a slice."""
    return int(places.stop - places.start)


def part_of(places: slice, own: slice) -> slice:
    """The part of `places` that is the region's own."""
    return slice(max(places.start, own.start), min(places.stop, own.stop))


def tiles_of(region: Region, reach: tuple[int | None, int | None], heads: int) -> Iterator[Tile]:
    """Yield the tiles of a region; `reach` is how many tokens its queries see back and ahead (None: to its end)."""
    (rows, asking, answering, own, masked), (back, ahead) = region, reach
    n_keys, length = width(answering), width(asking)
    bounded = back is not None or ahead is not None
    some = QUERIES if bounded else max(QUERIES, 4 * WEIGHTS // max(1, heads * n_keys))
    some = max(1, min(length, some))
    step = max(1, WEIGHTS // max(1, heads * some * n_keys))
    for row in range(rows.start, rows.stop, step):
        for start in range(asking.start, asking.stop, some):
            stop = min(start + some, asking.stop)
            if stop <= own.start or own.stop <= start:
                continue
            first = answering.start if back is None else max(answering.start, start - back)
            last = answering.stop if ahead is None else min(answering.stop, stop + ahead)
            # in one causal document only the square on the diagonal needs a mask; with a neighbor's queries, all keys
            apart = masked or start < own.start or stop > own.stop
            hidden = slice(first, last) if apart else slice(start if ahead == 0 else stop, stop)
            yield Tile(slice(row, min(row + step, rows.stop)), slice(start, stop), slice(first, last), own, hidden)


def masks(view: View, window: int | None, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
    """`additive_mask` and `sees_any` of a tiling, cached for all layers; boolean masks would be ten times slower."""
    seen, opened = view.visibility, view.nan_free_mask_and_bias(window)
    sees_itself = seen.whole and seen.queries is seen.keys  # so no query is without a key
    blind = None if sees_itself else seen.sees_no_key(window)
    added = sees_any = None
    if opened is not None:
        added = view.cached(("tiled_mask", window, dtype), lambda: to_additive_mask(opened, dtype))
    if blind is not None:
        sees_any = view.cached(("sees_any", window, dtype), lambda: (~blind).to(dtype))
    return added, sees_any
