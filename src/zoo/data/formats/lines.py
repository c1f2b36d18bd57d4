"""Lines of a UTF-8 text file, compressed or not."""

import io
import mimetypes
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from zoo.data.formats.compression import DAMAGE, is_compressed, open_bytes, reason

LONGEST_LINE = 1 << 26  # bytes; a row may take 16 times as much memory
PIECE = 1 << 20  # bytes of a long line read at once
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BOM = BYTE_ORDER_MARK.decode()  # as a character
IMAGES = "images are read from a table that holds or names them, such as a CSV file with the columns image and label"
UTF_16 = "it is text in UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 OLD > NEW"
ARROW = "it is an Arrow file, which zoo cannot read; convert it to Parquet"
KINDS = {  # first bytes of files that are not text -> what the message says
    b"ARROW1\0\0": ARROW,
    b"FEA1\0\0": ARROW,  # the first version of Feather
    b"\xff\xff\xff\xff": ARROW,  # a stream, as `save_to_disk` of datasets writes it
    b"\xff\xfe": UTF_16,
    b"\xfe\xff": UTF_16,
    b"%PDF-": "it is a PDF file; extract its text, with pdftotext for example",
    b"PAR1\x15": "it is a Parquet file; end its name with .parquet, or set 'format: parquet'",
    b"PK\x03\x04": "it is a zip archive, or a spreadsheet such as .xlsx; unpack it, or save the sheet as CSV in UTF-8",
    b"\xd0\xcf\x11\xe0": "it is a file of an old Office program, such as .xls; save the sheet as CSV in UTF-8",
    b"\x1f\x8b": "it is compressed by gzip; end its name with .gz",
    b"\xfd7zXZ": "it is compressed by xz; end its name with .xz",
    b"(\xb5/\xfd": "it is compressed by zstd; end its name with .zst",
    **{f"BZh{level}1AY".encode(): "it is compressed by bzip2; end its name with .bz2" for level in range(1, 10)},
}
CR_ALONE = r"its lines end with CR alone, as on a classic Mac; convert them to LF: tr '\r' '\n' < OLD > NEW"


class LineRange(NamedTuple):
    """Consecutive lines of a file.

    Args:
        start, stop: byte offsets in the file as stored, each at the beginning of a line; stop None: the file's end.
        line: the number of the first line, from 1.
    """

    path: Path
    start: int = 0
    stop: int | None = None
    line: int = 1


def extension(path: Path) -> str:
    """The file's extension in lowercase, without that of a compression: `train.tsv.xz` -> `.tsv`."""
    return (path.with_suffix("") if is_compressed(path) else path).suffix.lower()


def read_lines(line_range: LineRange) -> Iterator[str]:
    r"""Yield each line of a range as `read_stored_lines`, but with its end as `\n`."""
    return (line[:-2] + "\n" if line.endswith("\r\n") else line for line in read_stored_lines(line_range))


def read_stored_lines(line_range: LineRange) -> Iterator[str]:
    """Yield each line of a range, with its end; a byte-order mark is left out.

    Raises:
        ValueError: the file is empty, damaged or not UTF-8 text; the message names the line.
    """
    path, number, at = line_range.path, line_range.line - 1, line_range.start
    try:
        with open_bytes(path) as stream:
            if at:
                stream.seek(at)
            for number, line in enumerate(iter(lambda: read_line(stream), b""), line_range.line):
                yield decode(line, path, number)
                at += len(line)
                if line_range.stop is not None and at >= line_range.stop:
                    break
    except DAMAGE as error:
        raise ValueError(f"{path}: line {number + 1}: the file cannot be read: {reason(error)}") from None
    if number == 0:
        raise ValueError(f"{path}: the file is empty")


def read_line(stream: io.BufferedIOBase) -> bytes:
    """The next line, up to `LONGEST_LINE` bytes; a long line is cut after a NUL byte, which no text has."""
    pieces = [stream.readline(PIECE)]
    left = LONGEST_LINE - PIECE
    while left > 0 and len(pieces[-1]) == PIECE and not pieces[-1].endswith(b"\n"):
        if b"\0" in pieces[-1]:
            pieces[-1] = pieces[-1][: pieces[-1].index(b"\0") + 1]
            break
        pieces.append(stream.readline(min(PIECE, left)))
        left -= PIECE
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def is_image(path: Path) -> bool:
    """Whether a file has the extension of an image."""
    return (mimetypes.guess_type(path.name)[0] or "").startswith("image/")


def not_text_error(path: Path, number: int, wrong: str) -> ValueError:
    """The error for a file that is not text: its kind, if its first bytes show it, else what is wrong with a line."""
    if is_image(path):
        return ValueError(f"{path}: it is an image; {IMAGES}")
    with open_bytes(path) as stream:  # its first line may be text: a zip archive may begin with PK, two signs and LF
        beginning = stream.read(max(map(len, KINDS)))
    kinds = (said for begin, said in KINDS.items() if beginning.startswith(begin))
    return ValueError(f"{path}: {next(kinds, f'line {number}: {wrong}')}")


def decode(line: bytes, path: Path, number: int) -> str:
    """Decode one line.

    Raises:
        ValueError: it is not UTF-8, holds a NUL byte, or is longer than `LONGEST_LINE`; or lines end with CR alone.
    """
    ended = line.endswith(b"\n")
    # in a file with LF, a CR is text; if the first line does not end with LF, the file has none (up to LONGEST_LINE)
    by_cr = number == 1 and not ended and line.count(b"\r") > 1
    if len(line) == LONGEST_LINE and not ended:
        much = f"line {number}: longer than {LONGEST_LINE} bytes; break it into lines, or into rows"
        raise ValueError(f"{path}: {CR_ALONE if by_cr else much}")
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02X} at column {error.start + 1}"
        # damage of a compressed file shows only at its end, where the checksum is
        damaged = "; or it is damaged: decompress it to see" if is_compressed(path) else ""
        wrong = f"{byte} is not UTF-8; convert the file to UTF-8 (iconv){damaged}"
        raise not_text_error(path, number, wrong) from None
    if "\0" in text:
        wrong = f"NUL byte at column {text.index(chr(0)) + 1}; is this a text file in UTF-8?"
        raise not_text_error(path, number, wrong)
    if by_cr:
        raise ValueError(f"{path}: {CR_ALONE}")
    return text
