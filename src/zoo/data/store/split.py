"""A tokenized split: flat ids, offsets of units, labels and byte counts, in one shard per part of its source."""

import json
import logging
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.data.columns.pictures import Pictures
from zoo.data.ids import LABEL, PICTURE, TAGS, Ids, Label, Lengths, Piece, Read
from zoo.data.sources.part import SourcePart
from zoo.data.sources.rows import SplitRows
from zoo.data.sources.splits.numbering import label_key, number_labels
from zoo.data.store.joined import Values, join, join_offsets
from zoo.data.store.shard import Shard, release

logger = logging.getLogger(__name__)
CODED = {"labels": LABEL, f"{TAGS}.ids": TAGS}  # arrays that hold a shard's own label codes -> column


def short_names(paths: Sequence[Path]) -> list[str]:
    """A short, distinct name per path: its file name, if possible without extensions, and as many folders as needed.

    Folders further up are not named, since the names appear in model cards.
    """
    for depth in range(max(len(path.parts) for path in paths)):
        above = [path.parts[max(0, len(path.parts) - 1 - depth) : -1] for path in paths]
        for names in ([path.name.partition(".")[0] for path in paths], [path.name for path in paths]):
            found = ["/".join((*folders, name)) for folders, name in zip(above, names, strict=True)]
            if len(set(found)) == len(found):
                return found
    return [str(path) for path in paths]


class ShardSource(NamedTuple):
    """A shard, and the part of a source that it was made from."""

    shard: Shard
    part: SourcePart
    rows: SplitRows


class Split:
    """A split as training and evaluation read it; its ids stay on disk, memory-mapped.

    Args:
        rows: the split that the shards were made from.
        shards: by source name, the shards of its parts, in their order.
    """

    def __init__(self, rows: SplitRows, shards: Mapping[str, Sequence[Shard]]) -> None:
        self.source, self.shards_by_source = rows, shards
        every = [
            ShardSource(shard, part, one)
            for source, one in rows.sources.items()
            for shard, part in zip(shards[source], one.parts, strict=True)
        ]
        # a part may have no document of this split: all of its rows may be held out, or none
        self.shard_sources = [one for one in every if one.shard.documents(rows.split)]
        self.shards: list[Shard] = [one.shard for one in self.shard_sources]
        self.known = self.shards[0].splits[rows.split]
        entries = [one.shard.splits[rows.split] for one in every]
        self.skipped = sum(found["rows"] - found["documents"] for found in entries)
        fields: list[str] = self.known["fields"]
        self.ids: dict[str, Any] = {field: self.values(f"{field}.ids") for field in fields}
        self.lengths = Lengths(
            {field: self.offsets(f"{field}.offsets") for field in fields},
            self.offsets("sentences") if "sentences" in self.known["arrays"] else None,
            self.label_values(),
            {field: self.offsets(f"{field}.units") for field in fields if f"{field}.units" in self.known["arrays"]},
        )

    @property
    def names(self) -> list[str]:
        """The names of its shards: hashes of everything that determines their content."""
        return [shard.folder.name for shard in self.shards]

    def kinds(self, name: str) -> list[Mapping[str, Any]]:
        """The index entry of an array in each shard."""
        return [shard.arrays(self.source.split)[name] for shard in self.shards]

    def array(self, number: int, name: str) -> Values:
        """One array of one shard; label codes are read as labels."""
        found = self.shards[number].array(self.source.split, name)
        if name not in CODED or self.label_numbers[number] is None:
            return found
        return DecodedLabels(found, self.label_tables[number])  # type: ignore[return-value]

    def values(self, name: str) -> Any:
        """An array, concatenated over all shards."""
        return join([int(kind["count"]) for kind in self.kinds(name)], lambda number: self.array(number, name))

    def offsets(self, name: str) -> Any:
        """Offsets, concatenated over all shards."""
        kinds = self.kinds(name)
        counts, totals = ([int(kind["count"]) - 1 for kind in kinds], [int(kind["total"]) for kind in kinds])
        return join_offsets(counts, totals, lambda number: self.array(number, name))

    def label_values(self) -> Any:
        """The labels of all documents; None if they have none."""
        if "labels" not in self.known["arrays"]:
            return None
        values = self.values("labels")
        if "labels.offsets" not in self.known["arrays"]:
            return values
        return JoinedLabels(self.offsets("labels.offsets"), values, self.shard_sources[0].rows.label_reader.join)

    def of_source(self, source: str) -> "Split":
        """The same split, from one of its sources only."""
        return Split(self.source.sources[source], {"": self.shards_by_source[source]})

    @cached_property
    def label_numbers(self) -> list[dict[tuple[str, str], Label] | None]:
        """Per shard, the number of each label of its source, by `label_key`; None if the store holds the numbers."""
        found = {id(one): one.reader.numbers(one.source) for one in self.source.sources.values()}
        return [found[id(one.rows)] for one in self.shard_sources]

    @cached_property
    def label_tables(self) -> list[NDArray[Any]]:
        """Per shard, the label of each of its label codes."""
        written = [shard.splits[self.source.split]["labels"] for shard in self.shards]
        known = zip(written, self.label_numbers, strict=True)
        return [table_of([numbers[label_key(v)] for v in values] if numbers else []) for values, numbers in known]

    @cached_property
    def starts(self) -> list[int]:
        """Per shard, the number of its first document; last, the number of all documents."""
        return [0, *accumulate(shard.documents(self.source.split) for shard in self.shards)]

    @cached_property
    def by_file(self) -> dict[str, list[int]]:
        """The documents of each file, by the file's short name.

        Empty if the rows of a shard do not come from one file: they come from no file, or many small files share the
        shard.
        """
        found: dict[Path | None, list[int]] = {}
        for number, one in enumerate(self.shard_sources):
            found.setdefault(one.part.stored_in, []).extend(range(self.starts[number], self.starts[number + 1]))
        paths = [path for path in found if path is not None]
        if len(paths) < len(found):
            logger.warning(
                "by_file: %s: not every shard holds one file, so all are measured together", self.source.place
            )
            return {}
        return dict(zip(short_names(paths), found.values(), strict=True))

    def shard_of(self, document: int) -> int:
        """The number of the shard that holds a document."""
        return bisect_right(self.starts, document) - 1

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes in the order of their numbers."""
        return self.source.labels

    @property
    def bytes(self) -> Any:
        """Per document, the number of bytes of the text that a model may be asked to predict."""
        return self.values("bytes")

    @property
    def row_numbers(self) -> Any:
        """Per document, the number of its row in its part of the source, from 0."""
        return self.values("rows")

    def line(self, document: int) -> str:
        """Where the row of a document is, for error messages; reads its file, so call it only to report an error."""
        return self.shard_sources[self.shard_of(document)].part.line(int(self.row_numbers[document]) + 1)

    @cached_property
    def rows(self) -> "StoredRows":
        """The source rows of the documents, one per document; evaluation reads references from them."""
        return StoredRows(self)

    def read(self, piece: Piece) -> Ids:
        """The token ids of a piece, or the numbers of a column of numbers; for an image, its number."""
        return np.asarray(self.ids[piece.field][piece.start : piece.stop]).astype(np.int64)

    def release(self, field: str, first: int, last: int) -> None:
        """Release the memory of the ids of documents first:last, which a pass over the split would otherwise keep."""
        for number in range(self.shard_of(first), self.shard_of(last - 1) + 1):
            release(self.shards[number].array(self.source.split, f"{field}.ids"))

    def reader(self, image_size: int | None) -> Read:
        """A function that reads pieces of examples: token ids, and images as pixels.

        Args:
            image_size: side of the images (pixels); None if no images are read.
        """
        if image_size is None:
            return self.read
        size = image_size

        def read(piece: Piece) -> NDArray[Any]:
            ids = self.read(piece)
            if piece.field != PICTURE:
                return ids
            return self.pictures[self.shard_of(piece.start)].read(int(ids[0]), size)

        return read

    @cached_property
    def pictures(self) -> list[Pictures]:
        """Per shard, the images that its rows refer to by number."""
        return [one.rows.pictures(one.part) for one in self.shard_sources]


def table_of(labels: Sequence[Label]) -> NDArray[Any]:
    """Labels as an array of numbers; as an array of tuples if a label is several classes."""
    if not any(isinstance(label, tuple) for label in labels):
        return np.array(labels, np.float64 if any(isinstance(label, float) for label in labels) else np.int64)
    table = np.empty(len(labels), dtype=object)
    for code, label in enumerate(labels):  # numpy would turn tuples of equal length into a matrix
        table[code] = label
    return table


class DecodedLabels:
    """An array of label codes, read as labels.

    Args:
        table: the label of each code.
    """

    def __init__(self, codes: Values, table: NDArray[Any]) -> None:
        self.codes, self.table = codes, table

    def __getitem__(self, index: Any) -> Any:
        return self.table[self.codes[index]]


class JoinedLabels:
    """The labels of documents that may have several classes each.

    Args:
        offsets: where the entries of each document begin, and where those of the last one end.
        values: the classes of each entry.
        join: combines the entries of a document into one label.
    """

    def __init__(self, offsets: Any, values: Any, join: Callable[[Sequence[Any]], Label]) -> None:
        self.offsets, self.values, self.join = offsets, values, join

    def __getitem__(self, document: int) -> Label:
        return self.join(self.values[int(self.offsets[document]) : int(self.offsets[document + 1])])


class StoredRows:
    """The source rows of a split that were stored with its tokens."""

    def __init__(self, split: Split) -> None:
        if "texts" not in split.known["arrays"]:
            raise ValueError(f"{split.source.split}: its rows are not in the store; zoo evaluate --split keeps them")
        self.split = split
        self.offsets, self.texts = split.offsets("texts.offsets"), split.values("texts")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, document: int) -> dict[str, Any]:
        written = np.asarray(self.texts[int(self.offsets[document]) : int(self.offsets[document + 1])])
        row: dict[str, Any] = json.loads(written.tobytes())
        if LABEL not in row and TAGS not in row:
            return row
        number = self.split.shard_of(document)
        return number_labels(row, self.split.label_numbers[number], self.split.shard_sources[number].rows.label_reader)
