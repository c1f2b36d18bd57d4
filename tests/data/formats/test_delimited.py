"""Rows of tables are named by the lines of their files."""

import csv
from pathlib import Path

import pytest
from test_readers import read, refusal, write

from zoo.data.formats.format import ReadOptions, formats
from zoo.data.sources.file_cache import hashed_ranges
from zoo.data.sources.part import FilePart


def test_a_text_where_a_list_is_wanted_is_named_with_its_line(tmp_path: Path) -> None:
    said = "line 2: 'words' must be a list of texts, got 'the cat'"
    assert said in refusal(write(tmp_path, "a.csv", "words\nthe cat\n"))
    assert said in refusal(write(tmp_path, "a.tsv", "words\nthe cat\n"))


@pytest.mark.parametrize(
    ("name", "text", "header"),
    [
        ("a.csv", 'words\n"of two\nlines"\nplain\n', None),
        ("b.csv", "words\nfirst\n\nplain\n", None),
        ("a.tsv", "words\nfirst\n\nplain\n", None),  # blank lines are no rows
        ("b.tsv", "\nfirst\n\nplain\n", ("words",)),
    ],
)
def test_a_row_of_a_table_is_named_by_its_line(tmp_path: Path, name: str, text: str, header: tuple[str] | None) -> None:
    path = write(tmp_path, name, text)
    part = FilePart(hashed_ranges(path, cut=False)[0], ReadOptions(header=header))
    assert part.line(2) == f"{path}: line 4"


def test_a_row_of_empty_fields_is_a_row(tmp_path: Path) -> None:
    found = read(write(tmp_path, "a.tsv", "text\tpair\n\t\nx\ty\n"))
    assert found == [{"text": "", "pair": ""}, {"text": "x", "pair": "y"}]


@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_a_table_is_read_in_stretches_unless_a_quote_may_hold_a_line_end(name: str) -> None:
    table = formats.build(name)
    found = [table.can_cut_at_lines(ReadOptions(quoting=each)) for each in ("none", "csv", None)]
    assert found == [True, False, name == "tsv"]


def test_a_quote_that_is_closed_too_late_or_before_another_mark_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refusal(write(tmp_path, "a.csv", '"text";"label"\n"x";"a"\n'))
    wanted = "line 1: ',' expected after '\"' that closes a field; a .csv file needs commas between fields, a .tsv file"
    assert wanted in said
    monkeypatch.setattr("zoo.data.formats.delimited.LONGEST_LINE", 400)
    said = refusal(write(tmp_path, "b.csv", 'text,label\n"x,a\n' + "y,b\n" * 50))
    assert "line 2: a field of more than 100 characters, or a quote that is never closed; with 'quoting: none'" in said


def test_a_row_of_more_columns_in_a_table_with_semicolons_is_said_to_need_commas(tmp_path: Path) -> None:
    said = refusal(write(tmp_path, "a.csv", "text;label\nbuongiorno;1,5\n"))
    assert "line 2: 2 columns, expected 1 (text;label); see 'header' and 'quoting'; if it should be several" in said


@pytest.mark.parametrize("field", ['"a ""b"" c"', '"""a"""', '"""a"" and ""b"""'])
def test_a_field_of_a_tsv_that_is_written_as_in_csv_is_warned_of_once(
    field: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, "a.tsv", f"text\tlabel\nx\ta\n{field}\ta\n{field}\tb\n")
    for _ in range(2):
        assert read(path)[1]["text"] == field
    said = f"{path}: line 3: a field holds doubled quotes, as in CSV, but zoo reads quotes as text here; set 'quoting"
    assert [record.getMessage()[: len(said)] for record in caplog.records] == [said]


@pytest.mark.parametrize("field", ['"a b"', '""', '"Why?""So."', 'a ""b"" c', '"a "b" ""c"" d"', '"', ""])
def test_other_quotes_of_a_tsv_are_not_warned_of(field: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read(write(tmp_path, "a.tsv", f"text\tpair\n{field}\tb\n"))[0]["text"] == field
    for quoting, found in (("none", '"a ""b"""'), ("csv", 'a "b"')):
        quoted = write(tmp_path, f"{quoting}.tsv", 'text\tpair\n"a ""b"""\tb\n')
        assert read(quoted, quoting=quoting)[0]["text"] == found
    assert not caplog.records


def test_a_space_before_quotes_in_csv_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = 'text,label\n"a",x\n"b ""c""", "y"\n'
    path, said = write(tmp_path, "a.csv", rows), "line 3: a space stands before a quote, so the quotes and the space"
    assert [row["label"] for row in read(path)] == ["x", ' "y"']
    assert [record.getMessage()[: len(f"{path}: {said}")] for record in caplog.records] == [f"{path}: {said}"]
    caplog.clear()
    read(write(tmp_path, "b.csv", rows), quoting="csv")
    read(write(tmp_path, "c.csv", 'text,label\n" ""a"" ", y\n'))
    assert not caplog.records


def test_a_cr_in_a_field_without_quotes_is_refused_as_that(tmp_path: Path) -> None:
    said = refusal(write(tmp_path, "a.csv", "text\nx\n10%\r20%\n"))
    assert said.endswith(
        "a.csv: line 3: a CR in a field without quotes; quote the field, or end the line with LF or CRLF"
    )
    assert read(write(tmp_path, "b.csv", 'text\n"10%\r20%"\n')) == [{"text": "10%\r20%"}]
    assert "with 'quoting: none', quotes are text" in refusal(write(tmp_path, "c.csv", 'text\n"x"y\n'))


def test_line_ends_within_quotes_stay_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'text,label\r\n"one\r\n\rtwo\n",x\r\n\r\nthree,y\r\n')
    with path.open(newline="") as file:
        assert read(path) == list(csv.DictReader(file)) and read(path)[0]["text"] == "one\r\n\rtwo\n"


@pytest.mark.parametrize(("quoting", "version"), [("csv", True), ("none", False)])
def test_what_was_stored_when_quoted_line_ends_were_changed_is_made_again(
    quoting: str, version: bool, tmp_path: Path
) -> None:
    known = hashed_ranges(write(tmp_path, "a.csv", "text\nx\n"), cut=False)[0]
    assert ("quoted 2" in FilePart(known, ReadOptions(quoting=quoting)).digest) == version


def test_a_header_among_the_rows_is_refused_as_that(tmp_path: Path) -> None:
    joined = write(tmp_path, "a.tsv", "text\tlabel\nx\t1\ntext\tlabel\ny\t2\n")
    assert refusal(joined).endswith("a.tsv: line 3: it repeats the names of the columns; delete the line")
    marked = write(tmp_path, "b.tsv", "\ufefftext\tlabel\nx\t1\n\ufefftext\tlabel\ny\t2\n")
    assert refusal(marked).endswith("b.tsv: line 3: it repeats the names of the columns; delete the line")
    said = refusal(joined, header=("text", "label"))
    assert said.endswith("a.tsv: line 1: it repeats the names of the columns; delete the line, or leave out 'header'")
    assert read(write(tmp_path, "words.csv", "text\nlast\ntext\n")) == [{"text": "last"}, {"text": "text"}]
