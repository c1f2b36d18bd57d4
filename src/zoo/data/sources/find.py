"""Find a task's source: its files, a repository if they are missing, or built-in data."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.data.builtin.builtin import builtins
from zoo.data.columns.columns import Columns
from zoo.data.formats.format import ReadOptions, formats
from zoo.data.sources.files import find_files
from zoo.data.sources.filtering import Filtering
from zoo.data.sources.mixed import MixedRows
from zoo.data.sources.origin import SPLITS, TRAIN, Origin
from zoo.data.sources.repeated.duplicates import Duplicates
from zoo.data.sources.rows import SplitRows
from zoo.data.sources.settings import SourceSettings
from zoo.data.sources.splits.reader import SplitReader
from zoo.data.task import Task
from zoo.lazy_import import import_object
from zoo.wording import refuse_unknown

OPTIONS = {"header": None, "quoting": None, "documents": ReadOptions.documents}  # of `FileFormat.heeds`: their defaults
HUB = "zoo.data.sources.remote.repository:Hub"  # loaded only when needed: importing datasets takes a second


def find_origin(source: SourceSettings, data_dir: Path | None, setting: str = "source") -> Origin:
    """Find the origin of a source's rows; `setting` is where the task names the source, for messages.

    Raises:
        ValueError: the source names no data, or a file is missing and no repository is named.
    """
    if not (source.files or source.hub or source.builtin):
        more = ", or several sources under 'mix' (an imported model needs a TASK)" if setting == "source" else ""
        raise ValueError(f"{setting}: no data; name 'files', 'hub' or 'builtin'{more}")
    if source.builtin is not None:
        return builtins.build(source.builtin)
    if not source.files:
        return open_hub(source.hub or "", "", setting)
    try:
        return find_files(source, data_dir, setting)
    except FileNotFoundError as missing:
        if source.hub is None:
            raise ValueError(str(missing)) from None
        return open_hub(source.hub, f"; and {missing}", setting)


def open_hub(name: str, reason: str, setting: str) -> Origin:
    """A repository on the Hub; arguments as `Hub`."""
    hub: Origin = import_object(HUB)(name, reason, setting)
    return hub


def load_rows(
    task: Task,
    inputs: Sequence[str],
    data_dir: Path | None = None,
    splits: Collection[str] | None = None,
    forms: Sequence[Sequence[str]] = (),
) -> dict[str, SplitRows]:
    """The splits of a task; their rows are read when they are iterated over.

    Args:
        inputs: the columns that forms and objectives may read.
        data_dir: the only folder that relative files are looked for in; None: $ZOO_DATA, then the working directory.
        splits: the splits to return; source rows of train are stored with its tokens only if it is named. None: all.
        forms: the columns of each form of examples, the preferred one first: only those of the first one that the data
            has are read. Empty, or if the task names columns: all.

    Raises:
        ValueError: a file is missing, or the source has no such split.
    """
    wanted = {"": task.source} if task.source.mix is None else task.source.mixed()
    readers: dict[str, SplitReader] = {}
    duplicates = Duplicates(lambda: [part for reader in readers.values() for part in reader.compared()])
    for name, source in wanted.items():
        setting = f"source.mix.{name}" if name else "source"
        origin, named = find_origin(source, data_dir, setting), source.columns or task.columns
        refuse_unheeded(origin, vars(task.source) if task.source.mix is None else task.source.mix[name], setting)
        columns = Columns(inputs, named, () if named else forms)
        filtering = Filtering(source.filter, duplicates)
        readers[name] = SplitReader(origin, columns, source.validation, task.labels, task.label_kind, filtering)
    found = {name: splits_of(reader, splits) for name, reader in readers.items()}
    return found[""] if task.source.mix is None else mix(task.source.weights, found)


def refuse_unheeded(origin: Origin, given: Mapping[str, Any], setting: str) -> None:
    """Raise a ValueError if a source itself has an option of reading by which none of its files is read.

    Options next to `mix` may be for one of its sources only.
    """
    for option, default in OPTIONS.items():
        if given.get(option) not in (None, default) and not origin.heeds(option):
            heeding = ", ".join(name for name in formats.names() if option in formats[name].heeds)
            said = f"none of the source's files is read by it, only files of the format {heeding}"
            raise ValueError(f"{setting}.{option}: {said}; leave it out, or set 'format'")


def mix(weights: Mapping[str, float], found: Mapping[str, Mapping[str, SplitRows]]) -> dict[str, SplitRows]:
    """The splits of several sources, each as one `MixedRows`.

    Raises:
        ValueError: some sources have a train split and others do not.
    """
    mixed: dict[str, SplitRows] = {}
    for split in (split for split in SPLITS if any(split in rows for rows in found.values())):
        sources = {name: rows[split] for name, rows in found.items() if split in rows}
        if split == TRAIN and len(sources) < len(found):
            lacking = [name for name in found if name not in sources]
            raise ValueError(f"source.mix.{lacking[0]}: no split '{TRAIN}', which the others have")
        first = next(iter(sources.values()))
        shares = {name: weights[name] for name in sources}
        mixed[split] = MixedRows(first.reader, split, first.is_requested, sources, shares)
    return mixed


def splits_of(reader: SplitReader, splits: Collection[str] | None) -> dict[str, SplitRows]:
    """The splits of one source; arguments as `load_rows`."""
    for split in splits or ():
        refuse_unknown(split, reader.splits(), "split", "source")
    asked = reader.splits() if splits is None else splits
    return {split: SplitRows(reader, split, splits is not None) for split in reader.splits() if split in asked}
