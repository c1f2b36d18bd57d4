"""The kernel of a head's loss, against the same by torch's operators in float64.

On a machine without a GPU Triton can interpret it: TRITON_INTERPRET=1 pytest tests/devices/test_logits_kernel.py
"""

import importlib.util
import os
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.lazy_import import import_object
from zoo.models.heads.scored_logits import LossOptions, score_

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
HERE = torch.device("cpu" if INTERPRETED else "cuda")
pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs the package triton"),
    pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="needs a GPU, or TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NumPy's, in which Triton interprets, of what is nan
]
SHAPES = [(50, 64), (7, 7), (128, 128), (1001, 1024)]  # classes, and for how many a row has room
ROUNDING = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What scores by the kernel, in blocks so short that most rows have several."""
    found = import_object("zoo.devices.logits_kernel:cross_entropy_")
    monkeypatch.setitem(found.__globals__, "BLOCK", 32)
    if INTERPRETED:
        monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    return found


def logits_of(room: int, dtype: torch.dtype) -> Tensor:
    """Of nine rows; what some of them hold is hard."""
    logits = (3 * torch.randn(9, room, generator=torch.Generator().manual_seed(room))).to(dtype)
    logits[1, : room // 3] = -torch.inf
    if dtype == torch.float32:  # exact at this distance
        logits[3] = (4 * logits[3]).round() / 4 + 2.0**18
    logits[5, 0], logits[6, 1] = torch.inf, torch.nan
    return logits


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize(("classes", "room"), SHAPES)
def test_losses_and_gradients_are_those_of_the_operators(
    classes: int, room: int, dtype: torch.dtype, label_smoothing: float, kernel: Any
):
    logits, targets = logits_of(room, dtype), torch.arange(9) * 5 % classes
    targets[1], targets[5], targets[6] = classes - 1, -1, -1
    if label_smoothing:
        logits[1] = 1.0  # else its loss is infinite
    exact, known = logits[:, :classes].double(), targets >= 0
    right = score_(exact, targets, LossOptions(torch.float64, label_smoothing, guess=True, gradient=True))
    there, strided = logits.to(HERE, copy=True), torch.stack([targets, targets], dim=1).to(HERE)[:, 0]
    found = kernel(there, classes, strided, label_smoothing, True, True)
    for number in range(2):
        torch.testing.assert_close(found[number].double().cpu(), right[number], rtol=1e-6, atol=1e-5)
    assert torch.equal(found[2].cpu()[known], logits[:, :classes].argmax(-1)[known])
    near = ROUNDING[dtype]
    torch.testing.assert_close(there.cpu()[:, :classes].double(), exact, rtol=near, atol=near / 10)
    assert not there[:, classes:].any() and not there[~known].any()


@pytest.mark.parametrize("guess", [True, False])
def test_without_a_gradient_logits_stay(guess: bool, kernel: Any):
    logits, targets = logits_of(64, torch.bfloat16).nan_to_num(1, 1, -1), torch.arange(9)
    there = logits.to(HERE, copy=True)
    loss, likelihood, guesses = kernel(there, 50, targets.to(HERE), 0.0, guess, False)
    expected = score_(logits[:, :50].double(), targets, LossOptions(torch.float64, 0.0, guess=True, gradient=False))
    assert torch.equal(there.cpu(), logits) and (guesses is not None) == guess
    torch.testing.assert_close(loss.double().cpu(), expected[0], rtol=1e-6, atol=1e-5)
    assert torch.equal(loss, likelihood) and (guesses is None or torch.equal(guesses.cpu(), expected[2]))


def test_what_is_no_number_is_none_of_the_loss_and_a_class_is_guessed_all_the_same(kernel: Any):
    logits = torch.zeros(3, 64, device=HERE)
    logits[0] = torch.nan
    loss, likelihood, guesses = kernel(logits[:2], 50, torch.tensor([3, 3], device=HERE), 0.0, True, True)
    assert loss.isnan() and likelihood.isnan() and guesses.max() < 50
    no_class = torch.tensor([50], device=HERE)
    assert kernel(logits[2:], 50, no_class, 0.0, False, True)[0].isnan()
    least = torch.full((1, 64), torch.finfo(torch.float32).min, device=HERE)
    loss = kernel(least, 50, torch.tensor([7], device=HERE), 0.0, False, True)[0]
    torch.testing.assert_close(loss.cpu(), torch.tensor(50.0).log())


def test_the_first_of_equal_classes_is_the_guess(kernel: Any):
    logits = torch.zeros(2, 64, device=HERE)
    logits[1, 40] = logits[1, 33] = 1.0
    assert kernel(logits, 50, torch.tensor([0, 1], device=HERE), 0.0, True, False)[2].tolist() == [0, 33]
