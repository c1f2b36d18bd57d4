"""Every metric by name, and its value for what was measured."""

from typing import Any

from zoo.metrics.metric import Metric, metrics


def compute(name: str, **measured: Any) -> float:
    """The value of a metric, from its inputs by name and its options.

    Raises:
        ValueError: an unknown metric, missing inputs, or nothing to measure.
    """
    metric: Metric = metrics[name]()
    missing = [key for key in metric.inputs if key not in measured]
    if missing:
        raise ValueError(f"{name}: the input '{missing[0]}' is missing; it needs {', '.join(metric.inputs)}")
    result: dict[str, float] = metric.compute(**measured)
    return result[name]
