"""How well sets of classes are found: several classes at once."""

from typing import Literal

from zoo.metrics.metric import Metric, metrics


class SetMetric(Metric):
    """A metric of predicted against true sets: a list of 0 and 1 for each document, one a class."""

    higher_is_better = True
    best = 1.0
    needs = "sets"
    inputs = {"predictions": ["int64"], "references": ["int64"]}
    library = "sklearn.metrics:f1_score"
    average: Literal["micro", "macro"]

    def measure(self, predictions: list[list[int]], references: list[list[int]]) -> float:
        # sets of one class look like single answers to scikit-learn, for which not having the class is a class, too
        own = [1] if len(references[0]) == 1 else None
        return float(self.count(references, predictions, labels=own, average=self.average, zero_division=0.0))


@metrics.register("f1_micro")
class MicroF1(SetMetric):
    """2 · precision · recall / (precision + recall) of all (document, class) pairs together."""

    average = "micro"


@metrics.register("f1_macro")
class MacroF1(SetMetric):
    """The mean over classes of 2 · precision · recall / (precision + recall); a class never right counts 0."""

    average = "macro"
