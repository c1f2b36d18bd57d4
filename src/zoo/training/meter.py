"""The numbers of a step's log line: losses over all processes, speed, and the share of the device that was used."""

import math
import time
from collections.abc import Mapping

import torch
from torch import Tensor

from zoo.batches.collate import MicroBatch
from zoo.objectives.objective import Term
from zoo.runs.metrics import Line
from zoo.training.supervision.processes import Processes

SHOWN = 20


class Tally:
    """Sums of one step: this process's while it computes, then those of all.

    Args:
        counts: by term, the scored places of all processes.
    """

    def __init__(self, counts: Mapping[str, float]) -> None:
        self.counts = counts
        self.parts: list[MicroBatch] = []
        self.rows: list[Tensor] = []  # of each micro-batch: its terms' sums, then each metric's sum and count
        self.weights: dict[str, float] = {}
        self.metrics: list[str] = []
        self.bad = False
        self.signals: list[float] = []
        self.line: Line = {}
        self.tokens = 0.0

    def add(self, part: MicroBatch, terms: Mapping[str, Term]) -> None:
        """Add a micro-batch; nothing here waits for the device."""
        self.parts.append(part)
        self.weights = {name: term.weight for name, term in terms.items()}
        measured = {f"{name}/{what}": pair for name, term in terms.items() for what, pair in term.measured.items()}
        self.metrics = list(measured)
        numbers = [*(term.sum for term in terms.values()), *(number for pair in measured.values() for number in pair)]
        self.rows.append(torch.stack([at_least_float32(number) for number in numbers]))

    def agree(self, processes: Processes, norm: Tensor, flags: list[float]) -> None:
        """Add up over all processes, and wait for the device.

        Args:
            norm: of the gradients, the same in every process.
            flags: the signals that this process received.
        """
        numbers, norm_value, n_terms = (
            torch.stack(self.rows).cpu().double().sum(0).tolist(),
            norm.item(),
            len(self.weights),
        )
        finite = math.isfinite(norm_value) and all(map(math.isfinite, numbers[:n_terms]))
        tokens, filled = sum(part.tokens for part in self.parts), sum(part.filled for part in self.parts)
        rest = [tokens, filled, len(self.parts), float(not finite)]
        total = processes.add_up([*numbers, *flags, *rest])
        numbers, self.signals = total[: len(numbers)], total[len(numbers) : -len(rest)]
        self.tokens, filled, parts, bad = total[-len(rest) :]
        self.bad = bad > 0
        self.line = {**self.losses(numbers[:n_terms]), **self.shares(numbers[n_terms:])}
        self.line |= {"gradient_norm": norm_value, "empty": 1 - filled / parts}

    def losses(self, sums: list[float]) -> Line:
        """The weighted loss and each term; a term that scored nothing is left out."""
        terms = {name: s / self.counts[name] for name, s in zip(self.weights, sums, strict=True) if self.counts[name]}
        loss = sum(self.weights[name] * value for name, value in terms.items())
        return {"loss": loss, **{f"loss/{name}": value for name, value in terms.items()}}

    def shares(self, pairs: list[float]) -> Line:
        """Each measured sum by its count."""
        both = zip(self.metrics, pairs[::2], pairs[1::2], strict=True)
        return {name: total / count for name, total, count in both if count}

    def suspects(self) -> tuple[bool, list[tuple[int, int, int]]]:
        """Whether a loss of this process is not finite, and the examples of those micro-batches; else of all."""
        terms = [row[: len(self.weights)] for row in self.rows]
        faulty = [part for part, sums in zip(self.parts, terms, strict=True) if not sums.isfinite().all()]
        return bool(faulty), [example for part in faulty or self.parts for example in part.examples][:SHOWN]


def at_least_float32(number: Tensor) -> Tensor:
    """A number in float32, or in float64 where the model computes in that."""
    return number.detach().to(torch.promote_types(number.dtype, torch.float32))


class Speed:
    """How fast steps are, beside what the device can do.

    Args:
        flops: floating point operations of one token, forward and backward; None: unknown.
        peak: FLOP/s of all devices together; None: unknown.
    """

    def __init__(self, flops: float | None, peak: float | None) -> None:
        self.flops, self.peak = flops, peak
        self.began = time.perf_counter()

    def start(self) -> None:
        self.began = time.perf_counter()

    def line(self, tokens: float) -> Line:
        """Speed of the step that began with `start`."""
        seconds = time.perf_counter() - self.began
        used = None if self.flops is None or self.peak is None else self.flops * tokens / seconds / self.peak
        return {"tokens_per_second": tokens / seconds, "mfu": used, "seconds": seconds}


def measure_peak(device: torch.device, dtype: torch.dtype, repeats: int = 3) -> float:
    """FLOP/s of one device in large matrix products, the best of a few."""
    n = 1024 if device.type == "cpu" else 8192
    left, right = torch.ones(2, n, n, device=device, dtype=dtype)
    best = math.inf
    for _ in range(repeats + 1):
        began = time.perf_counter()
        (left @ right)[0, 0].item()
        best = min(best, time.perf_counter() - began)
    return 2 * n**3 / best
