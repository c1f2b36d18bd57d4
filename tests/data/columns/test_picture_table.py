"""Images in a column of a Parquet file."""

from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from zoo.data.columns.picture_table import of_parquet


def test_a_parquet_file_that_datasets_cannot_open_is_named(tmp_path: Path):
    table = pyarrow.table({"image": ["a.png"]})
    odd = '{"info": {"features": {"image": {"_type": "OfTomorrow"}}}}'  # as a later version of datasets may write
    parquet.write_table(table.replace_schema_metadata({"huggingface": odd}), tmp_path / "a.parquet")
    said = "a.parquet: its images cannot be read with datasets: Feature type 'OfTomorrow' not found"
    with pytest.raises(ValueError, match=said):
        of_parquet(tmp_path / "a.parquet", "0", "image", tmp_path, str(tmp_path / "a.parquet"))


@pytest.mark.parametrize(("kind", "value"), [(pyarrow.binary_view(), b"one"), (pyarrow.string_view(), "a.png")])
def test_images_of_a_parquet_file_may_be_views_of_bytes_or_texts(tmp_path: Path, kind: Any, value: Any):
    (tmp_path / "a.png").write_bytes(b"one")
    parquet.write_table(pyarrow.table({"image": pyarrow.array([value], kind)}), tmp_path / "a.parquet")
    assert of_parquet(tmp_path / "a.parquet", "0", "image", tmp_path, "a.parquet").stored(0)[0] == b"one"


def test_a_parquet_file_may_begin_with_a_row_group_without_rows(tmp_path: Path):
    rows = pyarrow.table({"image": [b"one", b"two"]})
    with parquet.ParquetWriter(tmp_path / "a.parquet", rows.schema) as writer:
        for part in (rows[:0], rows[:1], rows[1:]):
            writer.write_table(part)
    gallery = of_parquet(tmp_path / "a.parquet", "0", "image", None, "a.parquet")
    assert [gallery.stored(number)[0] for number in range(len(gallery))] == [b"one", b"two"]
