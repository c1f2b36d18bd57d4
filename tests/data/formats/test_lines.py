"""Files that are not text: called by what they are, wherever their first byte that is not text stands."""

import bz2
import gzip
import lzma
from pathlib import Path

import pytest
import zstandard

from zoo.data.formats.lines import LineRange, read_lines


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"ARROW1\0\0\xff", "an Arrow file, which zoo cannot read", id="arrow"),
        pytest.param(b"\xff\xff\xff\xff\x10\0", "an Arrow file, which zoo cannot read", id="arrow stream"),
        pytest.param(b"FEA1\0\0\0\0", "an Arrow file, which zoo cannot read", id="feather"),
        pytest.param("no,text".encode("utf-16"), "text in UTF-16; convert it to UTF-8: iconv -f", id="utf-16"),
        pytest.param(b"\xfe\xff\0a", "text in UTF-16", id="utf-16 of other machines"),
        pytest.param(b"%PDF-1.7\n%\xe2\xe3", "a PDF file; extract its text, with pdftotext", id="pdf"),
        pytest.param(b"PAR1\x15\0", "a Parquet file; end its name with .parquet", id="parquet"),
        pytest.param(
            b"PK\x03\x04\x14\0",
            "a zip archive, or a spreadsheet such as .xlsx; unpack it, or save the sheet as",
            id="zip",
        ),
        pytest.param(b"PK\x03\x04\n\0", "a zip archive, or a spreadsheet such as .xlsx", id="stored zip"),
        pytest.param(
            b"\xd0\xcf\x11\xe0\xa1\xb1",
            "a file of an old Office program, such as .xls; save the sheet as CSV",
            id="xls",
        ),
        pytest.param(gzip.compress(b"one", mtime=0), "compressed by gzip; end its name with .gz", id="gzip"),
        pytest.param(bz2.compress(b"one", 1), "compressed by bzip2; end its name with .bz2", id="quick bzip2"),
        pytest.param(bz2.compress(b"one"), "compressed by bzip2; end its name with .bz2", id="bzip2"),
        pytest.param(lzma.compress(b"one"), "compressed by xz; end its name with .xz", id="xz"),
        pytest.param(zstandard.compress(b"one"), "compressed by zstd; end its name with .zst", id="zstd"),
    ],
)
def test_a_file_that_is_no_text_is_called_by_its_name(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.data"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"a.data: it is {said}"):
        [*read_lines(LineRange(path))]


@pytest.mark.parametrize("name", ["PAR1", "ARROW1", "BZh9", "FEA1"])
def test_a_text_in_another_encoding_is_none_of_them_though_it_begins_like_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(name.encode() + b",text\n1,caf\xe9\n")
    with pytest.raises(ValueError, match="a.csv: line 2: byte 0xE9 at column 6 is not UTF-8; convert the file"):
        [*read_lines(LineRange(path))]
