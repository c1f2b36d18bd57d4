"""A token store that is checked, found by its own folder or by that of its shards."""

import os
from pathlib import Path

import pytest
from test_store import opened

from zoo.data.store.checking import shards_of
from zoo.data.store.shard import VERIFIED, Shard
from zoo.data.store.store import SHARDS


def test_a_store_is_found_by_its_folder_and_by_that_of_its_shards(tmp_path: Path) -> None:
    shards = tmp_path / "store" / SHARDS
    assert shards_of(shards.parent) is None and shards_of(shards) is None
    (shards / "other").mkdir(parents=True)
    assert shards_of(shards.parent) == shards == shards_of(shards)
    assert shards_of(shards / "other") is None


def test_a_copied_shard_is_verified_again_when_it_changes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    (shard,) = opened(text=["ab"]).shards
    ids = shard.folder / "validation" / "text.ids"
    os.utime(ids, ns=(1, 1))  # as a copy has another time
    assert not (shard.folder / VERIFIED).exists() and Shard(shard.folder).documents("validation") == 1
    assert (shard.folder / VERIFIED).exists()
    ids.write_bytes(bytes(ids.stat().st_size))
    with pytest.raises(ValueError, match="text.ids: its checksum does not match"):
        Shard(shard.folder)
