"""How often, and how evenly over the classes, the predicted class is the right one.

The formulas are scikit-learn's, and the tests compare them: importing it would take 1.4 s of each start of training.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.metrics.metric import Metric, metrics


class ClassCounts(NamedTuple):
    """By class: right predictions, predictions, and examples."""

    right: NDArray[np.int64]
    predicted: NDArray[np.int64]
    true: NDArray[np.int64]

    @classmethod
    def of(cls, predictions: list[int], references: list[int]) -> "ClassCounts":
        """The counts of class numbers."""
        predicted, true = np.asarray(predictions), np.asarray(references)
        size = max(*predictions, *references) + 1
        return cls(*(np.bincount(x, minlength=size) for x in (true[predicted == true], predicted, true)))


class ClassMetric(Metric):
    """A metric of predicted against true class numbers.

    `measure` takes `classes`, how many there are; None counts up to the largest number seen.
    """

    higher_is_better = True
    needs = "classes"
    inputs = {"predictions": "int64", "references": "int64"}


@metrics.register("accuracy")
class Accuracy(ClassMetric):
    """Right answers / answers."""

    def measure(self, predictions: list[int], references: list[int], classes: int | None = None) -> float:
        return float(np.equal(predictions, references).mean())


@metrics.register("f1")
class F1(ClassMetric):
    """2 · precision · recall / (precision + recall): of class 1 where there are two classes, else their mean.

    The mean is unweighted and over the classes that are predicted or true at least once (scikit-learn's macro). A class
    without a right answer counts 0.
    """

    def measure(self, predictions: list[int], references: list[int], classes: int | None = None) -> float:
        counts = ClassCounts.of(predictions, references)
        both = counts.predicted + counts.true
        scores = 2 * counts.right / np.maximum(both, 1)
        if (classes or len(both)) <= 2:
            return float(scores[1:].sum())  # of class 1, which may not occur
        return float(scores[both > 0].mean())


@metrics.register("matthews")
class Matthews(ClassMetric):
    """Matthews' correlation of predicted and true classes, -1 to 1; 0 where either is constant.

    Source: Matthews 1975, doi:10.1016/0005-2795(75)90109-9; Gorodkin 2004 for more than two classes.
    """

    def measure(self, predictions: list[int], references: list[int], classes: int | None = None) -> float:
        counts = ClassCounts.of(predictions, references)
        total = len(predictions)
        spread = [total**2 - int(x @ x) for x in (counts.predicted, counts.true)]
        together = total * int(counts.right.sum()) - int(counts.predicted @ counts.true)
        return together / math.sqrt(spread[0] * spread[1]) if all(spread) else 0.0
