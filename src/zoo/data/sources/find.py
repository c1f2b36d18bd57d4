"""A task's source found: its files, a repository where they are not there, or what is built in."""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from datasets import Dataset, DatasetDict, Features, Image, load_dataset

from zoo.data.builtin.builtin import builtins
from zoo.data.formats.compression import is_compressed
from zoo.data.formats.format import format_of
from zoo.data.ids import PICTURE
from zoo.data.sources.columns import Columns
from zoo.data.sources.known import known_stretches
from zoo.data.sources.origin import SPLITS, Origin
from zoo.data.sources.part import ColumnFiles, FilePart, Rows, SourcePart
from zoo.data.sources.pictures import Pictures
from zoo.data.sources.rows import SplitReader, SplitRows
from zoo.data.task import SourceSettings, Task
from zoo.registry import refuse_unknown

OTHER_NAMES = {"train": ("train",), "validation": ("validation", "valid", "dev", "val"), "test": ("test",)}


class Files(Origin):
    """Data files.

    Args:
        paths: for each split, a table under the name "", or a text file for each column.
    """

    def __init__(self, source: SourceSettings, paths: Mapping[str, Mapping[str, Path]]) -> None:
        self.source = source
        self.paths = paths

    def splits(self) -> tuple[str, ...]:
        return tuple(split for split in SPLITS if split in self.paths)

    def place(self, split: str) -> str:
        return " and ".join(map(str, self.paths[split].values()))

    def parts(self, split: str) -> Sequence[SourcePart]:
        paths, reading = self.paths[split], self.source.reading(split)
        if "" not in paths:
            return [ColumnFiles(paths, reading, f"source.files.{split}")]
        path = paths[""]
        cut = format_of(path, reading).cuts(reading) and not is_compressed(path)
        return [FilePart(known, reading) for known in known_stretches(path, cut)]


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


def find_file(file: str, data_dir: Path | None, place: str) -> Path:
    """The first place where a data file lies: under --data alone where that is given, else $ZOO_DATA or the working
    directory.

    Raises:
        FileNotFoundError: none; the message names every place tried.
        ValueError: something that is not a regular file lies there.
    """
    named = os.environ.get("ZOO_DATA")
    folders = [Path(named).expanduser()] if named else []
    folders = [*folders, Path.cwd()] if data_dir is None else [data_dir]
    # a folder / an absolute path is that path
    tried = list(dict.fromkeys(folder / Path(file).expanduser() for folder in folders))
    found = next((path for path in tried if path.exists()), None)
    if found is None:
        looked = ", ".join(str(path) for path in tried)
        raise FileNotFoundError(f"{place}: no such file '{file}'; looked for {looked}; give --data DIR or set ZOO_DATA")
    if not found.is_file():
        what = "a folder" if found.is_dir() else "not a regular file"
        raise ValueError(f"{place}: {found} is {what}, expected a data file")
    return found


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
    paths: dict[str, dict[str, Path]] = {split: {} for split in source.files or {}}
    try:
        for split, files in (source.files or {}).items():
            for column, file in ({"": files} if isinstance(files, str) else files).items():
                place = f"source.files.{split}.{column}".removesuffix(".")
                paths[split][column] = find_file(file, data_dir, place)
    except FileNotFoundError as missing:
        if source.hub is None:
            raise ValueError(str(missing)) from None
        return Hub(source.hub, f"; and {missing}")
    return Files(source, paths) if source.hub is None or paths else Hub(source.hub, "")


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
    origin = find_origin(task.source, data_dir)
    reader = SplitReader(origin, Columns(inputs, task.columns), task.source.validation, task.labels, task.label_kind)
    for split in splits or ():
        refuse_unknown(split, reader.splits(), "split", "source")
    asked = reader.splits() if splits is None else splits
    return {split: SplitRows(reader, split, splits is not None) for split in reader.splits() if split in asked}
