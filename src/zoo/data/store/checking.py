"""Verify every shard of a token store, and the tokenizers and text hashes stored beside them."""

from collections.abc import Iterator
from pathlib import Path

from zoo.data.sources.repeated import codes, duplicates
from zoo.data.store import trained
from zoo.data.store.shard import INDEX, Shard
from zoo.data.store.store import SHARDS
from zoo.disk import is_folder


def shards_of(folder: Path) -> Path | None:
    """The folder of shards in a token store, given the store or that folder itself; None for any other path."""
    if is_folder(folder / SHARDS):
        return folder / SHARDS
    return folder if folder.name == SHARDS and is_folder(folder) else None


def check_store(shards: Path) -> tuple[int, list[str]]:
    """Count the intact shards and list all faults; a damaged shard loses its index, so that no run reads it.

    Damaged tokenizers and text hashes are only reported: they are verified again whenever they are read. Shards are not
    compared with their sources: a changed source gets new shards.
    """
    whole, faults = 0, []
    for folder in folders_of(shards):
        try:
            shard = Shard(folder)
            found = [f"{fault} (made from {shard.source})" for fault in shard.faults()]
        except FileNotFoundError as missing:
            found = [f"{missing.filename}: no such file"]
        except (OSError, ValueError) as damage:
            found = [str(damage)]
        except (KeyError, TypeError):  # its checksum matches
            found = [f"{folder / INDEX}: was written by another version of zoo"]
        whole += not found
        faults += found
        if found:
            (folder / INDEX).unlink(missing_ok=True)
    return whole, [*faults, *store_faults(shards.parent)]


def folders_of(place: Path) -> list[Path]:
    """The finished folders in a folder; those that a process is still writing have names that start with a dot."""
    return sorted(path for path in place.glob("[!.]*") if path.is_dir())


def store_faults(store: Path) -> Iterator[str]:
    """Yield a message for each damaged tokenizer and each damaged table of text hashes."""
    for folder in folders_of(store / trained.FOLDER):
        if fault := trained.fault_of(folder):
            yield f"{folder}: {fault}"
    for name, is_whole in ((codes.FOLDER, codes.read_codes), (duplicates.FOLDER, duplicates.read_marks)):
        for folder in folders_of(store / name):
            if is_whole(folder) is None:
                yield f"{folder}: its checksum does not match"
