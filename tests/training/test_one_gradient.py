"""Claims about the gradient: one, however a step's rows are split into micro-batches and over processes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from every_objective import BATCH, Case, Step, cases, take_step
from tiny import alone
from torch import Tensor

from patience import HANGS
from zoo.objectives.objective import Term, objectives
from zoo.training import loop

CASES = cases()
EACH = pytest.mark.parametrize("case", CASES, ids=str)
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
ZERO = 1e-12  # a gradient this much smaller than the largest is 0 but for rounding: keys' biases cancel in the softmax


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Step]:
    """By case, the step of all rows in one micro-batch."""
    folder = tmp_path_factory.mktemp("whole")
    return {str(case): take_step(case, folder / str(case), BATCH, alone()) for case in CASES}


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Step]:
    """By case, the step of two processes with two micro-batches of 8 rows each."""
    folder = tmp_path_factory.mktemp("halves")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = Path(__file__).with_name("every_objective.py")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={port}"]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    subprocess.run([*launcher, str(program), str(folder), "8"], check=True, env=environment, timeout=HANGS)
    for number in range(len(CASES)):
        one, other = (Step.read(folder / f"{number}-{process}") for process in range(2))
        assert all(torch.equal(one.gradients[name], other.gradients[name]) for name in one.gradients)
    return {str(case): Step.read(folder / f"{number}-0") for number, case in enumerate(CASES)}


def largest(tensor: Tensor) -> float:
    return float(tensor.abs().max())


def difference(case: Case, one: Step, other: Step, exact: Step) -> float:
    """The largest difference of any gradient, each beside its tensor's largest entry, and of what is logged.

    Args:
        exact: the same step in float64: it tells which gradients are 0 but for rounding. They are measured beside the
            largest of all.
    """
    assert one.gradients.keys() == other.gradients.keys() and one.line.keys() == other.line.keys()
    most = max(largest(gradient) for gradient in exact.gradients.values())
    scales = {name: largest(gradient) for name, gradient in exact.gradients.items()}
    found = [abs(one.line[key] - other.line[key]) / abs(one.line[key]) for key in one.line]
    for name, gradient in one.gradients.items():
        scale = scales[name] if scales[name] > ZERO * most else most
        found.append(largest(gradient - other.gradients[name]) / scale)
    return max(found)


def in_float64(case: Case) -> str:
    return str(Case(case.objective, case.model, torch.float64))


def test_every_registered_objective_is_here():
    assert {name for case in CASES for name in case.objective} == set(objectives.names())


@EACH
@pytest.mark.parametrize("micro_batch", [8, 4])
def test_micro_batches_change_neither_gradient_nor_loss(
    case: Case, micro_batch: int, whole: dict[str, Step], tmp_path: Path
):
    split = take_step(case, tmp_path, micro_batch, alone())
    assert difference(case, whole[str(case)], split, whole[in_float64(case)]) < TOLERANCE[case.dtype]


@EACH
def test_two_processes_change_neither_gradient_nor_loss(case: Case, whole: dict[str, Step], halves: dict[str, Step]):
    assert difference(case, whole[str(case)], halves[str(case)], whole[in_float64(case)]) < TOLERANCE[case.dtype]


def mean_of_means(terms: dict[str, Term], counts: dict[str, float]) -> Tensor:
    """What trainers do that do not count first: each of 8 micro-batches by its own count."""
    return torch.stack([t.weight * t.sum / t.count.clamp_min(1) / 8 for t in terms.values()]).sum()


@pytest.mark.parametrize("case", [case for case in CASES if case.dtype == torch.float64], ids=str)
def test_a_mean_of_the_micro_batches_means_would_be_another_gradient(
    case: Case, whole: dict[str, Step], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(loop, "weigh", mean_of_means)
    split = take_step(case, tmp_path, 4, alone())
    assert difference(case, whole[str(case)], split, whole[str(case)]) > 1e-3
