"""Lists of different numbers of entries: the first row that differs is refused, however warm the store is."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_store import Letters

from zoo.data.ids import StoredFields
from zoo.data.sources.find import load_rows
from zoo.data.store.filling import Filling, FillRequest, Share, plan
from zoo.data.store.store import StoreRecipe, open_store
from zoo.data.task import Task, read_task
from zoo.examples.form import inputs

STORED = StoredFields(("context", "choices"), lists=("choices",), equal_counts=(("choices", "more: true"),))


def write(folder: Path, name: str, counts: list[int]) -> None:
    rows = [{"context": f"{name} {at}", "choices": ["ab"] * count, "label": 0} for at, count in enumerate(counts)]
    (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def task_of(**files: Any) -> Task:
    return read_task({"objective": "choice", "source": {"files": files}, "length": 64}, "task")


def open_files(folder: Path, stored: StoredFields = STORED, **files: Any) -> None:
    open_store(load_rows(task_of(**files), inputs(), folder), stored, Letters())  # type: ignore[arg-type]


def filling(folder: Path, stored: StoredFields = STORED, **files: Any) -> Filling:
    task = task_of(**files)
    recipe = StoreRecipe(stored, Letters())  # type: ignore[arg-type]
    request = FillRequest(task.plain(), list(inputs()), str(folder), stored, {})
    return Filling(plan(load_rows(task, inputs(), folder), recipe), request)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    write(tmp_path, "four.jsonl", [4, 4, 4])
    write(tmp_path, "more.jsonl", [4, 4])
    write(tmp_path, "mixed.jsonl", [4, 4, 3, 5, 3])
    write(tmp_path, "three.jsonl", [3, 3])
    return tmp_path


CASES: list[tuple[dict[str, Any], str]] = [
    ({"train": "mixed.jsonl", "validation": "four.jsonl"}, "mixed.jsonl: line 3: the row has 3 .*mixed.jsonl: line 1"),
    (
        {"train": ["four.jsonl", "three.jsonl"], "validation": "four.jsonl"},
        "three.jsonl: line 1: the row has 3 choices, but .*four.jsonl: line 1 has 4; "
        "if rows may have different numbers of choices, set more: true",
    ),
    (
        {"train": "four.jsonl", "validation": "three.jsonl"},
        "three.jsonl: line 1: the row has 3 choices, but .*four.jsonl: line 1 has 4",
    ),
]


@pytest.mark.parametrize(("files", "said"), CASES)
def test_the_first_row_that_differs_is_refused_by_a_cold_store_and_a_warm_one(
    data: Path, files: dict[str, Any], said: str
) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match=said):
            open_files(data, **files)
    for _ in range(2):
        with pytest.raises(ValueError, match=said):
            filling(data, **files).fill(Share(), lambda *seen: None)


def test_a_warm_store_reads_no_source_to_know_that_all_are_even(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"train": ["four.jsonl", "more.jsonl"], "validation": "four.jsonl"}
    open_files(data, **files)
    monkeypatch.setattr("zoo.data.sources.part.FilePart.rows", lambda *asked: pytest.fail("read again"))
    open_files(data, **files)
    filling(data, **files).fill(Share(), lambda *seen: None)


def test_of_what_is_held_out_of_train_the_same_is_asked(data: Path) -> None:
    write(data, "train.jsonl", [2] * 40)
    open_files(data, train="train.jsonl")
    write(data, "train.jsonl", [2] * 39 + [5])
    with pytest.raises(
        ValueError, match="train.jsonl: line 40: the row has 5 choices, but .*train.jsonl: line 1 has 2"
    ):
        open_files(data, train="train.jsonl")


def test_rows_that_are_left_out_as_empty_may_have_any_number(data: Path) -> None:
    with (data / "four.jsonl").open("a") as file:
        file.write(json.dumps({"context": " ", "choices": ["a", "b"], "label": 0}))
    open_files(data, train="four.jsonl", validation="more.jsonl")


def test_a_share_is_compared_with_what_is_there(data: Path) -> None:
    asked = filling(data, train=["four.jsonl", "three.jsonl"], validation="more.jsonl")
    asked.fill(Share(1, 3), lambda *seen: None)
    with pytest.raises(ValueError, match="three.jsonl: line 1"):
        asked.fill(Share(2, 3), lambda *seen: None)


def test_where_rows_may_differ_the_same_shards_are_read(data: Path) -> None:
    files = {"train": "mixed.jsonl", "validation": "three.jsonl"}
    with pytest.raises(ValueError, match="mixed.jsonl: line 3"):
        open_files(data, **files)
    allowed = STORED._replace(equal_counts=())
    assert not filling(data, allowed, **files).missing
    open_files(data, allowed, **files)


def test_a_file_none_of_whose_rows_are_held_out_has_no_list_to_compare(data: Path) -> None:
    write(data, "train.jsonl", [4] * 40)
    filled = filling(data, train=["train.jsonl", "more.jsonl"])
    filled.fill(Share(), lambda *seen: None)
    held_out = [shard.open() for shard in filled.shards if shard.rows.split == "validation"]
    assert [shard is not None and shard.documents("validation") > 0 for shard in held_out] == [True, False]
