"""Values of Parquet files that Python cannot hold: refused by file, row and column."""

from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from zoo.data.formats.format import ReadOptions
from zoo.data.formats.lines import LineRange
from zoo.data.formats.parquet import Parquet

NOT_UTF_8 = pyarrow.array([b"fine", b"caf\xe9"]).cast(pyarrow.string(), safe=False)
TOO_LATE = pyarrow.array([0, 10**9], pyarrow.int32()).cast(pyarrow.date32())  # three million years
TWICE = pyarrow.StructArray.from_arrays([pyarrow.array(["a", "b"])] * 2, names=["same", "same"])


@pytest.mark.parametrize(
    ("values", "row", "why"),
    [(NOT_UTF_8, 2, "'utf-8' codec can't decode"), (TOO_LATE, 2, "days="), (TWICE, 1, ".*duplicate field names")],
)
def test_a_value_that_python_cannot_hold_is_refused_by_row_and_column(
    tmp_path: Path, values: pyarrow.Array, row: int, why: str
) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": ["a", "b"], "odd": values}), path, row_group_size=1)
    assert [*Parquet().rows(LineRange(path), ReadOptions(), ["text"])] == [{"text": "a"}, {"text": "b"}]
    with pytest.raises(ValueError, match=f"a.parquet: row {row}: the value in column 'odd' cannot be read: {why}"):
        [*Parquet().rows(LineRange(path), ReadOptions())]
