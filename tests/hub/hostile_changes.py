"""Changes to a folder on disk: a change takes the folder and a place outside of it where a canary lies."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Change = Callable[[Path, Path], None]
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
TOUCH = "__import__('pathlib').Path('canary-ran').touch()"


class Payload:
    """A pickle that leaves a trace where it is loaded."""

    def __reduce__(self) -> Any:
        return exec, (TOUCH,)


def config(**values: Any) -> Change:
    """Other values in config.json."""
    return merged("config.json", values)


def merged(name: str, values: Any) -> Change:
    def change(folder: Path, outside: Path) -> None:
        tree = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
        (folder / name).write_text(json.dumps({**tree, **values}))

    return change


def put(name: str, content: str | bytes) -> Change:
    """A file with this content."""

    def change(folder: Path, outside: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return change


def after(*changes: Change) -> Change:
    def change(folder: Path, outside: Path) -> None:
        for one in changes:
            one(folder, outside)

    return change


def replaced(name: str, old: str, new: str) -> Change:
    """A text in a file replaced."""

    def change(folder: Path, outside: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return change


def sparse(name: str, size: int, start: bytes = b"") -> Change:
    """A file that claims many bytes and takes none."""

    def change(folder: Path, outside: Path) -> None:
        (folder / name).write_bytes(start)
        os.truncate(folder / name, size)

    return change


def link(name: str, to: str) -> Change:
    """A link; `{outside}` is where the canary lies."""

    def change(folder: Path, outside: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(to.format(outside=outside))

    return change


def moved_out(name: str) -> Change:
    """The true file outside, and a link to it."""

    def change(folder: Path, outside: Path) -> None:
        target = outside / f"{folder.name}-{name}"
        (folder / name).rename(target)
        (folder / name).symlink_to(target)

    return change


def fifo(name: str) -> Change:
    def change(folder: Path, outside: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


def gone(name: str) -> Change:
    return lambda folder, outside: (folder / name).unlink()


def header(edit: Callable[[dict[str, Any]], Any]) -> Change:
    """The weights with another header; `edit` may return the whole header as bytes."""

    def change(folder: Path, outside: Path) -> None:
        content = (folder / WEIGHTS).read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        tree = json.loads(content[8 : 8 + length])
        said = edit(tree)
        text = said if isinstance(said, bytes) else json.dumps(tree).encode()
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])

    return change


def first(**values: Any) -> Callable[[dict[str, Any]], Any]:
    """Other values in the first tensor's entry."""

    def edit(tree: dict[str, Any]) -> None:
        name = next(name for name in tree if name != "__metadata__")
        tree[name] = {**tree[name], **values}

    return edit


def zeros(count: int) -> Callable[[dict[str, Any]], Any]:
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return lambda tree: tree.update({f"bert.flood.{i}": entry for i in range(count)})


def index(where: Any) -> Change:
    """An index in place of the one file; `where` is its weight_map."""

    def change(folder: Path, outside: Path) -> None:
        (folder / WEIGHTS).rename(folder / "model-00001-of-00001.safetensors")
        (folder / INDEX).write_text(json.dumps({"weight_map": where}))

    return change


def tokenizer(edit: Callable[[dict[str, Any]], Any]) -> Change:
    """Another tokenizer.json."""

    def change(folder: Path, outside: Path) -> None:
        tree = json.loads((folder / "tokenizer.json").read_text())
        edit(tree)
        (folder / "tokenizer.json").write_text(json.dumps(tree))

    return change


def splitting(pattern: str) -> Change:
    step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return tokenizer(lambda tree: tree.update(pre_tokenizer=step))
