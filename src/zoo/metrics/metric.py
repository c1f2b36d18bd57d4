"""The contract of metrics: one number from predictions, without a network and without files."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from zoo.late import load
from zoo.registry import Slot

# What `datasets` calls the type of one value, or of each value of a list. Only its name: `evaluate`, which would give
# the type itself, imports every pipeline of transformers (3 s); `hub/modeling/metric.py` makes its metrics of ours.
InputType = str | list[str]


class Metric(ABC):
    """One number that says how good predictions are.

    Class attributes:
        higher_is_better: which way is better.
        best: the best value there is; None: it has none that scores could be measured by.
        needs: what is measured: `classes` (numbers), `sets` of classes (0 or 1 by class), `numbers`, `tags` (names by
            sentence), `answers` (texts found in others), `texts`, or the `loss` (its sums, in nats).
        inputs: by name, the type of what one example gives (of a loss: one example, or one batch).
        library: `module:name` of the function that counts, where that is not ours.
    """

    higher_is_better: ClassVar[bool]
    best: ClassVar[float | None] = None
    needs: ClassVar[Literal["classes", "sets", "numbers", "tags", "answers", "texts", "loss"]]
    inputs: ClassVar[dict[str, InputType]]
    library: ClassVar[str | None] = None
    count: Callable[..., Any]

    def __init__(self) -> None:
        if self.library is not None:  # scikit-learn and scipy take 1 s and 80 MB: what they do not measure does without
            self.count = load(self.library)

    @property
    def name(self) -> str:
        """The registered name."""
        return metrics.name_of(self)

    def obstacle(self, labels: Sequence[str]) -> str | None:
        """Why it cannot measure answers that are named so; None where it can."""
        return None

    def compute(self, **given: Any) -> float:
        """The number, from what `inputs` names and the metric's own options.

        Raises:
            ValueError: nothing to measure.
        """
        for name in self.inputs:
            if not len(given[name]):
                raise ValueError(f"{self.name}: there is nothing to measure (no {name})")
        return float(self.measure(**given))

    @abstractmethod
    def measure(self, *args: Any, **given: Any) -> float:
        """The number, from what `inputs` names (lists over the examples) and the metric's own options."""


metrics: Slot[Metric] = Slot("metric")


def compute(name: str, **measured: Any) -> float:
    """The value of a metric, from its inputs by name and its options.

    Raises:
        ValueError: an unknown metric, or nothing to measure.
    """
    return metrics[name]().compute(**measured)
