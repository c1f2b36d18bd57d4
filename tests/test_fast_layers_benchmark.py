"""The benchmark of the fast layers: that both sides of each row compute the same."""

from typing import Any

import pytest
import torch

from programs import load_program


@pytest.fixture
def program() -> Any:
    return load_program("benchmarks/fast_layers.py")


def test_both_sides_of_a_row_compute_the_same(program: Any):
    for name, (ours, theirs) in program.operators(8, 4, 12, 20).items():
        found = ours().clone()  # gradients of both sides are written into one tensor
        torch.testing.assert_close(found, theirs(), rtol=2**-6, atol=2**-6, msg=name)


def test_a_row_says_how_long_each_side_takes(program: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    clock = iter(range(10**6))
    monkeypatch.setattr(program.time, "perf_counter", lambda: next(clock) / 1000)
    monkeypatch.setattr("sys.argv", ["fast_layers.py", *"--rows 4 --width 2 --inner 3 --classes 5 --repeats 1".split()])
    program.main()
    printed = capsys.readouterr().out
    assert "gradient of a 3 x 2 weight" in printed and printed.count("1.00x") == 4
