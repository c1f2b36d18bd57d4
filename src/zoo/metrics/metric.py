"""The contract of metrics: one number from predictions, without network access or files."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from zoo.lazy_import import import_object
from zoo.registry import Slot

# The `datasets` type of one value, or of each value of a list, as a name: importing `evaluate` for the type objects
# would import every pipeline of transformers (3 s). `hub/modeling/metric.py` builds its metrics from ours.
InputType = str | list[str]


class Metric(ABC):
    """One number that says how good predictions are.

    Class attributes:
        higher_is_better: whether a higher value is better.
        best: the best value, which a task's score of 100 stands for; None: the metric gives no such score.
        needs: what is measured: `classes` (numbers), `sets` of classes (0 or 1 per class), `numbers`, `tags` (names per
            sentence), `answers` (texts found in others), `texts`, or the `loss` (its sums, in nats).
        inputs: by name, the type of one example's value (for a loss: of one example, or of one batch).
        library: `module:name` of the library function that computes it; None: our own code does.
    """

    higher_is_better: ClassVar[bool]
    best: ClassVar[float | None] = None
    needs: ClassVar[Literal["classes", "sets", "numbers", "tags", "answers", "texts", "loss"]]
    inputs: ClassVar[dict[str, InputType]]
    library: ClassVar[str | None] = None
    count: Callable[..., Any]

    def __init__(self) -> None:
        if self.library is not None:  # imported only if needed: scikit-learn and scipy take 1 s and 80 MB
            self.count = import_object(self.library)

    @property
    def name(self) -> str:
        """The registered name."""
        return metrics.name_of(self)

    def obstacle(self, labels: Sequence[str]) -> str | None:
        """Return why it cannot be computed for these labels; None: it can."""
        return None

    def compute(self, **given: Any) -> float:
        """Compute the metric from the values that `inputs` names, and its own options.

        Raises:
            ValueError: nothing to measure, or inputs of different lengths.
        """
        lengths = {name: len(given[name]) for name in self.inputs}
        for name, length in lengths.items():
            if not length:
                raise ValueError(f"{self.name}: there is nothing to measure (no {name})")
        if len(set(lengths.values())) > 1:  # numpy would repeat a single number, and sacrebleu score the first texts
            raise ValueError(f"{self.name}: needs as many {' as '.join(lengths)}, got {lengths}")
        return float(self.measure(**given))

    @abstractmethod
    def measure(self, *args: Any, **given: Any) -> float:
        """Compute the metric from the values that `inputs` names (lists over the examples), and its own options."""


metrics: Slot[Metric] = Slot("metric")


def compute(name: str, **measured: Any) -> float:
    """Compute a registered metric from its inputs by name and its options.

    Raises:
        ValueError: an unknown metric, nothing to measure, or inputs of different lengths.
    """
    return metrics[name]().compute(**measured)
