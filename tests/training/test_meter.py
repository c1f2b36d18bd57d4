"""Claims about the numbers of a step: of nothing there is no loss; the peak is never that of a first product."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import alone, lines, settings, train_tiny
from torch import Tensor

from zoo.batches.collate import MicroBatch
from zoo.objectives.objective import Term
from zoo.training import logbook, meter
from zoo.training.logbook import suspect_examples
from zoo.training.meter import Tally, measure_peak
from zoo.training.supervision.processes import Processes
from zoo.training.validation import Observers

CPU, N = torch.device("cpu"), 1024


def test_a_step_that_scored_nothing_has_no_loss():
    tally = Tally(1, {"a": torch.zeros(()), "b": torch.ones(())}, {})
    tally.weights = {"a": 1.0, "b": 0.5}
    assert tally.losses([0.0, 3.0], [0.0, 2.0]) == {"loss": 0.75, "loss/b": 1.5}
    assert tally.losses([0.0, 0.0], [0.0, 0.0]) == {}


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize(("norm", "loss", "bad"), [(1.0, 2.0, 0), (1.0, torch.inf, 1), (torch.nan, 2.0, 1)])
def test_a_step_is_bad_where_its_loss_or_its_gradient_is_no_number(
    norm: float, loss: float, bad: int, processes: int, monkeypatch: pytest.MonkeyPatch
):
    """One may be without the other, as where what is infinite has no gradient."""
    monkeypatch.setattr(Processes, "sum", lambda self, numbers: numbers * processes)
    tally = Tally(1, {"a": torch.ones(())}, {})
    tally.weights, tally.rows, tally.occupancy = {"a": 1.0}, [torch.tensor([loss])], 0.75
    tally.reduce(alone(), torch.tensor(norm), [])
    assert tally.bad == bad
    tally.read()
    assert tally.line["empty"] == 0.25  # a share of the positions of all processes


def test_a_step_is_bad_where_a_number_of_another_process_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Processes, "sum", lambda self, mine: torch.cat([mine[:-1], mine[-1:] + 1]))
    tally = Tally(1, {"a": torch.ones(())}, {})
    tally.weights, tally.rows = {"a": 1.0}, [torch.tensor([2.0])]
    tally.reduce(alone(), torch.tensor(1.0), [])
    assert tally.bad == 1


def test_a_step_has_the_tokens_and_the_metrics_of_all_its_micro_batches():
    tally = Tally(1, {"a": torch.tensor(4.0)}, {"rows/wiki": 7.0})
    for tokens, right in ((3, 1.0), (5, 2.0)):
        measured = {"f1": (torch.tensor(right), torch.tensor(2)), "accuracy": (torch.tensor(right), torch.tensor(5))}
        term = Term(torch.tensor(2 * right), torch.tensor(2), 1.0, measured=measured)
        tally.add(MicroBatch({}, {}, [], tokens, 0.5), {"a": term})
    tally.reduce(alone(), torch.tensor(1.0), [])
    tally.read()
    assert (tally.tokens, tally.line["loss/a"]) == (3 + 5, 6 / 4)
    assert (tally.line["a/f1"], tally.line["a/accuracy"], tally.line["rows/wiki"]) == (3 / 4, 3 / 10, 7.0)


def test_the_examples_of_a_bad_step_are_those_of_the_micro_batches_whose_loss_is_no_number():
    tally, other = (Tally(1, {"a": torch.ones(())}, {}) for _ in range(2))
    tally.weights = other.weights = {"a": 1.0, "b": 1.0}
    tally.examples, tally.rows = [[(0, 1, 0)], [(0, 2, 0)]], [torch.tensor([1.0, 2.0]), torch.tensor([1.0, torch.nan])]
    other.examples, other.rows = [[(0, 3, 0)]], [torch.tensor([1.0, 2.0])]
    assert suspect_examples([other.suspects(), tally.suspects()]) == [(0, 2, 0)]
    assert suspect_examples([other.suspects(), other.suspects()]) == [(0, 3, 0), (0, 3, 0)]


def test_sums_of_narrow_numbers_are_in_float32_and_those_of_wide_ones_stay():
    numbers = (torch.ones((), dtype=dtype) for dtype in (torch.bfloat16, torch.float32, torch.float64))
    assert [meter.at_least_float32(n).dtype for n in numbers] == [torch.float32, torch.float32, torch.float64]


@pytest.mark.parametrize(("given", "peak"), [(None, 40.0), (3.0, 12.0)])
def test_the_peak_is_that_of_all_devices_and_may_grow_where_it_was_measured(
    given: float | None, peak: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logbook, "measure_peak", lambda *_: 10.0)
    four: Any = SimpleNamespace(count=4, device=CPU)
    learner: Any = SimpleNamespace(settings=settings(peak_flops=given), processes=four, dtype=None)
    speed = logbook.start_log(learner, Observers(flops_per_token=1.0))
    assert (speed.peak, speed.measured) == (peak, given is None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The seconds that the next products take, first one first."""
    taken: list[float] = []
    now, running = 0.0, False

    def read() -> float:
        nonlocal now, running
        now += taken.pop(0) if running else 0.0
        running = not running
        return now

    monkeypatch.setattr(meter.time, "perf_counter", read)
    measure_peak.cache_clear()
    yield taken
    measure_peak.cache_clear()


def test_a_slow_start_is_not_the_peak_and_slow_products_are_few(clock: list[float]):
    clock += [5.0, 2.0, 1.0]
    assert measure_peak(CPU, torch.float32, 1) == 2 * N**3 / 2.0 and clock == [1.0]


def test_the_peak_is_measured_once_for_each_number_of_threads(clock: list[float]):
    clock += [0.2, 0.1, 0.1, 0.1, 0.2, 0.05, 0.05, 0.05]
    found = [measure_peak(CPU, torch.float32, threads) for threads in (1, 1, 2)]
    assert found == pytest.approx([2 * N**3 / 0.1] * 2 + [2 * N**3 / 0.05]) and not clock


def test_a_step_takes_as_long_as_the_gpu_takes_for_it_also_after_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A GPU that takes five seconds for each step, which the host queues in one; it is idle after every third step."""
    now = idle = 0.0

    def mark(device: torch.device) -> Any:
        at = max(now, idle)
        return SimpleNamespace(at=at, elapsed_time=lambda end: 1000 * (end.at - at))

    def copy_to_host(tensor: Tensor) -> Any:
        nonlocal now, idle
        now, idle = now + 1, max(now, idle) + 5
        done = idle

        def read() -> list[float]:
            nonlocal now
            now = max(now, done)
            return tensor.tolist()

        return read, SimpleNamespace(at=done)

    monkeypatch.setattr(meter, "mark", mark)
    monkeypatch.setattr(meter, "copy_to_host", copy_to_host)
    monkeypatch.setattr(meter.time, "perf_counter", lambda: now)
    train_tiny(tmp_path, settings(steps=7, evaluate_every=0, save_every=3))
    assert [line["seconds"] for line in lines(tmp_path)] == [5.0] * 7


def test_a_step_on_a_cpu_takes_as_long_as_the_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(meter.time, "perf_counter", lambda: 3.0)
    tally = Tally(1, {"a": torch.ones(())}, {})
    tally.weights, tally.rows = {"a": 1.0}, [torch.tensor([2.0])]
    tally.reduce(alone(), torch.tensor(1.0), [])
    assert tally.seconds(3.25) == 0.25
