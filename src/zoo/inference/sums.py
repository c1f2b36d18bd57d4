"""Sums over evaluated examples: losses, counts and answers, which the processes add to each other's."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from zoo.devices.precision import widest_dtype
from zoo.inference.metric_inputs import AnswerPair
from zoo.objectives.objective import Term


@dataclass
class Sums:
    """Sums over the examples of one process, to be added to those of the others.

    Args:
        numbers: by (kind, name): the loss, likelihood and count of an objective; or right and asked, the sum and count
            of a metric that is measured with the loss.
        compared: by (`Metric.needs`, objective), predicted and true answers.
    """

    numbers: dict[tuple[str, str], float] = field(default_factory=dict)
    compared: dict[tuple[str, str], list[AnswerPair]] = field(default_factory=dict)
    examples: int = 0

    def add(self, other: "Sums") -> None:
        for key, value in other.numbers.items():
            self.numbers[key] = self.numbers.get(key, 0) + value
        for wanted, pairs in other.compared.items():
            self.compared.setdefault(wanted, []).extend(pairs)
        self.examples += other.examples

    def shares(self, what: str, of: str) -> dict[str, float]:
        """Divide the numbers of one kind by those of another, by name; names whose divisor is 0 are left out."""
        mine = ((name, value) for (kind, name), value in self.numbers.items() if kind == what)
        return {name: value / self.numbers[of, name] for name, value in mine if self.numbers[of, name]}


def numbers_of(terms: Mapping[str, Term]) -> dict[tuple[str, str], Tensor]:
    """What a forward pass adds to `Sums.numbers`."""
    found: dict[tuple[str, str], Tensor] = {}
    for name, term in terms.items():
        found |= {("loss", name): term.sum, ("count", name): term.count}
        if term.likelihood is not None:
            found["likelihood", name] = term.likelihood
        for what, (right, asked) in term.measured.items():
            found |= {("right", f"{name}/{what}"): right, ("asked", f"{name}/{what}"): asked}
    return found


def read_at_once(numbers: Mapping[tuple[str, str], Tensor]) -> dict[tuple[str, str], float]:
    """Copy numbers from the device, all at once: each copy would wait for the device."""
    exact = widest_dtype(next(iter(numbers.values())).device)
    values = torch.stack([number.to(exact) for number in numbers.values()]).tolist()
    whole = [not number.is_floating_point() for number in numbers.values()]
    return {key: int(v) if count else v for key, v, count in zip(numbers, values, whole, strict=True)}
