"""Claims about the comparison of every family's bits; the comparison itself is `make bits`, which takes minutes."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from same_bits_families import FAMILIES, compare, content, kind, read_rows, record, recorded
from small_data import TASKS, write_data

import zoo


def test_a_change_of_bits_is_named_by_family_and_part():
    before = {"gpt": {"losses": "1", "weights": "2", "export native: config.json": "3"}, "t5": {"losses": "4"}}
    after = {"gpt": {"losses": "1", "weights": "9", "ema": "5"}}
    gone = ("gpt", "export native: config.json", "gone")
    assert compare(before, before) == []
    assert compare(before, after) == [("gpt", "weights", "other bits"), gone, ("gpt", "ema", "new")]
    assert gone not in compare(before, after, exported=False)


def test_a_family_that_failed_is_one_fault_with_its_error():
    assert compare({"gpt": {"losses": "1"}}, {"gpt": {"failed": "error: no"}}) == [("gpt", "error: no", "failed")]


def test_a_record_of_some_families_keeps_the_others(tmp_path: Path):
    record(tmp_path / "bits.json", {"gpt": {"losses": "1"}, "t5": {"losses": "2"}})
    record(tmp_path / "bits.json", {"t5": {"losses": "3"}})
    assert recorded(read_rows(tmp_path / "bits.json")) == {"gpt": {"losses": "1"}, "t5": {"losses": "3"}}


def test_only_the_parts_that_changed_leave_the_rows_of_other_machines(tmp_path: Path):
    """Their bits cannot be known here; what is the same here is the same there."""
    file = tmp_path / "bits.json"
    record(file, {"gpt": {"losses": "1", "weights": "2"}})
    other = {**kind(), "instructions": "another", "families": {"gpt": {"losses": "8", "weights": "9"}}}
    file.write_text(json.dumps([*read_rows(file), other]))
    record(file, {"gpt": {"losses": "1", "weights": "3"}})
    rows = {row["instructions"]: row["families"] for row in read_rows(file)}
    assert rows == {
        "another": {"gpt": {"losses": "8"}},
        kind()["instructions"]: {"gpt": {"losses": "1", "weights": "3"}},
    }


def test_the_first_record_of_a_kind_of_machine_leaves_all_others(tmp_path: Path):
    file, other = tmp_path / "bits.json", {**kind(), "instructions": "another", "families": {"gpt": {"losses": "8"}}}
    file.write_text(json.dumps([other]))
    record(file, {"gpt": {"losses": "1", "weights": "3"}})
    assert other in read_rows(file) and recorded(read_rows(file)) == {"gpt": {"losses": "1", "weights": "3"}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": 2}', '{"b": 2,\n"a": 1}'),
        ('{"a": 1, "transformers_version": "4.57.0"}', '{"a": 1, "transformers_version": "5.17.0"}'),
    ],
)
def test_layout_and_versions_are_no_part_of_a_json_file(tmp_path: Path, one: str, other: str):
    paths = [tmp_path / "one.json", tmp_path / "other.json"]
    for path, text in zip(paths, (one, other), strict=True):
        path.write_text(text)
    assert content(paths[0]) == content(paths[1])


@pytest.mark.parametrize("other", [{"b": np.ones(2)}, {"a": np.ones((2, 1))}, {"a": np.array([1, 1 + 2**-52])}])
def test_a_tensors_name_shape_and_last_bit_count(tmp_path: Path, other: dict[str, np.ndarray]):
    save_file({"a": np.ones(2)}, tmp_path / "one.safetensors")
    save_file(other, tmp_path / "other.safetensors")
    assert content(tmp_path / "one.safetensors") != content(tmp_path / "other.safetensors")


def test_the_data_is_the_same_bytes_each_time(tmp_path: Path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        write_data(tmp_path / name)
    one, other = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "other"))
    assert one == other


def test_every_model_for_tests_and_every_task_is_compared():
    assert set(zoo.list_models("*-nano")) <= {family.model for family in FAMILIES.values()}
    assert set(TASKS) == {name for family in FAMILIES.values() for name in (family.task, family.then) if name}


def test_a_row_holds_families_that_there_are():
    rows = read_rows(Path(__file__).with_name("same_bits_families.json"))
    assert rows and all(set(row["families"]) <= set(FAMILIES) and kind().keys() <= row.keys() for row in rows)
