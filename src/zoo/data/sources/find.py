"""A task's source found: its files, a repository where they are not there, or what is built in."""

import json
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path

from datasets import Dataset, DatasetDict, Features, Image, load_dataset

from zoo.data.builtin.builtin import builtins
from zoo.data.ids import PICTURE
from zoo.data.sources.columns import Columns
from zoo.data.sources.files import find_files
from zoo.data.sources.mixed import MixedRows
from zoo.data.sources.origin import SPLITS, Origin
from zoo.data.sources.part import Rows, SourcePart
from zoo.data.sources.pictures import Pictures
from zoo.data.sources.rows import SplitReader, SplitRows
from zoo.data.task import SourceSettings, Task
from zoo.registry import refuse_unknown

OTHER_NAMES = {"train": ("train",), "validation": ("validation", "valid", "dev", "val"), "test": ("test",)}


class HubTable(SourcePart):
    """A split of a repository, mapped into memory by `datasets`."""

    def __init__(self, place: str, name: str, data: Dataset) -> None:
        self.named, self.name, self.data = place, name, data

    @property
    def place(self) -> str:
        return self.named

    @property
    def digest(self) -> str:
        paths = [Path(file["filename"]) for file in self.data.cache_files]
        return json.dumps([self.name, *sorted("/".join(path.parts[-5:]) for path in paths)])  # they hold the revision

    @property
    def columns(self) -> list[str]:
        return list(self.data.column_names)

    def rows(self, wanted: Collection[str]) -> Rows:
        kept = [name for name in self.data.column_names if name in wanted]
        return iter(self.data.select_columns(kept).cast(undecoded(self.data.features, kept)))

    def pictures(self, column: str) -> Pictures:
        table = self.data.select_columns([column])
        return Pictures(table.rename_column(column, PICTURE) if column != PICTURE else table, None, self.place)


def undecoded(features: Features, names: Iterable[str]) -> Features:
    """The features of some columns, pictures as the bytes that are stored."""
    kept = {name: features[name] for name in names}
    return Features({name: Image(decode=False) if isinstance(kind, Image) else kind for name, kind in kept.items()})


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
        return [HubTable(self.place(split), self.name, self.data[self.names[split]])]


def find_origin(source: SourceSettings, data_dir: Path | None) -> Origin:
    """Where the rows of a source come from.

    Raises:
        ValueError: a file is missing, and no repository is named.
    """
    if not (source.files or source.hub or source.builtin):
        raise ValueError(
            "source: names no data; one of 'files', 'hub' and 'builtin' is needed (imported models need a TASK)"
        )
    if source.builtin is not None:
        return builtins.build(source.builtin)
    if not source.files:
        return Hub(source.hub or "", "")
    try:
        return find_files(source, data_dir)
    except FileNotFoundError as missing:
        if source.hub is None:
            raise ValueError(str(missing)) from None
        return Hub(source.hub, f"; and {missing}")


def load_rows(
    task: Task, inputs: Sequence[str], data_dir: Path | None = None, splits: Collection[str] | None = None
) -> dict[str, SplitRows]:
    """The splits of a task, each read when its rows are first asked for.

    Args:
        inputs: the columns that forms and objectives may read.
        data_dir: the only folder that relative files are looked for in; None: $ZOO_DATA, then the working directory.
        splits: which to give, rows of which are going to be asked for; None: all there are.

    Raises:
        ValueError: a file is missing, or the source has no such split.
    """
    if task.source.mix is None:
        return rows_of(task, task.source, inputs, data_dir, splits)
    wanted = task.source.mixed()
    found = {name: rows_of(task, source, inputs, data_dir, splits) for name, source in wanted.items()}
    mixed: dict[str, SplitRows] = {}
    for split in (split for split in SPLITS if any(split in rows for rows in found.values())):
        sources = {name: rows[split] for name, rows in found.items() if split in rows}
        if split == "train" and len(sources) < len(found):
            lacking = [name for name in found if name not in sources]
            raise ValueError(f"source.mix.{lacking[0]}: it has no split 'train', as the others have")
        first = next(iter(sources.values()))
        mixed[split] = MixedRows(first.reader, split, first.asked, sources, task.source.weights)
    return mixed


def rows_of(
    task: Task,
    source: SourceSettings,
    inputs: Sequence[str],
    data_dir: Path | None,
    splits: Collection[str] | None,
) -> dict[str, SplitRows]:
    """The splits of one source of a task; as `load_rows`."""
    origin = find_origin(source, data_dir)
    columns = Columns(inputs, task.columns)
    reader = SplitReader(origin, columns, source.validation, task.labels, task.label_kind, source.filter)
    for split in splits or ():
        refuse_unknown(split, reader.splits(), "split", "source")
    asked = reader.splits() if splits is None else splits
    return {split: SplitRows(reader, split, splits is not None) for split in reader.splits() if split in asked}
