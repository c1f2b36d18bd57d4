"""The folder of everything that zoo makes once and keeps: token shards, tokenizers, digests of source files."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zoo.disk import at_home, written_aside


def home() -> Path:
    """$ZOO_CACHE, default `~/.cache/zoo`."""
    named = os.environ.get("ZOO_CACHE")
    return at_home(named) if named else Path.home() / ".cache" / "zoo"


def name_for(key: Any) -> str:
    """A name for what a key of plain lists, maps, texts and numbers decides: its hash."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]


@contextmanager
def name_file(path: Path) -> Iterator[None]:
    """Name the file that cannot be written: a full disk's own error does not."""
    try:
        yield
    except OSError as error:
        raise RuntimeError(f"{path}: cannot be written: {error.strerror}") from None


def replace_file(path: Path, content: str) -> None:
    """Write a small file whole or not at all; of several who write it at once, the last one wins."""
    with name_file(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(path) as aside:
            aside.write_text(content, "utf-8")
