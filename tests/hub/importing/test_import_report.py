"""What an import tells the user: a line for each thing that was found, and none for what was not."""

import dataclasses
from pathlib import Path

from zoo.hub.importing.report import ImportReport

COUNTED = ("run", "target", "class_name", "parameters")
FOUND = [field.name for field in dataclasses.fields(ImportReport) if field.name not in COUNTED]
NOTHING = ImportReport(Path("run"), "gpt2", "GPT2LMHeadModel", 1234567, **{name: () for name in FOUND})


def test_an_import_without_remarks_is_one_line():
    assert NOTHING.lines() == ["run: GPT2LMHeadModel (gpt2), 1,234,567 parameters"]


def test_all_that_was_found_is_told_in_lines_of_their_own():
    for name in FOUND:
        (line,) = dataclasses.replace(NOTHING, **{name: (f"{name} 1", f"{name} 2")}).remarks()
        assert line.endswith(f": {name} 1, {name} 2")
