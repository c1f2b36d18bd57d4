"""A token store that is checked, found by its own folder or by that of its shards."""

from pathlib import Path

from zoo.data.store.checking import shards_of
from zoo.data.store.store import SHARDS


def test_a_store_is_found_by_its_folder_and_by_that_of_its_shards(tmp_path: Path) -> None:
    shards = tmp_path / "store" / SHARDS
    assert shards_of(shards.parent) is None and shards_of(shards) is None
    (shards / "other").mkdir(parents=True)
    assert shards_of(shards.parent) == shards == shards_of(shards)
    assert shards_of(shards / "other") is None
