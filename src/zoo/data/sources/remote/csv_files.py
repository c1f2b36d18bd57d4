"""CSV files of a repository on the Hub, with values as they are written, as `files:` reads them."""

import re
from copy import copy
from typing import Any

from datasets import ClassLabel, DatasetBuilder, Features, IterableDataset, Value

from zoo.data.formats.lines import BOM

TEXTS = (Value("string"), Value("large_string"))
# what pandas reads as a missing value; zoo does so in columns of numbers only
NOTHING = """
    #N/A #NA -1.#IND -1.#QNAN -NaN -nan 1.#IND 1.#QNAN <NA> N/A NA NULL NaN None n/a nan null
""".split()


class RepeatedHeaderError(ValueError):
    """A row holds the names of the columns: two files were joined with their headers."""


def as_written(builder: DatasetBuilder, split: str, guessed: IterableDataset) -> IterableDataset:
    """A split of CSV files, with columns as texts unless the dataset card declares their types.

    pandas would read `NA` and `null` as missing values, and 01 as the class 1.

    Args:
        guessed: the split as pandas reads it.

    Raises:
        RepeatedHeaderError: while its rows are read, if one of them holds the names of the columns.
    """
    own = copy(builder)  # other splits may have other columns
    own.config, own.info = copy(builder.config), copy(builder.info)
    if own.info.features is None:
        names = next(filter(None, (columns_of(builder, guessed, n) for n in range(guessed.num_shards))), [])
        own.config.features = own.info.features = Features({name: Value("string") for name in names}) or None
    kinds = own.info.features or {}
    own.config.keep_default_na = False
    nothing = {name: [""] if isinstance(kind, ClassLabel) else ["", *NOTHING] for name, kind in kinds.items()}
    own.config.na_values = {name: words for name, words in nothing.items() if kinds[name] not in TEXTS}
    return own.as_streaming_dataset(split).filter(is_data)


def columns_of(builder: DatasetBuilder, stream: IterableDataset, number: int) -> list[str]:
    """The columns of a CSV file of a split, from its first row."""
    given, builder.config.nrows = builder.config.nrows, 1  # read to the end, so that the file is closed
    try:
        rows = [*stream.shard(stream.num_shards, number)]
    finally:
        builder.config.nrows = given
    return list(rows[0]) if rows else []


def is_data(row: dict[str, Any]) -> bool:
    """Whether a row may be kept, which is always so.

    Raises:
        RepeatedHeaderError: its values are the names of its columns; a list of words may hold its only column's name.
    """
    if len(row) > 1 and all(is_name(value, name) for name, value in row.items()):
        raise RepeatedHeaderError(
            "it repeats the names of the columns; download the file, delete the line, use 'files'"
        )
    return True


def is_name(value: Any, name: str) -> bool:
    """Whether a value is what the file calls a column that pandas calls `name`.

    pandas calls a column without a name `Unnamed: 0` by its number, and a second column `text` `text.1`. A file that
    was joined to others may begin with a byte order mark.
    """
    written = "" if value is None else str(value).removeprefix(BOM)
    if not written:
        return name.startswith("Unnamed: ")
    return re.fullmatch(rf"{re.escape(written)}(\.\d+)?", name) is not None
