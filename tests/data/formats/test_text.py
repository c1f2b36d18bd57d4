"""What one row of a text file is."""

from pathlib import Path

import pytest

from zoo.data.formats.format import ReadOptions
from zoo.data.formats.lines import LineRange
from zoo.data.formats.text import TextFile


@pytest.mark.parametrize(
    ("documents", "cut", "one"), [("line", True, False), ("blank_line", False, False), ("file", False, True)]
)
def test_a_file_is_cut_where_every_line_is_a_document_and_one_text_where_it_is_one(
    documents: str, cut: bool, one: bool
) -> None:
    options = ReadOptions(documents=documents)
    assert (TextFile().can_cut_at_lines(options), TextFile().is_one_text(options)) == (cut, one)


@pytest.mark.parametrize("ending", [".log", ".txt"])
def test_lines_of_json_are_text_where_a_task_says_what_a_document_is(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    path.write_text('{"text": "a"}\n')
    with pytest.raises(ValueError, match=f"its first line is a JSON object, but '{ending}' files are read as text"):
        TextFile().rows(LineRange(path), ReadOptions())
    for said in (ReadOptions(documents="file"), ReadOptions(format="text")):
        assert len([*TextFile().rows(LineRange(path), said)]) == 1
    path.write_text('one\n{"text": "a"}\n')  # only a file's first line is asked, not that of a later range
    assert [row["text"] for row in TextFile().rows(LineRange(path, 4, None, 2), ReadOptions())] == ['{"text": "a"}']


def test_a_table_whose_columns_a_task_names_is_not_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1\tgood\n")
    with pytest.raises(
        ValueError, match=r"a.txt: it is read as text, .* 'header' to name; set 'format: csv', 'tsv' or"
    ):
        TextFile().rows(LineRange(path), ReadOptions(header=("label", "text")))
