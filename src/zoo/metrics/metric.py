"""The contract of metrics: an `evaluate.Metric` that needs no network and leaves no files."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import evaluate
from evaluate.info import Features  # `datasets`' own, through the library that asks for it

from zoo.registry import Slot


class Metric(evaluate.Metric, ABC):  # type: ignore[misc]  # evaluate ships no types
    """One number that says how good predictions are.

    `add_batch` collects and `compute` answers {registered name: number}, as in `evaluate`.

    Class attributes:
        higher_is_better: which way is better.
        needs: what is measured: `classes` (numbers), `texts`, or the `loss` (its sums, in nats).
        inputs: by name, the type of what one example gives (of a loss: one example, or one batch).
    """

    higher_is_better: ClassVar[bool]
    needs: ClassVar[Literal["classes", "texts", "loss"]]
    inputs: ClassVar[dict[str, Any]]

    def __init__(self) -> None:
        super().__init__(keep_in_memory=True)

    def _build_data_dir(self) -> str:
        return ""  # evaluate would make a folder for its cache here, also where all is kept in memory

    @property
    def name(self) -> str:
        """The registered name."""
        return next(name for name in metrics.names() if metrics[name] is type(self))

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=self.__doc__ or "", citation="", inputs_description="", features=Features(self.inputs)
        )

    def _compute(self, **given: Any) -> dict[str, float]:
        for name in self.inputs:
            if not len(given[name]):
                raise ValueError(f"{self.name}: there is nothing to measure (no {name})")
        return {self.name: float(self.measure(**given))}

    @abstractmethod
    def measure(self, *args: Any, **given: Any) -> float:
        """The number, from what `inputs` names (lists over the examples) and the metric's own options."""


metrics: Slot[Metric] = Slot("metric")


def compute(name: str, **measured: Any) -> float:
    """The value of a metric, from its inputs by name and its options.

    Raises:
        ValueError: an unknown metric, or nothing to measure.
    """
    return float(metrics[name]().compute(**measured)[name])
