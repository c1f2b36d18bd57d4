"""metrics.jsonl: one line for each step; each checkpoint records the file's length and a hash of its lines."""

import io
import json
import logging
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from zoo.runs.files import read_file
from zoo.strict_json import parse_json

Line = dict[str, Any]
VALIDATION = "validation/"  # prefix of the values that validation measured
COST = "without it, the results and curves of the training are unknown"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Mark:
    """Length and hash of metrics.jsonl when a checkpoint was written.

    Args:
        bytes: the length.
        chain: a hash chain over the lines (see `chain_hash`), which a resumed run continues.
    """

    bytes: int = 0
    chain: str = ""


def is_metric(name: str) -> bool:
    """Whether the name of a logged value is a metric, not a loss or a count of examples."""
    words = name.removeprefix(VALIDATION).split("/")
    # loss/<term> is a loss; loss/<objective>/<metric> is a metric of an evaluation file named "loss"
    return words not in (["loss"], ["examples"]) and not (words[0] == "loss" and len(words) == 2)


def sample_size(line: Mapping[str, Any], training: Mapping[str, Any]) -> int | None:
    """The number of validation examples that a log line measured; None: the whole split, even if fewer than asked for.

    Args:
        training: the training settings, with `evaluation_examples`.
    """
    asked: int | None = training.get("evaluation_examples")
    return asked and (None if line.get(f"{VALIDATION}examples", asked) < asked else asked)


def chain_hash(chain: str, line: bytes) -> str:
    """The next link of a hash chain: the hash of the previous link and a line."""
    return sha256(chain.encode() + line).hexdigest()


class MetricsLog:
    """A run's metrics.jsonl, opened for appending at a mark; lines logged after it are cut off.

    A log that does not fit the mark is renamed, and a new one starts.

    Raises:
        ValueError: it cannot be written.
    """

    def __init__(self, path: Path, mark: Mark) -> None:
        self.path = path
        try:
            mark = mark if is_undamaged(path, mark) else Mark()
            # unbuffered: a buffer reports a full disk only later, and once more on close
            self.file = path.open("ab", buffering=0)
        except OSError as error:
            raise ValueError(f"{path}: cannot be written: {error.strerror}") from None
        self.chain = mark.chain
        self.truncate(mark)
        self.length = self.file.tell()  # own count, to notice when another program changes the file

    def truncate(self, mark: Mark) -> None:
        """Truncate the file to a mark."""
        if self.file.tell() > mark.bytes:
            self.file.truncate(mark.bytes)
            self.file.seek(mark.bytes)

    def append(self, line: Mapping[str, Any]) -> None:
        """Append one line; NaN and infinities become null.

        Raises:
            RuntimeError: it cannot be written (a full disk).
        """
        data = json.dumps(finite_only(line), allow_nan=False).encode() + b"\n"
        rest = memoryview(data)  # an unbuffered write may be partial
        try:
            while rest:
                rest = rest[self.file.write(rest) :]
        except OSError as error:
            raise RuntimeError(
                f"{self.path}: cannot be written: {error.strerror}; the checkpoints are undamaged"
            ) from error
        self.chain = chain_hash(self.chain, data)
        self.length += len(data)

    def mark(self) -> Mark:
        """Sync the file to disk, and return its length and hash."""
        self.warn_if_changed()
        os.fsync(self.file.fileno())
        return Mark(self.file.tell(), self.chain)

    def warn_if_changed(self) -> None:
        """Log a warning if the file was deleted, replaced or changed in length by another program."""
        try:
            there, written = self.path.stat(), os.fstat(self.file.fileno())
            whole = os.path.samestat(there, written) and there.st_size == self.length
        except OSError:
            whole = False
        if not whole:
            logger.warning("%s: was deleted or changed during training; %s", self.path, COST)

    def close(self) -> None:
        self.file.close()


def is_undamaged(path: Path, mark: Mark) -> bool:
    """Whether a log fits a mark; if not, rename it, so that a new one can start, and log what is lost."""
    try:
        with path.open("rb") as lines:
            check_start(path, lines, mark)
        return True
    except FileNotFoundError:
        if not mark.bytes:
            return True
        reason = f"{path}: no such file"
    except ValueError as damage:
        reason = f"{damage}; it is kept as {set_aside(path)}"
    logger.warning("%s; a new log starts: the results and curves up to this checkpoint are unknown", reason)
    return False


def set_aside(path: Path) -> str:
    """Rename a log to the first free one of `metrics.jsonl.1`, `.2` …, and return its name."""
    names = (f"{path.name}.{number}" for number in count(1))
    free = next(name for name in names if not path.with_name(name).exists())
    return path.rename(path.with_name(free)).name


def finite_only(line: Mapping[str, Any]) -> Line:
    """A line with NaN and infinities replaced by None, since JSON has neither."""
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in line.items()}


def check_start(path: Path, lines: Iterable[bytes], mark: Mark) -> None:
    """Compare the lines of a metrics.jsonl, up to the length that a mark recorded, with the mark's hash.

    Raises:
        ValueError: the file is shorter, or was changed.
    """
    chain, left = "", mark.bytes
    for line in lines:
        if left <= 0:
            break
        chain, left = chain_hash(chain, line[:left]), left - len(line)
    if left > 0:
        found = mark.bytes - left
        raise ValueError(f"{path}: is damaged, it has {found} bytes, but had {mark.bytes} at the checkpoint")
    if chain != mark.chain:
        raise ValueError(f"{path}: is damaged, the checksum of its first {mark.bytes} bytes does not match")


def first_step(content: bytes) -> int:
    """The step of a log's first line: not 1 if the log replaced a lost one."""
    found = re.match(rb'{"step": (\d+)', content)
    return int(found[1]) if found else 1


def read_metrics(path: Path, mark: Mark) -> list[Line]:
    """Read and check the lines of a metrics.jsonl; an incomplete last line is dropped.

    Args:
        mark: length and hash recorded by a checkpoint of the run.

    Raises:
        ValueError: it is damaged; the message names the line if it can.
    """
    content = read_file(path)
    first = first_step(content)
    try:
        check_start(path, io.BytesIO(content), mark)
    except ValueError:
        if first == 1:
            raise
        raise ValueError(f"{path}: starts at step {first}, since the log before it was lost") from None
    whole = content.split(b"\n")[:-1]  # what follows the last line feed is incomplete, or nothing
    lines = [parse_json(line, f"{path}: line {number}") for number, line in enumerate(whole, 1)]
    # no hash covers lines beyond the mark, but their step numbers must be consecutive
    for number, line in enumerate(lines, 1):
        if line.get("step") != number + (first - 1 if mark.bytes else 0):
            raise ValueError(f"{path}: line {number}: is damaged, it names step {line.get('step')}")
    return lines
