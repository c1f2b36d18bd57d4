"""Image columns copied with `datasets`; a separate module, since importing that takes a second."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Value
from datasets.exceptions import DatasetGenerationError

from zoo.data.columns.pictures import Pictures, bytes_or_path
from zoo.data.home import explain_write_error, home

VERSION = 1  # increase it when the same rows give other images
BATCH = 100  # rows in memory at once
KINDS = {"bytes": Value("large_binary"), "path": Value("string")}


def of_rows(values: Iterable[Any], digest: str, folder: Path | None, place: str) -> Pictures:
    """The images that rows hold or name, in random order: copied into the cache when they are first read.

    Args:
        values: the column of images, of at least one row; not read if the cache has them.
        digest: a text that determines the values.
        folder: the folder of files with relative paths; None: only bytes are read.
        place: the location of the rows, for messages.

    Raises:
        ValueError: a value is anything but bytes, the path of a file, or a map of both.
        RuntimeError: the cache cannot be written.
    """

    def rows() -> Iterator[dict[str, Any]]:
        for number, value in enumerate(values, 1):
            try:
                yield dict(zip(KINDS, bytes_or_path(value), strict=True))
            except ValueError as problem:
                raise ValueError(f"{place}: row {number}: {problem}") from None

    cache, decided = home() / "pictures", f"{VERSION} {digest}"
    with explain_write_error(cache):
        try:
            table = Dataset.from_generator(
                rows,
                features=Features(KINDS),  # not `Image`, which looks for each path in the working directory
                cache_dir=str(cache),
                fingerprint=hashlib.sha256(decided.encode()).hexdigest()[:32],
                writer_batch_size=BATCH,
            )
        except DatasetGenerationError as error:
            raise (error.__cause__ or error) from None
    return Pictures(table, folder, place)
