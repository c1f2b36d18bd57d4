"""metrics.jsonl: one line for each step; a checkpoint keeps its length and a hash of its lines."""

import functools
import json
import logging
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from zoo.runs.files import read_file
from zoo.strict_json import parse_json

Line = dict[str, Any]
VALIDATION = "validation/"  # before the name of a value that validation measured
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Mark:
    """How far metrics.jsonl was when a checkpoint was written.

    Args:
        chain: the hash of its lines, each hashed with the hash of all before it, so that a resumed run need not read
            the file again.
    """

    bytes: int = 0
    chain: str = ""


def is_metric(name: str) -> bool:
    """Whether a logged value says how good the model is, apart from its loss."""
    words = name.removeprefix(VALIDATION).split("/")
    # one more word is a metric of a file that is called loss
    return words not in (["loss"], ["examples"]) and not (words[0] == "loss" and len(words) == 2)


def link(chain: str, line: bytes) -> str:
    """The hash of a line and of all before it."""
    return sha256(chain.encode() + line).hexdigest()


class MetricsLog:
    """A run's metrics.jsonl, continued from a mark: lines logged after it are cut off.

    Raises:
        ValueError: it cannot be written.
    """

    def __init__(self, path: Path, mark: Mark) -> None:
        self.path = path
        try:
            # a buffer would notice a full disk only later, and fail a second time when it is closed
            self.file = path.open("ab", buffering=0)
        except OSError as error:
            raise ValueError(f"{path}: cannot be written: {error.strerror}") from None
        self.chain = mark.chain
        self.cut(mark.bytes)
        self.length = self.file.tell()  # of what was written; others may write, or cut

    def cut(self, length: int) -> None:
        """Cut the file back to a length, or to its last whole line where it is shorter."""
        size = self.file.tell()
        if size < length:
            logger.warning("%s: is shorter than when the checkpoint was written: lines are missing", self.path)
            length = self.path.read_bytes().rfind(b"\n") + 1
        if size > length:
            self.file.truncate(length)
            self.file.seek(length)

    def append(self, line: Mapping[str, Any]) -> None:
        """Write one line; what is not finite becomes null.

        Raises:
            RuntimeError: it cannot be written (a full disk).
        """
        data = json.dumps(finite_only(line), allow_nan=False).encode() + b"\n"
        rest = memoryview(data)  # the system may write less than it is given
        try:
            while rest:
                rest = rest[self.file.write(rest) :]
        except OSError as error:
            raise RuntimeError(
                f"{self.path}: cannot be written: {error.strerror}; the checkpoints are undamaged"
            ) from error
        self.chain = link(self.chain, data)
        self.length += len(data)

    def mark(self) -> Mark:
        """How far it is, once the disk has it."""
        self.look_at_file()
        os.fsync(self.file.fileno())
        return Mark(self.file.tell(), self.chain)

    def look_at_file(self) -> None:
        """Say that the file is no longer where it was, or is not as long as what was written."""
        try:
            there, written = self.path.stat(), os.fstat(self.file.fileno())
            whole = os.path.samestat(there, written) and there.st_size == self.length
        except OSError:
            whole = False
        if not whole:
            said = "%s: was deleted or changed during training; zoo export needs it"
            logger.warning(said, self.path)

    def close(self) -> None:
        self.file.close()


def finite_only(line: Mapping[str, Any]) -> Line:
    """A line as JSON has it: numbers that are not finite are null."""
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in line.items()}


def read_metrics(path: Path, mark: Mark) -> list[Line]:
    """The lines of a metrics.jsonl; what a kill left of its last one is dropped.

    Args:
        mark: what a checkpoint of the run knows of it.

    Raises:
        ValueError: it is not what was written; the message names the line where one is at fault.
    """
    content = read_file(path)
    if len(content) < mark.bytes:
        raise ValueError(f"{path}: is damaged, it has {len(content)} bytes, but had {mark.bytes} at the checkpoint")
    if functools.reduce(link, content[: mark.bytes].splitlines(keepends=True), "") != mark.chain:
        raise ValueError(f"{path}: is damaged, the checksum of its first {mark.bytes} bytes does not match")
    whole = content[: content.rfind(b"\n") + 1].split(b"\n")[:-1]
    lines = [parse_json(line, f"{path}: line {number}") for number, line in enumerate(whole, 1)]
    # lines beyond the mark have no hash yet, but a number that must be right
    for number, line in enumerate(lines, 1):
        if line.get("step") != number:
            raise ValueError(f"{path}: line {number}: is damaged, it names step {line.get('step')}")
    return lines
