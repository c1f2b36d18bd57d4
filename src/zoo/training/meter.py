"""The numbers of a step's log line: losses over all processes, speed, and model FLOPs utilization (MFU)."""

import time
from collections.abc import Callable, Mapping
from functools import cache

import torch
from torch import Tensor

from zoo.batches.collate import MicroBatch
from zoo.devices.precision import widest_dtype
from zoo.objectives.objective import Term
from zoo.runs.metrics import Line
from zoo.training.supervision.processes import Processes

EXAMPLES_SHOWN = 20  # examples named in a warning
MOST_PRODUCTS = 4  # products to time
LONGEST_MEASURE = 1.0  # seconds after which no more are timed: emulated bfloat16 takes long


class Tally:
    """The sums of one step: this process's at first, then those of all; they stay on the device until `read`.

    Args:
        step: its number, from 1.
        counts: by term, the scored positions of all processes.
        row_entries: entries of the log line about the rows that were read, such as how many of each source.
    """

    def __init__(self, step: int, counts: Mapping[str, Tensor], row_entries: Line) -> None:
        self.step, self.counts, self.row_entries, self.began = step, counts, row_entries, time.perf_counter()
        self.start = mark(next(iter(counts.values())).device)
        self.examples: list[list[tuple[int, int, int]]] = []  # per micro-batch: (epoch, document, number) of each one
        self.rows: list[Tensor] = []  # per micro-batch: the sum of each term, then the sum and count of each metric
        self.weights: dict[str, float] = {}
        self.metrics: list[str] = []
        self.tokens, self.occupancy, self.rate = 0.0, 0.0, 0.0
        self.signals: list[float] = []
        self.line: Line = {}

    def add(self, part: MicroBatch, terms: Mapping[str, Term]) -> None:
        """Add the terms of a micro-batch."""
        self.examples.append(part.examples)
        self.tokens, self.occupancy = self.tokens + part.tokens, self.occupancy + part.occupancy
        self.weights = {name: term.weight for name, term in terms.items()}
        measured = {f"{name}/{what}": pair for name, term in terms.items() for what, pair in term.measured.items()}
        self.metrics = list(measured)
        numbers = [*(term.sum for term in terms.values()), *(number for pair in measured.values() for number in pair)]
        self.rows.append(torch.stack([at_least_float32(number) for number in numbers]))

    def reduce(self, processes: Processes, norm: Tensor, flags: list[float]) -> None:
        """Sum over all processes, and start to copy the sums to the host.

        Args:
            norm: of the gradients, the same in every process.
            flags: the signals that this process received.
        """
        exact = widest_dtype(processes.device)
        numbers = torch.stack(self.rows).to(exact).sum(0)
        finite = norm.isfinite() & numbers[: len(self.weights)].isfinite().all()
        # one tensor, so that a step needs one all-reduce and one copy; `read` takes it apart in the same order
        rest = processes.to_device([*flags, self.tokens, self.occupancy, len(self.rows)])
        total = processes.sum(torch.cat([numbers, rest, (~finite).to(exact)[None]]))
        self.bad = (total[-1] > 0).float()  # 1 where a number of any process is not finite
        known = torch.stack(list(self.counts.values()))
        self.await_copy, self.end = copy_to_host(torch.cat([known, norm.to(exact)[None], total]))

    def read(self) -> None:
        """Wait for the sums, and build the log line from them."""
        terms = len(self.weights)
        values = self.await_copy()
        known, norm, total = values[:terms], values[terms], values[terms + 1 :]
        numbers, rest = total[: terms + 2 * len(self.metrics)], total[terms + 2 * len(self.metrics) :]
        self.signals = rest[:-4]
        self.tokens, occupancy, parts, bad = rest[-4:]
        self.skipped = bad > 0
        self.line = {"step": self.step, **self.losses(numbers[:terms], known), **self.shares(numbers[terms:])}
        self.line |= {
            "gradient_norm": norm,
            "empty": 1 - occupancy / parts,
            "learning_rate": self.rate,
            **self.row_entries,
        }

    def seconds(self, ended: float) -> float:
        """Return the seconds that the step took, the longer of the host's and the device's; call it after `read`.

        The host waits for a GPU one step late. After a pause, such as a validation, it waits for none, and begins the
        second step while the GPU has just begun the first.

        Args:
            ended: when the host was done with the step, on the clock of `time.perf_counter`.
        """
        on_device = 0.0 if self.start is None or self.end is None else self.start.elapsed_time(self.end) / 1000
        return max(ended - self.began, on_device)

    def losses(self, sums: list[float], counts: list[float]) -> Line:
        """Return the weighted loss and each term that scored a position; without any such term there is no loss."""
        terms = {name: s / count for name, s, count in zip(self.weights, sums, counts, strict=True) if count}
        loss = sum(self.weights[name] * value for name, value in terms.items())
        return {**({"loss": loss} if terms else {}), **{f"loss/{name}": value for name, value in terms.items()}}

    def shares(self, pairs: list[float]) -> Line:
        """Return each measured sum divided by its count, if that is not 0."""
        both = zip(self.metrics, pairs[::2], pairs[1::2], strict=True)
        return {name: total / count for name, total, count in both if count}

    def suspects(self) -> tuple[bool, list[tuple[int, int, int]]]:
        """Return whether a loss of this process is not finite, and the examples of those micro-batches, else of all."""
        terms = [row[: len(self.weights)] for row in self.rows]
        faulty = [part for part, sums in zip(self.examples, terms, strict=True) if not sums.isfinite().all()]
        return bool(faulty), [example for part in faulty or self.examples for example in part][:EXAMPLES_SHOWN]


def mark(device: torch.device) -> torch.Event | None:
    """Record an event in the work that is queued on a GPU; None on devices that the host does not run ahead of."""
    if device.type != "cuda":
        return None
    event = torch.Event("cuda", enable_timing=True)
    event.record()
    return event


def copy_to_host(tensor: Tensor) -> tuple[Callable[[], list[float]], torch.Event | None]:
    """Start to copy a tensor to the host. Return a function that waits for it, and the event that the copy is done.

    On a GPU the function does not wait for later work.
    """
    if tensor.device.type != "cuda":
        return tensor.tolist, None
    copy = tensor.to("cpu", non_blocking=True)  # torch pins the copy
    done = mark(tensor.device)
    assert done is not None

    def read() -> list[float]:
        done.synchronize()
        return copy.tolist()

    return read, done


def at_least_float32(number: Tensor) -> Tensor:
    """Return a number in float32, or in float64 if it is one."""
    return number.detach().to(torch.promote_types(number.dtype, torch.float32))


class Speed:
    """The speed of steps, and its share of the devices' peak.

    Args:
        flops: floating-point operations per token, forward and backward; None: unknown.
        peak: FLOP/s of all devices together; None: unknown.
        measured: whether the peak was measured; then a faster step raises it, as other work has slowed the measurement.
    """

    def __init__(self, flops: float | None, peak: float | None, measured: bool = False) -> None:
        self.flops, self.peak, self.measured = flops, peak, measured

    def line(self, tokens: float, seconds: float) -> Line:
        """Return the log line's entries for a step of `tokens` tokens: its speed and, if the peak is known, MFU."""
        if seconds == 0:  # the clock stood still, as a virtual machine's may: the speed is unknown
            return {"tokens_per_second": None, "mfu": None, "seconds": seconds}
        used = None
        if self.flops is not None and self.peak is not None:
            reached = self.flops * tokens / seconds
            self.peak = max(self.peak, reached) if self.measured else self.peak
            used = reached / self.peak
        return {"tokens_per_second": tokens / seconds, "mfu": used, "seconds": seconds}


@cache  # several trainings of one process measure once
def measure_peak(device: torch.device, dtype: torch.dtype, threads: int) -> float | None:
    """Measure the FLOP/s of one device in large matrix products: the best of at most `MOST_PRODUCTS`.

    None: the clock stood still.

    Args:
        threads: CPU threads; a key of the cache, so that another number is measured again.
    """
    n = 1024 if device.type == "cpu" else 8192
    left, right = torch.ones(2, n, n, device=device, dtype=dtype)
    taken: list[float] = []
    # at least two: the first product may include loading a device's libraries
    while len(taken) < 2 or (len(taken) < MOST_PRODUCTS and sum(taken) < LONGEST_MEASURE):
        began = time.perf_counter()
        (left @ right)[0, 0].item()
        taken.append(time.perf_counter() - began)
    return 2 * n**3 / min(taken) if min(taken) else None
