"""Data files: named one by one, by folder or by pattern, and looked up in the data folders."""

import glob
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from zoo.data.formats.compression import is_compressed
from zoo.data.formats.format import DEFAULT, ReadOptions, format_name_of, format_of, formats
from zoo.data.formats.lines import IMAGES, is_image
from zoo.data.sources.file_cache import hashed_ranges, is_empty
from zoo.data.sources.groups import first_of, group_files
from zoo.data.sources.origin import SPLITS, Origin
from zoo.data.sources.part import ColumnFiles, FilePart, SourcePart
from zoo.data.sources.settings import SourceSettings
from zoo.data.sources.walking import matching, walk
from zoo.disk import exists, expand_user, is_file, is_folder, is_link, refuse_empty
from zoo.wording import first_few

Named = Mapping[str, Sequence[Path]]  # column -> its files; "" -> tables
logger = logging.getLogger(__name__)


class Files(Origin):
    """Data files.

    Args:
        paths: for each split, tables under the name "", or text files for each column.
        named: for each split, the files as the task names them, as absolute paths.
        setting: where the task names the source, for messages.
    """

    def __init__(
        self, source: SourceSettings, paths: Mapping[str, Named], named: Mapping[str, str], setting: str
    ) -> None:
        self.source = source
        self.paths = paths
        self.named = named
        self.setting = setting

    def splits(self) -> tuple[str, ...]:
        return tuple(split for split in SPLITS if split in self.paths)

    def place(self, split: str) -> str:
        return " and ".join(map(first_of, self.paths[split].values()))

    def heeds(self, option: str) -> bool:
        listed = ((path, split) for split in self.paths for paths in self.paths[split].values() for path in paths)
        return any(option in format_of(path, self.source.reading(split)).heeds for path, split in listed)

    def cache_name(self, split: str) -> str:
        return f"{self.named[split]} {self.source.reading(split)}"

    def parts(self, split: str) -> Sequence[SourcePart]:
        paths, reading = self.paths[split], self.source.reading(split)
        if "" not in paths:
            rows = zip(*paths.values(), strict=True)
            setting = f"{self.setting}.files.{split}"
            return [ColumnFiles(dict(zip(paths, row, strict=True)), reading, setting) for row in rows]
        each = partial(parts_of, reading=reading)
        return list(group_files(with_rows(paths[""], reading), reading, self.named[split], each))


def with_rows(paths: Sequence[Path], reading: ReadOptions) -> Sequence[Path]:
    """The files that are not empty; if all are, all of them, so that reading them raises an error with their names."""
    if len(paths) == 1:
        return paths
    empty = [path for path in paths if is_empty(path, format_of(path, reading).has_header(reading))]
    if not empty or len(empty) == len(paths):
        return paths
    logger.warning("skipped files without rows: %s", first_few([str(path) for path in empty]))
    return [path for path in paths if path not in set(empty)]


def parts_of(path: Path, reading: ReadOptions) -> Iterator[SourcePart]:
    """A file in parts: a large uncompressed file is cut at line ends if its format allows that."""
    cut = format_of(path, reading).can_cut_at_lines(reading) and not is_compressed(path)
    return (FilePart(known, reading) for known in hashed_ranges(path, cut))


def find_files(source: SourceSettings, data_dir: Path | None, setting: str) -> Files:
    """Find the files that a source names; `setting` is where the task names the source, for messages.

    Raises:
        FileNotFoundError: a file does not exist; the message lists every path tried.
        ValueError: a path is not a file, or the columns have different numbers of files, or a column's file is a table.
    """
    found: dict[str, Named] = {}
    named: dict[str, str] = {}
    for split, files in (source.files or {}).items():
        columns = files if isinstance(files, dict) else {"": files}
        places = {column: f"{setting}.files.{split}.{column}".removesuffix(".") for column in columns}
        looked = {column: find_all(written, data_dir, places[column]) for column, written in columns.items()}
        found[split] = {column: paths for column, (paths, _) in looked.items()}
        named[split] = " ".join(f"{column}:{names}" for column, (_, names) in looked.items())
        counts = {column: len(paths) for column, paths in found[split].items()}
        if len(set(counts.values())) > 1:
            said = ", ".join(f"'{column}' has {count}" for column, count in counts.items())
            raise ValueError(f"{setting}.files.{split}: each column needs as many files as the others, but {said}")
        for column, paths in found[split].items():
            if column:
                refuse_tables(paths, source.reading(split), places[column])
    return Files(source, found, named, setting)


def refuse_tables(paths: Sequence[Path], reading: ReadOptions, place: str) -> None:
    """Raise a ValueError if a file of a column is a table: its lines would be read as texts."""
    for path in paths:
        kind = reading.format or format_name_of(path) or DEFAULT
        if kind != DEFAULT:
            remedy = "name one table, and its columns under 'columns'; if each line is a text, set 'format: text'"
            raise ValueError(f"{place}: {path} would be read as text, not as {kind}; {remedy}")


def find_all(written: str | Sequence[str], data_dir: Path | None, place: str) -> tuple[list[Path], list[str]]:
    """The files that a name, a folder, a pattern or a list of them stands for, and each name as an absolute path.

    Raises:
        FileNotFoundError, ValueError: as `find_files`.
    """
    wanted = [written] if isinstance(written, str) else list(written)
    if not wanted:
        raise ValueError(f"{place}: the list names no file")
    found: dict[Path, str] = {}
    names = []
    for name in wanted:
        paths, full = find_named(name, data_dir, place)
        names.append(full)
        for path in paths:
            if path in found:
                raise ValueError(f"{place}: {path} is named twice, by '{found[path]}' and by '{name}'")
            found[path] = name
    return list(found), names


def find_named(name: str, data_dir: Path | None, place: str) -> tuple[list[Path], str]:
    """Find the files of one name, in the first data folder that has any; also return the name as an absolute path.

    The data folder is --data if that is given, else $ZOO_DATA, then the working directory.
    """
    refuse_empty(name, place)
    root = os.environ.get("ZOO_DATA")
    folders = [expand_user(root)] if root else []
    folders = [*folders, Path.cwd()] if data_dir is None else [expand_user(data_dir)]
    wanted = expand_user(name)
    tried = list(dict.fromkeys(folder / wanted for folder in folders))  # a folder / an absolute path is that path
    for path, folder in zip(tried, folders, strict=False):
        if is_folder(path):
            return files_in_folder(path, place), str(path.absolute())
        if exists(path):
            if not is_file(path):
                raise ValueError(f"{place}: {path} is not a regular file, expected a data file")
            return [path], str(path.absolute())
        if glob.has_magic(name):  # only the name is a pattern: the data folder's path is literal
            # sorted by the parts of the path, as in `files_in_folder`: a pattern and a folder give the same order
            begin, parts = (Path(wanted.anchor), wanted.parts[1:]) if wanted.anchor else (folder, wanted.parts)
            matches = sorted(set(matching(begin, parts, place)), key=lambda file: file.parts)
            if files := [file for file in matches if is_file(file)]:
                refuse_broken(matches, place)
                return files, str(path.absolute())
    looked = ", ".join(str(path) for path in tried)
    what = "no file matches" if glob.has_magic(name) else "no such file"
    raise FileNotFoundError(f"{place}: {what} '{name}'; looked for {looked}; give --data DIR or set ZOO_DATA")


def files_in_folder(folder: Path, place: str) -> list[Path]:
    """The data files of a folder and its subfolders, sorted by path; links are followed, hidden files are left out.

    Raises:
        ValueError: there are none, or a file is a broken link, or a folder cannot be read.
    """
    seen = []
    for within, names in walk(folder, place):
        paths = [within / name for name in names]
        refuse_broken([path for path in paths if format_name_of(path) is not None], place)
        seen += [path for path in paths if is_file(path)]
    seen.sort(key=lambda path: path.parts)
    refuse_saved_dataset(seen, place)
    files = [path for path in seen if format_name_of(path) is not None]
    if not files:
        known = sorted(ending for name in formats.names() for ending in formats[name].extensions)
        hint = f"; {IMAGES}" if any(map(is_image, seen)) else ""
        raise ValueError(f"{place}: {folder} is a folder without a data file; allowed: {', '.join(known)}{hint}")
    if others := [str(path.relative_to(folder)) for path in seen if format_name_of(path) is None]:
        logger.warning("%s: skipped files that no format reads: %s", folder, first_few(others))
    return files


def refuse_broken(paths: Sequence[Path], place: str) -> None:
    """Raise a ValueError if a path is a broken link: its rows would be missing without notice."""
    for path in paths:
        if is_link(path) and not exists(path):
            raise ValueError(
                f"{place}: {path} is a broken link to {path.readlink()}; restore that file, or remove the link"
            )


def refuse_saved_dataset(files: Sequence[Path], place: str) -> None:
    """Refuse a folder that datasets' `save_to_disk` wrote: its rows are Arrow files, and its JSON files are metadata.

    Raises:
        ValueError: names the folder and the remedy.
    """
    saved = [
        path.parent for path in files if path.name == "state.json" and path.with_name("dataset_info.json") in files
    ]
    if saved:
        advice = "write each split with to_parquet, and name that file"
        raise ValueError(f"{place}: {saved[0]} was written by datasets' save_to_disk, which zoo cannot read; {advice}")
