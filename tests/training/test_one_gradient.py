"""Claims about the gradient: one, however a step's rows are split into micro-batches and over processes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from every_objective import BATCH, Case, Step, cases, first_of_each, take_step
from tiny import alone
from torch import Tensor

from once import once
from zoo.objectives.objective import Term, objectives
from zoo.training import step

EXACT = [case for case in cases() if case.dtype == torch.float64]
FIRST = first_of_each(cases())
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
# what the choices of an example share, or pairs, cancels: in float32 rounding is a larger part of what is left
CANCELS = {"choice": 10, "next_sentence": 2}
ZERO = 1e-11  # a gradient this much smaller than the largest is 0 but for rounding: keys' biases cancel in the softmax


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Step]:
    """The step of all rows of a case in one micro-batch, taken when it is first asked for."""
    folder, taken = tmp_path_factory.mktemp("whole"), dict[str, Step]()

    def take(case: Case) -> Step:
        if str(case) not in taken:
            taken[str(case)] = take_step(case, folder / str(case), BATCH, alone())
        return taken[str(case)]

    return take


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory, server: Any) -> Callable[[Case], Step]:
    """The step of a case by two processes with two micro-batches of 8 rows each."""

    def take(folder: Path) -> None:
        ranks = server.start(folder, 2, every_objective=8)
        assert ranks.wait() == [0, 0], ranks.said()
        for number in range(len(FIRST)):
            one, other = (Step.read(folder / f"{number}-{process}") for process in range(2))
            assert all(torch.equal(one.gradients[name], other.gradients[name]) for name in one.gradients)

    folder = once(tmp_path_factory, "halves", take)
    return lambda case: Step.read(folder / f"{FIRST.index(case)}-0")


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


def in_float64(case: Case) -> Case:
    return Case(case.objective, case.model, torch.float64, case.labels)


def check(case: Case, split: Step, whole: Callable[[Case], Step]) -> None:
    cancels = max(CANCELS.get(name, 1) for name in case.objective) if case.dtype == torch.float32 else 1
    assert difference(case, whole(case), split, whole(in_float64(case))) < TOLERANCE[case.dtype] * cancels


def test_every_registered_objective_is_here():
    assert {name for case in FIRST for name in case.objective} == set(objectives.names())


@pytest.mark.parametrize("case", EXACT, ids=str)
def test_micro_batches_change_neither_gradient_nor_loss(case: Case, whole: Callable[[Case], Step], tmp_path: Path):
    """Eight micro-batches of 4 rows; of 8 rows, and in float32, they are in the test below."""
    check(case, take_step(case, tmp_path, 4, alone()), whole)


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_two_processes_change_neither_gradient_nor_loss(
    case: Case, whole: Callable[[Case], Step], halves: Callable[[Case], Step]
):
    check(case, halves(case), whole)


def mean_of_means(terms: dict[str, Term], counts: dict[str, float]) -> Tensor:
    """What trainers do that do not count first: each of 8 micro-batches by its own count."""
    return torch.stack([t.weight * t.sum / t.count.clamp_min(1) / 8 for t in terms.values()]).sum()


@pytest.mark.parametrize("case", [case for case in FIRST if case.dtype == torch.float64], ids=str)
def test_a_mean_of_the_micro_batches_means_would_be_another_gradient(
    case: Case, whole: Callable[[Case], Step], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    exact = whole(case)  # before anything is changed
    monkeypatch.setattr(step, "weigh", mean_of_means)
    split = take_step(case, tmp_path, 4, alone())
    assert difference(case, exact, split, exact) > 1e-3


def test_a_sum_is_divided_by_its_weighted_count_which_may_be_below_1():
    """Class weights count a position as less than one; a term without positions adds nothing."""
    few, none = (Term(torch.tensor(total), torch.tensor(count), 2.0) for total, count in ((0.3, 0.5), (0.0, 0.0)))
    terms = {"few": few, "none": none}
    assert float(step.weigh(terms, {name: term.count for name, term in terms.items()})) == pytest.approx(1.2)
