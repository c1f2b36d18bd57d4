"""hashes.json of an export: the SHA-256 of every file but the card, and the heads that were never trained.

The card is left out because people edit it. transformers ignores hashes.json and does not save it again with a model,
whose heads may have been trained since.
"""

from collections.abc import Sequence
from pathlib import Path

from zoo.hub.sources.folder import HASHES, CheckpointFolder
from zoo.runs.files import digest, to_json


def hash_files(folder: Path, edited: str, untrained: Sequence[str]) -> bytes:
    """The content of hashes.json for a folder.

    Args:
        edited: the file without a hash, since people may edit it.
        untrained: heads that are newly initialized.
    """
    names = sorted(path.name for path in folder.iterdir() if path.name != edited)
    hashes = {name: digest(folder / name) for name in names}
    return to_json({"sha256": hashes, **({"untrained": list(untrained)} if untrained else {})})


def untrained_heads(folder: CheckpointFolder) -> list[str]:
    """The heads that hashes.json lists as newly initialized; empty if there is no such file.

    Raises:
        ValueError: hashes.json is damaged.
    """
    named = folder.read_json(HASHES).get("untrained", [])
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise ValueError(f"{folder.folder / HASHES}: untrained must be a list of heads, got {named!r:.80}")
    return named


def hash_faults(folder: Path, missing: bool) -> list[str]:
    """The files that differ from hashes.json; empty if a folder has none.

    Args:
        missing: whether a missing file is a fault; a download has only some of the files.

    Raises:
        ValueError: hashes.json is damaged, or a file is a link that leads out of the folder.
    """
    files = CheckpointFolder(folder)
    known = files.read_json(HASHES).get("sha256", {})
    if not isinstance(known, dict):
        raise ValueError(f"{folder / HASHES}: sha256 must be a map of files, got {known!r:.80}")
    there = {name: files.path(name) for name in known if files.has(name)}
    faults = [f"{folder / name}: no such file, but {HASHES} names it" for name in known.keys() - there if missing]
    return faults + [
        f"{folder / name}: damaged or changed after the export (its SHA-256 is not the one in {HASHES}; "
        f"delete {HASHES} if you meant to change the file)"
        for name, path in there.items()
        if digest(path) != known[name]
    ]
