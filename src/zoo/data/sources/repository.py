"""A repository of data sets, fetched or found in the library's own cache."""

import json
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

from datasets import Dataset, DatasetDict, Image, load_dataset

from zoo.data.columns.pictures import Pictures
from zoo.data.ids import PICTURE
from zoo.data.sources.origin import Origin
from zoo.data.sources.part import Rows, SourcePart

OTHER_NAMES = {"train": ("train",), "validation": ("validation", "valid", "dev", "val"), "test": ("test",)}
ROWS = 1 << 17  # rows that become one shard
BATCH = 250  # rows that are in memory at once


class HubTable(SourcePart):
    """Some rows of a split of a repository, mapped into memory by `datasets`.

    Args:
        rows: of the split.
    """

    def __init__(self, place: str, name: str, data: Dataset, rows: range) -> None:
        self.named, self.name, self.whole, self.range = place, name, data, rows
        self.data = data.select(rows)  # consecutive rows are not copied

    @property
    def place(self) -> str:
        return self.named if self.range.start == 0 else f"{self.named} (rows behind {self.range.start:,})"

    @property
    def digest(self) -> str:
        paths = [Path(file["filename"]) for file in self.whole.cache_files]
        named = sorted("/".join(path.parts[-5:]) for path in paths)  # they hold the revision
        return json.dumps([self.name, *named, self.range.start, self.range.stop])

    @property
    def columns(self) -> list[str]:
        return list(self.data.column_names)

    def rows(self, wanted: Collection[str]) -> Rows:
        kept = self.data.select_columns([name for name in self.data.column_names if name in wanted])
        for name in kept.column_names:
            if isinstance(kept.features[name], Image):
                kept = kept.cast_column(name, Image(decode=False))
        for batch in kept.iter(BATCH):
            yield from (dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True))

    def pictures(self, column: str) -> Pictures:
        table = self.data.select_columns([column])
        return Pictures(table.rename_column(column, PICTURE) if column != PICTURE else table, None, self.place)


class Hub(Origin):
    """A repository of data sets, fetched or found in the library's own cache.

    Args:
        name: `org/name` or `org/name:configuration`.
        reason: why the repository was asked, for the message where it cannot be read.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    @cached_property
    def data(self) -> DatasetDict:
        repository, _, configuration = self.name.partition(":")
        try:
            data = load_dataset(repository, configuration or None)
        except Exception as error:  # the network's errors have no common type
            cause = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ValueError(f"source.hub: '{self.name}' cannot be read: {cause}{self.reason}") from None
        if not isinstance(data, DatasetDict):
            raise ValueError(f"source.hub: '{self.name}' has no splits")
        return data

    @cached_property
    def names(self) -> dict[str, str]:
        """Split -> what the repository calls it."""
        present = {split: [name for name in names if name in self.data] for split, names in OTHER_NAMES.items()}
        return {split: names[0] for split, names in present.items() if names}

    def splits(self) -> tuple[str, ...]:
        return tuple(self.names)

    def place(self, split: str) -> str:
        return f"hub:{self.name} ({self.names[split]})"

    def parts(self, split: str) -> Sequence[SourcePart]:
        data = self.data[self.names[split]]
        starts = range(0, max(1, len(data)), ROWS)
        ranges = [range(start, min(start + ROWS, len(data))) for start in starts]
        return [HubTable(self.place(split), self.name, data, rows) for rows in ranges]
