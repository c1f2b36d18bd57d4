"""Metrics of predicted against true numbers."""

import math
import warnings

import numpy as np

from zoo.metrics.metric import Metric, metrics


class NumberMetric(Metric):
    """A metric of predicted against true numbers."""

    needs = "numbers"
    inputs = {"predictions": "float64", "references": "float64"}


class CorrelationMetric(NumberMetric):
    """A correlation of predicted and true numbers, -1 to 1; 0 where either is constant."""

    higher_is_better = True
    best = 1.0

    def measure(self, predictions: list[float], references: list[float]) -> float:
        if is_constant(predictions) or is_constant(references):
            return 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of nearly constant input: the result is right up to rounding
            return float(self.count(references, predictions).statistic)


@metrics.register("pearson")
class Pearson(CorrelationMetric):
    """Pearson's correlation of predicted and true numbers, -1 to 1; 0 where either is constant."""

    library = "scipy.stats:pearsonr"

    def measure(self, predictions: list[float], references: list[float]) -> float:
        if not np.isfinite(predictions).all():
            return math.nan  # after diverged training; older versions of scipy raise an error
        return super().measure(predictions, references)


@metrics.register("spearman")
class Spearman(CorrelationMetric):
    """Pearson's correlation of the ranks of predicted and true numbers, -1 to 1; 0 where either is constant."""

    library = "scipy.stats:spearmanr"


@metrics.register("mse")
class MeanSquaredError(NumberMetric):
    """The mean of (predicted - true)^2; not finite if a prediction is not, as after diverged training."""

    higher_is_better = False

    def measure(self, predictions: list[float], references: list[float]) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.square(np.subtract(predictions, references, dtype=np.float64)).mean())


def is_constant(numbers: list[float]) -> bool:
    """Whether a correlation is undefined: all numbers are equal, or there is only one."""
    return bool(np.ptp(numbers) == 0)
