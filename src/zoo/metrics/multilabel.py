"""Metrics of multi-label classification: several classes per document."""

from typing import Literal

from zoo.metrics.metric import Metric, metrics


class SetMetric(Metric):
    """A metric of predicted against true sets of classes: per document a list of 0 and 1, one per class."""

    higher_is_better = True
    best = 1.0
    needs = "sets"
    inputs = {"predictions": ["int64"], "references": ["int64"]}
    library = "sklearn.metrics:f1_score"
    average: Literal["micro", "macro"]

    def measure(self, predictions: list[list[int]], references: list[list[int]]) -> float:
        # with one class, scikit-learn sees binary labels, and would score class 0 as well
        own = [1] if len(references[0]) == 1 else None
        return float(self.count(references, predictions, labels=own, average=self.average, zero_division=0.0))


@metrics.register("f1_micro")
class MicroF1(SetMetric):
    """2 · precision · recall / (precision + recall) over all (document, class) pairs together."""

    average = "micro"


@metrics.register("f1_macro")
class MacroF1(SetMetric):
    """The mean over classes of 2 · precision · recall / (precision + recall); 0 for a class never predicted right."""

    average = "macro"
