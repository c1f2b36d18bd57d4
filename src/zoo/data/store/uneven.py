"""Lists that must have the same number of entries in every row of a task: the first row that differs is refused."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from zoo.data.ids import StoredFields
from zoo.data.sources.repeated.repeats import RowPlace
from zoo.data.store.split import ShardSource

FirstRows = dict[int, RowPlace]  # number of entries -> the first row with that number


def note_first(first: FirstRows, count: int, place: RowPlace) -> None:
    """Record the place of a row under its number of entries, if it is the first such row."""
    if count not in first or place < first[count]:
        first[count] = place


def first_rows(shards: Sequence[ShardSource], column: str) -> FirstRows:
    """For each number of entries that occurs, the first row with that number; reads offsets only, not the source.

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
    """Raise a ValueError if two rows have different numbers of entries.

    Args:
        setting: the task setting that allows this, for the message.
        line: returns where a row is; may read its file.
    """
    if len(first) > 1:
        (usual, row), (other, differs) = sorted(first.items(), key=lambda found: found[1])[:2]
        raise ValueError(
            f"{line(differs)}: the row has {other} {column}, but {line(row)} has {usual}; "
            f"if rows may have different numbers of {column}, set {setting}"
        )


def refuse_uneven_shards(shards: Sequence[ShardSource], stored: StoredFields) -> None:
    """Raise a ValueError if a list that must have the same number of entries in all rows of a task does not."""
    for column, setting in stored.equal_counts:
        refuse_uneven(
            first_rows(shards, column), column, setting, lambda place: shards[place.part].part.line(place.row)
        )
