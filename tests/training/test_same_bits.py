"""Claims about determinism: the same seed gives the same bits, today and on record."""

from pathlib import Path

import pytest
import torch
from same_bits import hashes, kind, read_rows, record, recorded


def test_two_runs_of_one_seed_leave_the_same_bits(tmp_path: Path):
    one, other = (hashes(tmp_path / name, torch.get_num_threads(), steps=6) for name in ("one", "other"))
    assert one == other


def test_the_bits_are_those_on_record(tmp_path: Path):
    """A hundred steps with as many threads as the tests have."""
    machine = kind(torch.get_num_threads())
    expected = recorded(read_rows(), machine)
    if expected is None:
        pytest.skip(
            f"no row in same_bits.json for {machine}: two runs were compared with each other only; "
            "`PYTHONPATH=src:tests python tests/training/same_bits.py` adds one"
        )
    assert hashes(tmp_path, torch.get_num_threads()) == expected, (
        "the same seed gives other bits than before; see tests/training/same_bits.py"
    )


def test_another_seed_leaves_other_bits(tmp_path: Path):
    one, other = (hashes(tmp_path / str(seed), torch.get_num_threads(), seed, steps=2) for seed in (0, 1))
    assert all(one[name] != other[name] for name in one)


ONE, OTHER = ({"torch": "2", "instructions": name, "threads": 1} for name in ("avx2", "neon"))


def test_a_row_is_found_by_all_that_makes_a_kind_of_machine():
    rows = [{**ONE, "hashes": {"a": "1"}}]
    assert recorded(rows, ONE) == {"a": "1"}
    assert recorded(rows, {**ONE, "threads": 2}) is None and recorded(rows, OTHER) is None


def test_rows_of_other_machines_stay_unless_this_ones_bits_have_changed():
    rows = [{**ONE, "hashes": {"a": "1"}}, {**OTHER, "hashes": {"a": "2"}}]
    assert record(rows, [rows[0]]) == rows
    assert record(rows[1:], [rows[0]]) == rows
    changed = {**ONE, "hashes": {"a": "3"}}
    assert record(rows, [changed]) == [changed]
