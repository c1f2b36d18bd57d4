"""A task's source found: its files, a repository where they are not there, or what is built in."""

from collections.abc import Collection, Sequence
from pathlib import Path

from zoo.data.builtin.builtin import builtins
from zoo.data.columns.columns import Columns
from zoo.data.sources.files import find_files
from zoo.data.sources.mixed import MixedRows
from zoo.data.sources.origin import SPLITS, Origin
from zoo.data.sources.repository import Hub
from zoo.data.sources.rows import SplitReader, SplitRows
from zoo.data.task import SourceSettings, Task
from zoo.registry import refuse_unknown


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
        weights = {name: task.source.weights[name] for name in sources}
        mixed[split] = MixedRows(first.reader, split, first.asked, sources, weights)
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
