"""The program that compares gradients beside transformers' Trainer feeds zoo's own loop, as it is today."""

import pytest

from programs import load_program


def test_our_side_gives_one_gradient_however_a_step_is_split():
    accumulation = load_program("benchmarks/accumulation.py")
    pair = next(pair for pair in accumulation.MODEL_PAIRS if pair.name == "classification")
    whole, split = (accumulation.zoo_gradients(pair, rows) for rows in (accumulation.BATCH, 8))
    error, ratio = accumulation.relative_error(whole, split)
    assert error < 1e-12 and ratio == pytest.approx(1.0)
