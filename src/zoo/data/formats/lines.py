"""Lines of a UTF-8 text file, compressed or not."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

LONGEST_LINE = 1 << 28  # bytes; what is longer is not text, and must not fill the memory
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


class LineRange(NamedTuple):
    """Some consecutive lines of a file.

    Args:
        start, stop: bytes of the file as it is stored, each at the beginning of a line; None: the file's end.
        line: the number of the first line.
    """

    path: Path
    start: int = 0
    stop: int | None = None
    line: int = 1


def extension(path: Path) -> str:
    """The file's extension, seen through a compression's: `train.tsv.xz` -> `.tsv`."""
    return (path.with_suffix("") if is_compressed(path) else path).suffix.lower()


def is_compressed(path: Path) -> bool:
    return path.suffix in OPENERS


def read_lines(stretch: LineRange) -> Iterator[str]:
    r"""Each line of a stretch with its end, as `\n`; a byte-order mark is left out.

    Raises:
        ValueError: the file is empty, damaged or not UTF-8 text; the message names the line.
    """
    path, number, at = stretch.path, stretch.line - 1, stretch.start
    try:
        with OPENERS.get(path.suffix, open)(path, "rb") as stream:
            if at:
                stream.seek(at)
            for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), stretch.line):
                yield decode(line, path, number)
                at += len(line)
                if stretch.stop is not None and at >= stretch.stop:
                    break
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{path}: line {number + 1}: the file cannot be read: {error}") from None
    if number == 0:
        raise ValueError(f"{path}: the file is empty")


def decode(line: bytes, path: Path, number: int) -> str:
    """One line as text.

    Raises:
        ValueError: it is not UTF-8, holds a NUL byte, or is longer than `LONGEST_LINE`.
    """
    place = f"{path}: line {number}"
    if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
        raise ValueError(f"{place}: longer than {LONGEST_LINE} bytes, which no text is")
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02X} at column {error.start + 1}"
        raise ValueError(f"{place}: {byte} is not UTF-8; convert the file to UTF-8") from None
    if "\0" in text:
        raise ValueError(f"{place}: NUL byte at column {text.index(chr(0)) + 1}; is this a text file in UTF-8?")
    return text[:-2] + "\n" if text.endswith("\r\n") else text
