"""The program that compares gradients beside transformers' Trainer feeds zoo's own loop, as it is today."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def accumulation(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("accumulation")
    sys.modules.pop("accumulation", None)


def test_our_side_gives_one_gradient_however_a_step_is_split(accumulation: Any) -> None:
    subject = next(subject for subject in accumulation.SUBJECTS if subject.name == "classification")
    whole, split = (accumulation.ours(subject, rows) for rows in (accumulation.BATCH, 8))
    error, ratio = accumulation.compare(whole, split)
    assert error < 1e-12 and ratio == pytest.approx(1.0)
