"""The folder of everything that zoo makes once and keeps: token shards, tokenizers, digests of source files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zoo.disk import at_home


def home() -> Path:
    """$ZOO_CACHE, default `~/.cache/zoo`."""
    named = os.environ.get("ZOO_CACHE")
    return at_home(named) if named else Path.home() / ".cache" / "zoo"


@contextmanager
def name_file(path: Path) -> Iterator[None]:
    """Name the file that cannot be written: a full disk's own error does not."""
    try:
        yield
    except OSError as error:
        raise RuntimeError(f"{path}: cannot be written: {error.strerror}") from None


def replace_file(path: Path, content: str) -> None:
    """Write a small file whole or not at all; of several who write it at once, the last one wins."""
    aside = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}")
    with name_file(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            aside.write_text(content, "utf-8")
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)  # a full disk has room for its name
