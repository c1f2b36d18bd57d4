"""A data set repository on the Hub, streamed: its files are read over the network part by part and not stored."""

import hashlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset, DatasetBuilder, Features, Image, IterableDataset, load_dataset_builder
from datasets import __version__ as library
from datasets.exceptions import DatasetGenerationError
from datasets.packaged_modules.csv.csv import CsvConfig
from datasets.packaged_modules.parquet.parquet import ParquetConfig
from datasets.utils.file_utils import xgetsize

from zoo.data.columns.picture_table import as_map, of_table
from zoo.data.columns.pictures import Pictures
from zoo.data.formats.class_features import names_in
from zoo.data.home import home
from zoo.data.ids import PICTURE
from zoo.data.sources.file_cache import PART, remember
from zoo.data.sources.origin import Origin
from zoo.data.sources.part import Rows, SourcePart
from zoo.data.sources.remote.csv_files import RepeatedHeaderError, as_written
from zoo.data.sources.remote.hub_errors import cause_of
from zoo.data.sources.remote.row_groups import read_piece

OTHER_NAMES = {"train": ("train",), "validation": ("validation", "valid", "dev", "val"), "test": ("test",)}
BATCH = 50  # rows of a Parquet file in memory at once
PICTURES = "pictures"
PICTURES_VERSION = 1  # increase it when the same rows give other images
logger = logging.getLogger(__name__)


class HubName(NamedTuple):
    """`org/name`, optionally followed by `@REVISION` and `:configuration`."""

    repository: str
    revision: str
    configuration: str

    @classmethod
    def parse(cls, text: str) -> "HubName":
        named, _, configuration = text.partition(":")
        repository, _, revision = named.partition("@")
        return cls(repository, revision, configuration)


class HubFile(NamedTuple):
    """A file of a split, or some row groups of a large Parquet file.

    Args:
        number: of the file in its split, from 0; `files` is how many the split has.
        piece: the number of the piece, from 0; `pieces` is how many the file is cut into.
        name: of the file, for messages.
        size: of the piece as it is stored (bytes).
    """

    number: int
    files: int
    piece: int
    pieces: int
    name: str
    size: int


class HubPart(SourcePart):
    """A file of a repository's split, or some row groups of one."""

    def __init__(self, hub: "Hub", split: str, file: HubFile) -> None:
        self.hub, self.split, self.file = hub, split, file

    @property
    def stored_in(self) -> Path:
        return Path(self.file.name)

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def place(self) -> str:
        piece = f", part {self.file.piece + 1} of {self.file.pieces}" if self.file.pieces > 1 else ""
        return f"hub:{self.hub.name} ({self.split}, {self.file.name}{piece})"

    @property
    def digest(self) -> str:
        decided = [self.hub.named.repository, self.hub.named.configuration, self.hub.revision, self.split]
        return " ".join([*decided, *map(str, self.file[:4])])

    @property
    def columns(self) -> list[str]:
        return self.hub.columns[self.split]

    @property
    def classes(self) -> Mapping[str, Sequence[str]]:
        found: Mapping[str, Sequence[str]] = self.hub.known[self.split]["classes"]
        return found

    def rows(self, wanted: Collection[str]) -> Rows:
        """As `SourcePart.rows`.

        Raises:
            ValueError: a row of a CSV file repeats the header.
            RuntimeError: the repository or the file cannot be read, not even after the retries of `datasets`.
        """
        columns, number = tuple(name for name in self.columns if name in wanted), 0
        try:
            for row in self.hub.rows(self.split, columns, self.file):
                number += 1
                yield row
        except RepeatedHeaderError as error:
            raise ValueError(f"{self.where(number + 1)}: {error}") from None
        except Exception as error:  # network errors have no common base class
            said = "finished shards stay in the token store; repeat the command to continue"
            raise RuntimeError(f"{self.where(number + 1)}: cannot be read: {cause_of(error)}; {said}") from None

    def pictures(self, column: str) -> Pictures:
        """The images of a column, cached on disk when first read, since training reads them in random order."""
        decided = f"{PICTURES_VERSION} {self.digest} {column}"
        try:
            table = Dataset.from_generator(
                lambda: ({PICTURE: as_map(row[column])} for row in self.rows([column])),
                features=Features({PICTURE: Image(decode=False)}),
                cache_dir=str(home() / PICTURES),
                fingerprint=hashlib.sha256(decided.encode()).hexdigest()[:32],
            )
        except DatasetGenerationError as error:
            raise RuntimeError(f"{self.place}: no images in '{column}': {cause_of(error.__cause__ or error)}") from None
        return of_table(table, None, self.place)


class Hub(Origin):
    """A data set repository, streamed from the Hub, or from the cache of `datasets` if the Hub cannot be reached.

    The revision is looked up once and recorded: later runs read the same one, and use the network only to read rows.

    Args:
        name: `org/name`, optionally followed by `@REVISION` and `:configuration`.
        reason: why the repository is used, for the message if it cannot be read.
        setting: where the task names it, for messages.
    """

    def __init__(self, name: str, reason: str, setting: str = "source") -> None:
        self.name, self.named = name, HubName.parse(name)
        self.reason, self.setting = reason, f"{setting}.hub"
        self.opened: dict[tuple[str, ...] | None, tuple[DatasetBuilder, Mapping[str, IterableDataset]]] = {}

    @cached_property
    def revision(self) -> str:
        """The commit that is read."""
        found = str(remember(["hub", *self.named], lambda: self.open(self.named.revision).hash))
        logger.info("%s: %s at revision %s", self.setting, self.name, found)
        return found

    @cached_property
    def known(self) -> dict[str, Any]:
        """Per split, its columns, the names of their classes and its files."""
        found: dict[str, Any] = remember(["hub classes", *self.named, self.revision, library], self.find_files)
        return found

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        return {split: list(found["columns"]) for split, found in self.known.items()}

    def open(self, revision: str) -> DatasetBuilder:
        """The `datasets` builder of the repository.

        Raises:
            ValueError: the repository cannot be reached, or does not exist.
        """
        try:
            return load_dataset_builder(  # without the prefix, a local folder of this name would be read
                f"hf://datasets/{self.named.repository}", self.named.configuration or None, revision=revision or None
            )
        except Exception as error:  # network errors have no common base class
            raise self.refusal(error) from None

    def refusal(self, error: Exception) -> ValueError:
        return ValueError(f"{self.setting}: '{self.name}' cannot be read: {cause_of(error)}{self.reason}")

    def read(self, columns: tuple[str, ...] | None) -> tuple[DatasetBuilder, Mapping[str, IterableDataset]]:
        """A builder for some columns (None: all), and the stream of rows of each split.

        Raises:
            ValueError: the recorded revision cannot be reached, and another one was found.
        """
        if columns not in self.opened:
            builder = self.open(self.revision)
            if builder.hash != self.revision:
                raise self.refusal(ValueError(f"revision {self.revision} cannot be reached; found {builder.hash}"))
            if isinstance(builder.config, ParquetConfig):  # otherwise a whole row group would be in memory
                builder.config.batch_size = BATCH
                builder.config.columns = None if columns is None else list(columns)
            streams = builder.as_streaming_dataset()
            if isinstance(builder.config, CsvConfig):
                streams = {split: as_written(builder, split, stream) for split, stream in streams.items()}
            self.opened[columns] = builder, streams
        return self.opened[columns]

    def stream(self, split: str, columns: tuple[str, ...]) -> IterableDataset:
        """The rows of a split with some columns; images stay encoded."""
        stream = self.read(columns)[1][split]
        stream = stream if stream.features is None else stream.decode(False)
        return stream.select_columns(list(columns))

    def rows(self, split: str, columns: tuple[str, ...], file: HubFile) -> Rows:
        """The rows of a file of a split, or of some of its row groups."""
        stream = self.stream(split, columns)
        if file.pieces == 1:
            return iter(stream.shard(file.files, file.number))
        address = self.read(columns)[0].config.data_files[split][file.number]
        return read_piece(address, file.piece, file.pieces, columns, stream.features)

    def find_files(self) -> dict[str, Any]:
        """Per split, its columns, the names of their classes, and its files, with large Parquet files in pieces."""
        found = {}
        try:
            builder, streams = self.read(None)
            for split, stream in streams.items():
                columns = stream.column_names or list(next(iter(stream), {}))
                listed = (builder.config.data_files or {}).get(split, [])
                files = [file for n in range(stream.num_shards) for file in cut_file(stream, n, listed)]
                classes = names_in(stream.features.to_dict()) if stream.features else {}
                found[str(split)] = {"columns": columns, "classes": classes, "files": files}
        except ValueError:
            raise
        except Exception as error:  # network errors have no common base class
            raise self.refusal(error) from None
        if not found:
            raise ValueError(f"{self.setting}: '{self.name}' has no splits")
        return found

    @cached_property
    def names(self) -> dict[str, str]:
        """Split -> its name in the repository."""
        present = {split: [name for name in names if name in self.known] for split, names in OTHER_NAMES.items()}
        return {split: names[0] for split, names in present.items() if names}

    def splits(self) -> tuple[str, ...]:
        return tuple(self.names)

    def place(self, split: str) -> str:
        return f"hub:{self.name} ({self.names[split]})"

    def parts(self, split: str) -> Sequence[SourcePart]:
        name = self.names[split]
        return [HubPart(self, name, HubFile(*file)) for file in self.known[name]["files"]]


def cut_file(stream: IterableDataset, number: int, listed: Sequence[str]) -> Iterator[HubFile]:
    """Yield a file of a split, in pieces of about `PART` bytes if its format allows that.

    Args:
        listed: the addresses of the split's files, if `datasets` reads each of them as one shard.
    """
    files = stream.num_shards
    if len(listed) != files:
        yield HubFile(number, files, 0, 1, f"file {number + 1} of {files}", 1)
        return
    size = int(xgetsize(listed[number]))
    groups = stream.shard(files, number).reshard().num_shards if size > PART else 1
    pieces = min(groups, -(-size // PART)) or 1
    name = "/".join(str(listed[number]).rpartition("@")[2].split("/")[1:])
    for piece in range(pieces):
        yield HubFile(number, files, piece, pieces, name, size // pieces)
