"""Which queries of backend `blocked` are computed together, which keys they read, and where those need a mask."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.blocks.backends.backend import Queries
from zoo.blocks.rows.view import View, Visibility, as_addends
from zoo.devices.precision import has_amx

# Of a row at a time, where they see less than all keys: the rest is not computed. With AMX products are so fast that
# leaving more of them out saves less than it costs.
QUERIES = 256 if has_amx() else 128
WEIGHTS = 2**21  # at a time, of some rows, that they stay in the processor's cache; of a single row four times as many
CUT = 512  # places: in longer rows, documents are computed apart; in shorter ones masks take no longer
LONG = 64  # places: so long a document is computed alone; starting operators for a shorter one costs more than a mask
STEP = 32  # places: what is computed apart is a multiple of so many


class Region(NamedTuple):
    """Places of some rows that see none of the others.

    Args:
        queries, keys: what is computed: its own places, and perhaps some of its neighbours'.
        own: of these, its own; nothing is said of the others. All, where queries and keys are different places.
        masked: whether more is hidden from its own queries than what comes after them in a causal row.
    """

    rows: slice
    queries: slice
    keys: slice
    own: slice
    masked: bool


class Tile(NamedTuple):
    """Queries that are computed together, and the keys that they may see.

    Args:
        own: as in the region.
        masked: of the keys, those that some of the queries may not see.
    """

    rows: slice
    queries: slice
    keys: slice
    own: slice
    masked: slice


class Tiling(NamedTuple):
    """What is computed together, and who sees whom.

    Args:
        regions: all places that see any.
        tiles: the same, some queries at a time.
        several: whether a key may be seen by queries of several tiles.
        complete: whether regions leave no place out.
        causal: whether a query sees nothing that comes after it.
        added: to the scores: -inf where a query may not see a key; None: nowhere. A query that sees none sees all.
        seeing: 0 where a query sees no key at all, else 1; None: everywhere.
    """

    regions: list[Region]
    tiles: list[Tile]
    several: bool
    complete: bool
    causal: bool
    added: Float[Tensor, "rows 1 queries keys"] | None
    seeing: Float[Tensor, "rows 1 queries 1"] | None

    @staticmethod
    def of(view: View, window: int | None, queries: Queries) -> "Tiling":
        """Of one layer."""
        seen, (_, heads, length, _) = view.visibility, queries.shape
        # places of rows of another length are others', and no distance from them bounds what is seen
        aligned = length == seen.n_keys
        regions = regions_of(seen, window) if aligned else [every_place(seen, masked=True)]
        reach = seen.reach(window) if aligned else (None, None)
        tiles = [list(tiles_of(region, reach, heads)) for region in regions]
        several = any(len({tile.queries.start for tile in of_one}) > 1 for of_one in tiles)
        together = [tile for of_one in tiles for tile in of_one]
        complete = sum(map(places_of, regions)) == seen.queries.numbers.numel()
        return Tiling(regions, together, several, complete, seen.causal, *masks(view, window, queries.dtype))

    def added_to(self, rows: slice, queries: slice, keys: slice) -> Tensor | None:
        """What is added to some of the scores."""
        if self.added is None or keys.start == keys.stop:
            return None
        return (self.added[rows] if len(self.added) > 1 else self.added)[:, :, queries, keys]


def places_of(region: Region) -> int:
    """How many queries of its own a region has, in all its rows."""
    return (region.rows.stop - region.rows.start) * width(part_of(region.queries, region.own))


def every_place(seen: Visibility, masked: bool) -> Region:
    """All rows as one region."""
    rows, length = seen.queries.numbers.shape
    return Region(slice(0, rows), slice(0, length), slice(0, seen.n_keys), slice(0, max(length, seen.n_keys)), masked)


def regions_of(seen: Visibility, window: int | None) -> list[Region]:
    """The regions of rows that read themselves, or others of the same length.

    What is compiled sees one: it would be compiled anew for each batch.
    """
    lengths = seen.queries.lengths
    apart = seen.keys is seen.queries and not seen.whole and seen.n_keys > CUT and not torch.compiler.is_compiling()
    if lengths is None or not apart:
        return [every_place(seen, masked=window is not None or not seen.whole)]
    return [region for row, of_row in enumerate(lengths) for region in regions_of_row(row, of_row, seen, window)]


def regions_of_row(row: int, lengths: Sequence[int], seen: Visibility, window: int | None) -> Iterator[Region]:
    """A region for each long document, and for short ones that follow each other until they are as long."""
    start, stop, documents = 0, 0, 0
    for number, length in enumerate(lengths, 1):
        stop, documents = stop + length, documents + 1
        last = number == len(lengths)
        if stop > start and (last or stop - start >= LONG or lengths[number] >= LONG):
            own = slice(start, stop)
            places = widened(own, seen.n_keys)
            # what comes after its own places is hidden in a causal row as it is
            unhidden = places.start < start or (places.stop > stop and not seen.causal)
            yield Region(slice(row, row + 1), places, places, own, window is not None or documents > 1 or unhidden)
            start, documents = stop, 0


def widened(own: slice, most: int) -> slice:
    """These places and some of their neighbours, so that there are few different numbers of them.

    oneDNN compiles kernels for each shape, and remembers them. That takes milliseconds, and what it remembers comes to
    lie between large tensors: with the lengths of documents as they are, a process grew for hundreds of steps.
    """
    length = width(own)
    step = max(STEP, 1 << max(0, length.bit_length() - 4))  # so an eighth more at most, but for the shortest
    wide = min(most, -(-length // step) * step)
    start = min(own.start, most - wide)
    return slice(start, start + wide)


def width(places: slice) -> int:
    return int(places.stop - places.start)


def part_of(places: slice, own: slice) -> slice:
    """Those of some places that are a region's own."""
    return slice(max(places.start, own.start), min(places.stop, own.stop))


def tiles_of(region: Region, reach: tuple[int | None, int | None], heads: int) -> Iterator[Tile]:
    """The tiles of a region whose queries see so far back and ahead (places; None: to its end)."""
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
            # of a causal document, only what the queries themselves see of each other; of a neighbour's queries, all
            apart = masked or start < own.start or stop > own.stop
            hidden = slice(first, last) if apart else slice(start if ahead == 0 else stop, stop)
            yield Tile(slice(row, min(row + step, rows.stop)), slice(start, stop), slice(first, last), own, hidden)


def masks(view: View, window: int | None, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
    """`added` and `seeing` of a tiling, the same for all layers: numbers, since booleans take ten times as long."""
    seen, opened = view.visibility, view.opened(window)
    sees_itself = seen.whole and seen.queries is seen.keys  # so does each place
    blind = None if sees_itself else seen.blind(window)
    added = view.once(("added", window, dtype), lambda: None if opened is None else as_addends(opened, dtype))
    return added, view.once(("seeing", window, dtype), lambda: None if blind is None else (~blind).to(dtype))
