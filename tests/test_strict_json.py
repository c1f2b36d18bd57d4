"""JSON read strictly: in time that grows with its length."""

from pathlib import Path

import pytest

from zoo.data.formats.delimited import TabSeparated
from zoo.data.formats.format import ReadOptions
from zoo.data.formats.lines import LineRange
from zoo.strict_json import refuse_twice

MANY = 1000


class Compared(str):
    """A name that counts how often names are compared."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def names() -> list[Compared]:
    """The last of which stands there twice."""
    Compared.times = 0
    return [*(Compared(f"name {number}") for number in range(MANY)), Compared(f"name {MANY - 1}")]


def test_a_key_that_is_written_twice_is_found_without_comparing_all_keys():
    with pytest.raises(ValueError, match=f"the key 'name {MANY - 1}' is written twice"):
        refuse_twice([(name, 0) for name in names()])
    assert Compared.times < 10 * MANY


def test_a_column_that_is_named_twice_is_found_without_comparing_all_names(tmp_path: Path):
    (tmp_path / "a.tsv").write_text("a\n")
    with pytest.raises(ValueError, match=f"line 1: column 'name {MANY - 1}' is named twice"):
        list(TabSeparated().rows(LineRange(tmp_path / "a.tsv"), ReadOptions(header=tuple(names()))))
    assert Compared.times < 10 * MANY
