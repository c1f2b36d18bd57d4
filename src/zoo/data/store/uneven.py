"""Lists that must have equally many entries in every row of a task: the first row that differs is refused."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from zoo.data.ids import StoredFields
from zoo.data.sources.repeated.repeats import RowPlace
from zoo.data.store.split import HeldShard

FirstRows = dict[int, RowPlace]  # by a number of entries, the first row that has so many


def note_first(first: FirstRows, count: int, place: RowPlace) -> None:
    """Keep the place of a row that has so many entries, if it is the first one."""
    if count not in first or place < first[count]:
        first[count] = place


def first_rows(shards: Sequence[HeldShard], column: str) -> FirstRows:
    """By a number of entries, the first row that has so many; reads offsets, and no source.

    Args:
        shards: those of train first.
    """
    first: FirstRows = {}
    splits = list(dict.fromkeys(one.rows.split for one in shards))
    for number, one in enumerate(shards):
        split = one.rows.split
        counts, documents = np.unique(np.diff(one.shard.array(split, f"{column}.units")), return_index=True)
        rows = one.shard.array(split, "rows")
        for count, document in zip(counts.tolist(), documents.tolist(), strict=True):
            note_first(first, count, RowPlace(splits.index(split), number, int(rows[document]) + 1))
    return first


def refuse_uneven(first: Mapping[int, RowPlace], column: str, setting: str, line: Callable[[RowPlace], str]) -> None:
    """Raise a ValueError where two rows have different numbers of entries.

    Args:
        setting: what a task says where they may.
        line: names the place of a row; may read its file.
    """
    if len(first) > 1:
        (usual, row), (other, differs) = sorted(first.items(), key=lambda found: found[1])[:2]
        raise ValueError(
            f"{line(differs)}: the row has {other} {column}, but {line(row)} has {usual}; "
            f"if rows may have different numbers of {column}, set {setting}"
        )


def refuse_uneven_shards(shards: Sequence[HeldShard], stored: StoredFields) -> None:
    """Raise a ValueError where rows of a task's shards differ that must not."""
    for column, setting in stored.even:
        refuse_uneven(
            first_rows(shards, column), column, setting, lambda place: shards[place.part].part.line(place.row)
        )
