"""Data files of each format, and each way in which one can be broken."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import zstandard
from datasets import Dataset

from zoo.data.columns.columns import Columns
from zoo.data.formats import parquet
from zoo.data.formats.format import ReadOptions
from zoo.data.sources import file_cache
from zoo.data.sources.checking import checked_rows
from zoo.data.sources.file_cache import hashed_ranges
from zoo.data.sources.files import parts_of
from zoo.data.sources.part import FilePart
from zoo.examples.form import inputs

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".GZ": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
}


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    columns = Columns(inputs(), options.pop("columns", {}))
    reading = ReadOptions(**options)
    part = FilePart(hashed_ranges(path, cut=False)[0], reading)
    return list(checked_rows(part, columns.choose(part.columns, part.place), hides=False, unread=frozenset()))


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(ValueError) as refused:
        read(path, **options)
    assert str(path) in str(refused.value)
    return str(refused.value)


def test_a_text_file_has_one_row_a_line_blank_ones_included(tmp_path: Path) -> None:
    assert read(write(tmp_path, "a.txt", "one\r\n\n three ")) == [{"text": "one"}, {"text": ""}, {"text": " three "}]


def test_a_text_file_can_be_read_by_paragraph_or_whole(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "one\ntwo\n\n \nthree\n")
    assert read(path, documents="blank_line") == [{"text": "one\ntwo"}, {"text": "three"}]
    assert read(path, documents="file") == [{"text": "one\ntwo\n\n \nthree\n"}]


@pytest.mark.parametrize(
    ("documents", "texts"),
    [
        ("file", ["one\ntwo\n", "\nas\n", "longer", " line\n"]),
        ("blank_line", ["one\ntwo", "as", "longer", " line"]),
    ],
)
def test_a_long_text_is_several_documents_with_nothing_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, documents: str, texts: list[str]
) -> None:
    monkeypatch.setattr("zoo.data.formats.text.LONGEST", 8)
    path = write(tmp_path, "a.txt", "one\ntwo\n\nas\nlonger line\n")
    found = [row["text"] for row in read(path, documents=documents)]
    assert all(len(text) <= 8 for text in found)
    assert found == texts


@pytest.mark.parametrize(("ending", "pack"), PACKERS.items())
def test_the_format_is_seen_through_a_compression(tmp_path: Path, ending: str, pack: Any) -> None:
    path = write(tmp_path, f"a.tsv{ending}", pack(b"text\tlabel\nx\t1\n"))
    assert read(path) == [{"text": "x", "label": "1"}]


def test_quotes_are_text_in_tsv_and_hold_fields_together_in_csv(tmp_path: Path) -> None:
    assert read(write(tmp_path, "a.tsv", 'text\tpair\n"x\ty"\n')) == [{"text": '"x', "pair": 'y"'}]
    assert read(write(tmp_path, "a.csv", 'text,pair\n"x,\n""y""",z\n')) == [{"text": 'x,\n"y"', "pair": "z"}]
    assert read(write(tmp_path, "b.tsv", 'text\n"a ""b"""\n'), quoting="csv") == [{"text": 'a "b"'}]


def test_empty_strings_and_words_like_null_stay_text(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "text,pair\nnull,\nNA,nan\n")
    assert read(path) == [{"text": "null", "pair": ""}, {"text": "NA", "pair": "nan"}]


def test_a_long_field_is_read_whole(tmp_path: Path) -> None:
    assert len(read(write(tmp_path, "a.csv", "text\n" + "x" * 200_000))[0]["text"]) == 200_000


def test_a_header_can_be_given(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "x\t1\n\ny\t0\n")
    assert read(path, header=("text", "label")) == [{"text": "x", "label": "1"}, {"text": "y", "label": "0"}]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    assert read(write(tmp_path, "a.csv", "\ufefftext\nx\n")) == [{"text": "x"}]


def test_bytes_that_are_not_utf8_are_refused_by_line_and_column(tmp_path: Path) -> None:
    assert "line 2: byte 0xE9 at column 3 is not UTF-8" in refusal(
        write(tmp_path, "a.txt", b"one\ncaf\xe9"[:4] + b"ca\xe9")
    )


def test_a_nul_byte_is_refused_by_line(tmp_path: Path) -> None:
    assert "line 2: NUL byte at column 2" in refusal(write(tmp_path, "a.txt", "one\nt\0wo\n"))


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl"])
def test_lines_that_end_with_cr_alone_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = write(tmp_path, name, 'text\r"one"\rtwo\r')
    said = f"{path}: its lines end with CR alone, as on a classic Mac; "
    said += r"convert them to LF: tr '\r' '\n' < OLD > NEW"
    assert refusal(path) == said
    monkeypatch.setattr("zoo.data.formats.lines.LONGEST_LINE", 12)  # one that is longer than what is read of it
    assert refusal(path) == said


def test_a_cr_within_a_line_is_text(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "10%\r20%\r\ndone\r!")
    assert read(path) == [{"text": "10%\r20%"}, {"text": "done\r!"}]
    assert read(write(tmp_path, "c.txt", "one\nthe\rlast\rline")) == [{"text": "one"}, {"text": "the\rlast\rline"}]
    assert read(write(tmp_path, "b.txt", "all of it\r, with one")) == [{"text": "all of it\r, with one"}]


def test_a_column_named_twice_is_refused(tmp_path: Path) -> None:
    assert "line 1: column 'text' is named twice" in refusal(write(tmp_path, "a.csv", "text,text\nx,y\n"))


@pytest.mark.parametrize(("row", "count"), [("x", "1 column"), ("x\ty\tz", "3 columns")])
def test_short_and_long_rows_are_refused_by_line(tmp_path: Path, row: str, count: str) -> None:
    path = write(tmp_path, "a.tsv", f"text\tlabel\na\tb\n{row}\n")
    assert f"line 3: {count}, expected 2 (text, label)" in refusal(path)


def test_an_unclosed_quote_is_named_by_the_line_where_it_opens(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'text\nx\n"y\nz\n')
    assert "line 3: a quote opens here and is never closed; with 'quoting: none', quotes are text" in refusal(path)


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    assert "the file is empty" in refusal(write(tmp_path, name, ""))


def test_a_header_alone_is_no_row(tmp_path: Path) -> None:
    assert "it has no rows" in refusal(write(tmp_path, "a.csv", "text,label\n"))


def test_a_missing_column_names_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "text,label\nx,1\n")
    message = "unknown column 'lable' (did you mean 'label'?); allowed: text, label"
    assert message in refusal(path, columns={"text": "text", "label": "lable"})


def test_data_without_an_inputs_name_asks_for_columns(tmp_path: Path) -> None:
    message = refusal(write(tmp_path, "a.csv", "sentence,a|b\nx,1\n"))
    assert message.endswith("found: sentence, a|b; name those to read under 'columns'")


@pytest.mark.parametrize(
    ("name", "header"), [("a.csv", "a;b"), ("a.csv", "a\tb"), ("a.csv", '"a, b"'), ("a.tsv", "a, b"), ("a.tsv", "a|b")]
)
def test_a_table_that_may_have_another_delimiter_is_told_so(tmp_path: Path, name: str, header: str) -> None:
    path = write(tmp_path, name, f"{header}\nx\n")
    said = "; if it should be several columns: a .csv file needs commas between fields, a .tsv file tabs"
    assert refusal(path).endswith(f"name those to read under 'columns'{said}")
    assert refusal(path, columns={"text": "a", "label": "b"}).endswith(said)


def test_columns_are_named_by_the_inputs(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "q,a,other\nx,y,z\n")
    assert read(path, columns={"source": "q", "target": "a"}) == [{"source": "x", "target": "y"}]


def test_json_lines_hold_texts_numbers_and_lists(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "a", "label": 1, "id": null}\n\n{"text": "b", "label": 0}\n')
    assert read(path) == [{"text": "a", "label": 1}, {"text": "b", "label": 0}]
    lists = write(tmp_path, "b.jsonl", '{"target": ["a", "b"]}\n{"target": ["c"]}\n')
    assert read(lists) == [{"target": ["a", "b"]}, {"target": ["c"]}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[1]", "line 2: expected a JSON object, got [1]"),
        ('{"text": "a", "text": "b"}', "line 2: not JSON: the key 'text' is written twice"),
        ('{"text": NaN}', "line 2: not JSON: NaN is not a number"),
        ('{"other": "a"}', "line 2: column 'text' is missing"),
        ('{"text": 3}', "line 2: 'text' must be a text, got 3"),
        ('{"text": "\\ud800"}', "line 2: 'text': character 1 is a lone surrogate"),
        ("[" * 100_000, "line 2: not JSON"),
    ],
)
def test_a_broken_json_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    assert message in refusal(write(tmp_path, "a.jsonl", f'{{"text": "fine"}}\n{line}\n'))


def test_kinds_that_change_within_a_column_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "a"}\n{"text": ["b"]}\n')
    assert "line 2: 'text' must be a text, as in the rows before, got ['b']" in refusal(path)
    path = write(tmp_path, "b.jsonl", '{"text": ["a"]}\n{"text": "b"}\n')
    assert "line 2: 'text' must be a list of texts, as in the rows before, got 'b'" in refusal(path)


def test_stretches_of_lines_make_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a.tsv", "text\tlabel\n" + "".join(f"text {i} é\t{i}\n" for i in range(40)))
    whole = read(path)
    monkeypatch.setattr(file_cache, "PART", 64)
    parts = [FilePart(line_range, ReadOptions()) for line_range in hashed_ranges(path, cut=True)]
    assert [row for part in parts for row in part.rows([])] == whole and len(parts) > 5
    assert sum(part.size for part in parts) == path.stat().st_size


def test_paragraphs_of_a_long_file_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_cache, "PART", 64)
    text = "one line of words\nand its second one\nand a third"
    parts = parts_of(write(tmp_path, "a.txt", f"{text}\n\n" * 9), ReadOptions(documents="blank_line"))
    assert [row["text"] for part in parts for row in part.rows([])] == [text] * 9


def test_what_is_written_behind_a_long_file_leaves_its_first_stretches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_cache, "PART", 64)
    path = write(tmp_path, "a.txt", "a line of text\n" * 20)
    before = [digest for _, digest, _ in hashed_ranges(path, cut=True)]
    path.write_text("a line of text\n" * 25)
    after = [digest for _, digest, _ in hashed_ranges(path, cut=True)]
    assert after[: len(before) - 1] == before[:-1] and len(after) > len(before)


def test_a_broken_line_of_a_later_stretch_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_cache, "PART", 64)
    path = write(tmp_path, "a.jsonl", '{"text": "fine"}\n' * 20 + "broken\n")
    last = FilePart(hashed_ranges(path, cut=True)[-1], ReadOptions())
    with pytest.raises(ValueError, match="a.jsonl: line 21: not JSON"):
        list(last.rows([]))


def test_parquet_is_read_and_damage_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    Dataset.from_dict({"words": ["a", "b"], "label": [1, 0]}).to_parquet(path)
    assert read(path, columns={"text": "words"}) == [{"text": "a"}, {"text": "b"}]
    assert "not a readable Parquet file" in refusal(write(tmp_path, "b.parquet", "no parquet"))


def test_few_rows_of_a_parquet_file_are_read_at_once_if_they_are_large(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(parquet, "BYTES", 5_000)
    sizes = {"small": [1] * 40, "large": [1_000] * 8 + [40_000]}
    for name, lengths in sizes.items():
        texts = [f"{number:05}" * (length // 5 or 1) for number, length in enumerate(lengths)]
        table = pyarrow.table({"text": texts, "other": ["x" * 9_000] * len(texts)})
        path = tmp_path / f"{name}.parquet"
        pyarrow.parquet.write_table(table, path, row_group_size=8, compression="none", use_dictionary=False)
    with pyarrow.parquet.ParquetFile(tmp_path / "large.parquet") as table:
        groups = [table.metadata.row_group(number) for number in range(table.num_row_groups)]
        several, one = (parquet.rows_at_once(group, ["text"]) for group in groups)
        assert 1 < several < 5 and one == 1
    assert [len(row["text"]) for row in read(tmp_path / "large.parquet", columns={"text": "text"})] == sizes["large"]
    with pyarrow.parquet.ParquetFile(tmp_path / "small.parquet") as table:
        assert parquet.rows_at_once(table.metadata.row_group(0), ["text"]) == parquet.ROWS


def test_a_flipped_byte_of_a_parquet_file_with_checksums_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": [f"text {n} of many" for n in range(100)]})
    pyarrow.parquet.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"text 50 of", b"text 51 of"))
    assert "a.parquet: not a readable Parquet file: could not verify page integrity" in refusal(path)


def test_bytes_that_are_no_text_in_a_compressed_file_may_be_damage(tmp_path: Path) -> None:
    assert "decompress it to see" in refusal(write(tmp_path, "a.txt.gz", gzip.compress(b"caf\xe9\n")))
    assert "decompress it to see" not in refusal(write(tmp_path, "a.txt", b"caf\xe9\n"))
