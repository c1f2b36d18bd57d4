"""How often, and how evenly over the classes, the predicted class is the right one."""

from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from zoo.metrics.metric import Metric, metrics


class ClassMetric(Metric):
    """A metric of predicted against true class numbers.

    `measure` takes `classes`, how many there are; None counts up to the largest number seen.
    """

    higher_is_better = True
    best = 1.0
    needs = "classes"
    inputs = {"predictions": "int64", "references": "int64"}


@metrics.register("accuracy")
class Accuracy(ClassMetric):
    """Right answers / answers."""

    def measure(self, predictions: list[int], references: list[int], classes: int | None = None) -> float:
        return float(accuracy_score(references, predictions))


@metrics.register("f1")
class F1(ClassMetric):
    """2 · precision · recall / (precision + recall): of class 1 where there are two classes, else their mean.

    The mean is unweighted and over the classes that are predicted or true at least once (scikit-learn's macro). A class
    without a right answer counts 0.
    """

    def measure(self, predictions: list[int], references: list[int], classes: int | None = None) -> float:
        classes = classes or max(max(predictions), max(references)) + 1
        average = "binary" if classes <= 2 else "macro"
        return float(f1_score(references, predictions, average=average, zero_division=0.0))


@metrics.register("matthews")
class Matthews(ClassMetric):
    """Matthews' correlation of predicted and true classes, -1 to 1; 0 where either is constant.

    Source: Matthews 1975, doi:10.1016/0005-2795(75)90109-9; Gorodkin 2004 for more than two classes.
    """

    def measure(self, predictions: list[int], references: list[int], classes: int | None = None) -> float:
        return float(matthews_corrcoef(references, predictions))
