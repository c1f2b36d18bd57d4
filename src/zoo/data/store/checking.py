"""Every shard of a token store, byte by byte, and what is kept beside them."""

from collections.abc import Iterator
from pathlib import Path

from zoo.data.sources.repeated import codes, duplicates
from zoo.data.store import trained
from zoo.data.store.shard import INDEX, Shard
from zoo.data.store.store import SHARDS


def shards_of(folder: Path) -> Path | None:
    """The folder of shards that a path stands for; None where it is no token store."""
    if (folder / SHARDS).is_dir():
        return folder / SHARDS
    return folder if folder.name == SHARDS and folder.is_dir() else None


def check_store(shards: Path) -> tuple[int, list[str]]:
    """How many shards are whole, and what is wrong with the others; those lose their index, so that no run reads them.

    Tokenizers, and hashes of texts, are compared whenever they are read, so those that are damaged are only named. What
    a shard was made from is not looked at: another source has other shards.
    """
    whole, faults = 0, []
    for folder in folders_of(shards):
        try:
            shard = Shard(folder)
            found = [f"{fault} (made from {shard.source})" for fault in shard.faults()]
        except FileNotFoundError as missing:
            found = [f"{missing.filename}: no such file"]
        except (OSError, ValueError, KeyError, TypeError) as damage:
            found = [str(damage)]
        whole += not found
        faults += found
        if found:
            (folder / INDEX).unlink(missing_ok=True)
    return whole, [*faults, *faults_beside(shards.parent)]


def folders_of(place: Path) -> list[Path]:
    """What was made in a folder; what another process makes there is hidden."""
    return sorted(path for path in place.glob("[!.]*") if path.is_dir())


def faults_beside(store: Path) -> Iterator[str]:
    """Each tokenizer and each table of hashes that is not what was written."""
    for folder in folders_of(store / trained.FOLDER):
        if fault := trained.fault_of(folder):
            yield f"{folder}: {fault}"
    for name, is_whole in ((codes.FOLDER, codes.read_codes), (duplicates.FOLDER, duplicates.read_marks)):
        for folder in folders_of(store / name):
            if is_whole(folder) is None:
                yield f"{folder}: its checksum does not match"
