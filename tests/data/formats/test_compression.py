"""Compressed and overlong files: whatever is in them, reading takes little memory and says where it ends."""

import bz2
import gzip
import lzma
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard

from zoo.data.formats import lines
from zoo.data.formats.compression import PIECE
from zoo.data.formats.lines import LineRange, read_lines
from zoo.data.sources import file_cache
from zoo.data.sources.file_cache import hashed_ranges

TEXT = b"".join(b"line %d has words\n" % i for i in range(20))
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lambda text: lzma.compress(text, preset=0),
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,  # as the program zstd does
}


def read(path: Path) -> bytes:
    return "".join(read_lines(LineRange(path))).encode()


def refusal(path: Path) -> str:
    with pytest.raises(ValueError) as refused:
        read(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message


@contextmanager
def memory_below(most: int) -> Iterator[None]:
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < most


@pytest.mark.parametrize("ending", PACKERS)
def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path, ending: str) -> None:
    packed, path = PACKERS[ending](TEXT), tmp_path / f"a.txt{ending}"
    for stop in range(1, len(packed)):
        path.write_bytes(packed[:stop])
        assert "the file cannot be read: " in refusal(path)


@pytest.mark.parametrize("ending", PACKERS)
def test_a_flipped_bit_never_gives_another_text(tmp_path: Path, ending: str) -> None:
    packed, path = PACKERS[ending](TEXT), tmp_path / f"a.txt{ending}"
    for place in range(len(packed)):
        path.write_bytes(packed[:place] + bytes([packed[place] ^ 16]) + packed[place + 1 :])
        try:
            assert read(path) == TEXT
        except ValueError as refused:
            assert str(path) in str(refused)


@pytest.mark.parametrize("ending", PACKERS)
def test_streams_that_follow_each_other_are_one_text(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(PACKERS[ending](TEXT) + PACKERS[ending](TEXT))
    assert read(path) == 2 * TEXT


@pytest.mark.parametrize("ending", PACKERS)
def test_what_is_damaged_behind_the_first_stream_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(PACKERS[ending](TEXT) + b"x" + PACKERS[ending](TEXT))
    assert "line 21: the file cannot be read: " in refusal(path)


def test_what_fills_up_a_file_between_streams_of_xz_is_left_out(tmp_path: Path) -> None:
    path, packed = tmp_path / "a.txt.xz", lzma.compress(TEXT)
    for fill in (2048, 2 * PIECE - len(packed) + 4):  # the last piece with some of it has 4 bytes of it
        path.write_bytes(packed + bytes(fill) + packed + bytes(4))
        assert read(path) == 2 * TEXT


@pytest.mark.parametrize("ending", PACKERS)
def test_an_empty_file_is_refused(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"a.txt{ending}").write_bytes(b"")
    assert "the file is empty" in refusal(tmp_path / f"a.txt{ending}")


@pytest.mark.parametrize("ending", [".xz", ".zst"])
def test_a_small_file_that_holds_much_is_unpacked_a_little_at_a_time(tmp_path: Path, ending: str) -> None:
    path, size = tmp_path / f"a.txt{ending}", 96 << 20
    path.write_bytes(PACKERS[ending]((b"x" * (1 << 16 - 1) + b"\n") * (size >> 15)))
    assert path.stat().st_size < 1 << 16
    with memory_below(40 << 20):
        assert sum(map(len, read_lines(LineRange(path)))) >= size


def test_an_xz_file_that_asks_for_gigabytes_of_memory_is_refused(tmp_path: Path) -> None:
    packed = bytearray(lzma.compress(TEXT))
    header = packed[12 : 12 + (packed[12] + 1) * 4]
    header[header.index(0x21) + 2] = 38  # LZMA2's dictionary: 2 GiB
    packed[12 : 12 + len(header)] = header[:-4] + zlib.crc32(header[:-4]).to_bytes(4, "little")
    (tmp_path / "a.txt.xz").write_bytes(packed)
    assert "line 1: the file cannot be read: Memory usage limit exceeded" in refusal(tmp_path / "a.txt.xz")


def test_a_zst_file_that_asks_for_gigabytes_of_memory_is_refused(tmp_path: Path) -> None:
    packer = zstandard.ZstdCompressor().compressobj()
    packed = bytearray(packer.compress(TEXT) + packer.flush())
    packed[5] = (31 - 10) << 3  # the window: 2 GiB
    (tmp_path / "a.txt.zst").write_bytes(packed)
    assert "line 1: the file cannot be read: " in refusal(tmp_path / "a.txt.zst")
    assert "too much memory" in refusal(tmp_path / "a.txt.zst")


def test_a_file_of_nul_bytes_is_hashed_and_refused_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_cache, "PART", 1 << 25)
    with (tmp_path / "a.txt").open("wb") as file:
        file.truncate(5 << 23)  # more than one line_range
    with memory_below(8 << 20):
        assert hashed_ranges(tmp_path / "a.txt", cut=True)
        assert "line 1: NUL byte at column 1; is this a text file in UTF-8?" in refusal(tmp_path / "a.txt")


@pytest.mark.parametrize("size", [5, 8, 9, 12])
def test_a_line_is_read_in_pieces_up_to_the_longest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(lines, "PIECE", 4)
    monkeypatch.setattr(lines, "LONGEST_LINE", 12)
    (tmp_path / "a.txt").write_bytes(b"x" * (size - 1) + b"\nshort\n")
    assert read(tmp_path / "a.txt") == b"x" * (size - 1) + b"\nshort\n"


def test_a_line_that_is_longer_than_any_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "PIECE", 4)
    monkeypatch.setattr(lines, "LONGEST_LINE", 12)
    (tmp_path / "a.txt").write_bytes(b"one\n" + b"x" * 100)
    assert "line 2: longer than 12 bytes; break it into lines, or into rows" in refusal(tmp_path / "a.txt")


def test_a_nul_byte_in_a_long_line_is_named_by_its_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "PIECE", 4)
    (tmp_path / "a.txt").write_bytes("éé12345\0\xff789\n".encode())
    assert "line 1: NUL byte at column 8" in refusal(tmp_path / "a.txt")
