"""The folder of everything that zoo caches: token shards, tokenizers, digests of source files."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zoo.disk import atomic_write, expand_user


def home() -> Path:
    """The cache folder: $ZOO_CACHE, by default `~/.cache/zoo`."""
    named = os.environ.get("ZOO_CACHE")
    return expand_user(named) if named else Path.home() / ".cache" / "zoo"


def name_for(key: Any) -> str:
    """A file name for a key of plain JSON values: its hash."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]


@contextmanager
def explain_write_error(path: Path) -> Iterator[None]:
    """Name the file in the error if it cannot be written: the error of a full disk does not.

    Raises:
        RuntimeError: it cannot be written.
    """
    try:
        yield
    except OSError as error:
        remedy = "; set ZOO_CACHE to another folder" if path.is_relative_to(home()) else ""
        raise RuntimeError(f"{path}: cannot be written: {error.strerror}{remedy}") from None


def replace_file(path: Path, content: str) -> None:
    """Write a small file atomically; of several processes that write it at once, the last one wins."""
    with explain_write_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as aside:
            aside.write_text(content, "utf-8")
