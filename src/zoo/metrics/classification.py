"""Metrics of predicted against true classes."""

from zoo.metrics.metric import Metric, metrics


class ClassMetric(Metric):
    """A metric of predicted against true class numbers.

    `measure` takes `classes`, the number of classes; None: one more than the largest class number seen.
    """

    higher_is_better = True
    best = 1.0
    needs = "classes"
    inputs = {"predictions": "int64", "references": "int64"}

    def measure(self, predictions: list[int], references: list[int], classes: int | None = None) -> float:
        return float(self.count(references, predictions))


@metrics.register("accuracy")
class Accuracy(ClassMetric):
    """Correct predictions / predictions."""

    library = "sklearn.metrics:accuracy_score"


@metrics.register("f1")
class F1(ClassMetric):
    """2 · precision · recall / (precision + recall): of class 1 if there are two classes, else the mean over classes.

    The mean is unweighted and over the classes that are predicted or true at least once (scikit-learn's macro). A class
    without a correct prediction counts 0.
    """

    library = "sklearn.metrics:f1_score"

    def measure(self, predictions: list[int], references: list[int], classes: int | None = None) -> float:
        classes = classes or max(max(predictions), max(references)) + 1
        average = "binary" if classes <= 2 else "macro"
        return float(self.count(references, predictions, average=average, zero_division=0.0))


@metrics.register("matthews")
class Matthews(ClassMetric):
    """Matthews' correlation of predicted and true classes, -1 to 1; 0 where either is constant.

    Source: Matthews 1975, doi:10.1016/0005-2795(75)90109-9; Gorodkin 2004 for more than two classes.
    """

    library = "sklearn.metrics:matthews_corrcoef"
