"""Every shard of a token store, byte by byte."""

from pathlib import Path

from zoo.data.store.shard import INDEX, Shard
from zoo.data.store.store import SHARDS


def shards_of(folder: Path) -> Path | None:
    """The folder of shards that a path stands for; None where it is no token store."""
    if (folder / SHARDS).is_dir():
        return folder / SHARDS
    return folder if folder.name == SHARDS and folder.is_dir() else None


def check_store(shards: Path) -> tuple[int, list[str]]:
    """How many shards are whole, and what is wrong with the others; those lose their index, so that no run reads them.

    What a shard was made from is not looked at: another source has other shards.
    """
    whole, faults = 0, []
    for folder in sorted(path for path in shards.iterdir() if path.is_dir() and not path.name.startswith(".")):
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
    return whole, faults
