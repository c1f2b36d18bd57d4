"""Compressed files as byte streams, decompressed a little at a time: a small file may expand to gigabytes."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import zstandard

from zoo.disk import refuse_pointer

PIECE = 1024  # compressed bytes per step; they expand to at most 32 MiB (zstd) or 8 MB (xz)
BUFFER = 1 << 17  # decompressed bytes per read
FILL = b"\0"  # padding between two xz streams
MEMORY = 1 << 28  # memory limit of a decompressor in bytes (xz -9 needs 65 MiB, zstd --long 128 MiB)
DAMAGE = (EOFError, OSError, lzma.LZMAError, zlib.error, zstandard.ZstdError)  # raised by reading a damaged file


class Unpacker(Protocol):
    """A decompressor of one stream of a file, with the interface of `lzma.LZMADecompressor`."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, packed: bytes, /) -> bytes: ...


class UnpackedFile(io.RawIOBase):
    """The decompressed bytes of a file of one or more streams.

    The libraries' own functions are not safe: `lzma.open` allocates any amount of memory that a file's header asks for,
    `zstandard.open` reads a truncated file without an error, and `bz2.open` one whose second stream is damaged.

    Args:
        begin: makes the decompressor of the next stream.
    """

    def __init__(self, path: Path, begin: Callable[[], Unpacker]) -> None:
        self.file = path.open("rb")
        self.begin = begin
        self.unpacker: Unpacker | None = None
        self.packed = b""
        self.unpacked = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with at most what one decompression step gives; returns the number of bytes, 0 at the end.

        Raises:
            EOFError: the file ends within a stream.
        """
        while not self.unpacked and self.find_packed():
            assert self.unpacker is not None
            self.unpacked = memoryview(self.unpacker.decompress(self.packed))
            self.packed = b""
            if self.unpacker.eof:
                self.packed, self.unpacker = self.unpacker.unused_data.lstrip(FILL), None
        count = min(len(buffer), len(self.unpacked))
        buffer[:count] = self.unpacked[:count]
        self.unpacked = self.unpacked[count:]
        return count

    def find_packed(self) -> bool:
        """Make compressed bytes and a decompressor available; False at the end of the file."""
        while not self.packed:
            self.packed = self.file.read(PIECE)
            if not self.packed:
                if self.unpacker is not None:
                    raise EOFError("its compressed stream is truncated")
                return False
            if self.unpacker is None:
                self.packed = self.packed.lstrip(FILL)
        self.unpacker = self.unpacker or self.begin()
        return True

    def close(self) -> None:
        self.file.close()
        super().close()


def xz_unpacker() -> Unpacker:
    return lzma.LZMADecompressor(memlimit=MEMORY)


def zst_unpacker() -> Unpacker:
    return zstandard.ZstdDecompressor(max_window_size=MEMORY).decompressobj()


OPENERS: dict[str, Callable[[Path], io.BufferedIOBase]] = {
    ".gz": lambda path: gzip.open(path),
    ".bz2": lambda path: io.BufferedReader(UnpackedFile(path, bz2.BZ2Decompressor), BUFFER),
    ".xz": lambda path: io.BufferedReader(UnpackedFile(path, xz_unpacker), BUFFER),
    ".zst": lambda path: io.BufferedReader(UnpackedFile(path, zst_unpacker), BUFFER),
}


def reason(error: Exception) -> str:
    """Why a file cannot be read, without its path, which the operating system's messages would repeat."""
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)


def is_compressed(path: Path) -> bool:
    return path.suffix.lower() in OPENERS


def open_bytes(path: Path) -> io.BufferedIOBase:
    """A file's bytes from its beginning, decompressed if its extension is that of a compressed file.

    Raises:
        ValueError: it is a Git LFS pointer.
    """
    refuse_pointer(path)
    return OPENERS[path.suffix.lower()](path) if is_compressed(path) else path.open("rb")
