"""Repositories of data sets: read in parts, so that a killed tokenising goes on where it stood."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from datasets import Dataset, DatasetDict

from zoo.data.sources import repository
from zoo.data.sources.repository import Hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A repository of 7 rows, which are read 3 at a time."""
    Dataset.from_dict({"text": [f"row {n}" for n in range(7)], "other": list(range(7))}).save_to_disk(tmp_path / "data")
    monkeypatch.setattr(
        repository, "load_dataset", Mock(return_value=DatasetDict(dev=Dataset.load_from_disk(tmp_path / "data")))
    )
    monkeypatch.setattr(repository, "ROWS", 3)
    return Hub("org/name", "")


def test_a_split_is_read_in_parts_of_some_rows(hub: Hub) -> None:
    parts = hub.parts("validation")
    assert [row for part in parts for row in part.rows(["text"])] == [{"text": f"row {n}"} for n in range(7)]
    assert len(parts) == 3 and len({part.digest for part in parts}) == 3 and hub.splits() == ("validation",)


def test_a_row_of_a_later_part_is_named(hub: Hub) -> None:
    assert hub.parts("validation")[2].where(1) == "hub:org/name (dev) (rows behind 6): row 1"
