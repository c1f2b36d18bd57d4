"""What one row of a text file is."""

from pathlib import Path

import pytest

from zoo.data.formats.format import ReadOptions
from zoo.data.formats.jsonl import refuse_unsaid
from zoo.data.formats.text import TextFile


@pytest.mark.parametrize(
    ("documents", "cut", "one"), [("line", True, False), ("blank_line", False, False), ("file", False, True)]
)
def test_a_file_is_cut_where_every_line_is_a_document_and_one_text_where_it_is_one(
    documents: str, cut: bool, one: bool
) -> None:
    options = ReadOptions(documents=documents)
    assert (TextFile().can_cut_at_lines(options), TextFile().is_one_text(options)) == (cut, one)


def test_lines_of_json_are_text_where_a_task_says_what_a_document_is(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text('{"text": "a"}\n')
    with pytest.raises(ValueError, match="its first line is a JSON object, but no format has the extension '.log'"):
        refuse_unsaid(path, ReadOptions())
    for said in (ReadOptions(documents="file"), ReadOptions(format="text")):
        refuse_unsaid(path, said)
