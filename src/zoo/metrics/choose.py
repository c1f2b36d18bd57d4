"""Which metrics a task asks for: `<objective>/<metric>`, or a bare name of the first objective that offers it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from zoo.metrics.metric import metrics
from zoo.registry import refuse_unknown

Offered = Mapping[str, Sequence[str]]  # objective -> its metrics, in the task's order


class ChosenMetric(NamedTuple):
    """A metric of one of a task's objectives."""

    objective: str
    metric: str

    @property
    def higher_is_better(self) -> bool:
        """Which way is better."""
        return metrics[self.metric].higher_is_better

    @property
    def name(self) -> str:
        """How results and logs write it."""
        return f"{self.objective}/{self.metric}"


def parse_metrics(value: Any, offered: Offered, place: str = "task.metrics") -> list[ChosenMetric]:
    """Read a task's list of metrics; None is an empty list.

    Raises:
        ValueError: not a list of names, a name that no objective offers, or a metric named twice.
    """
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise ValueError(
            f"{place}: expected a list of metrics such as [{', '.join(names(offered)[:2])}], got {value!r}"
        )
    chosen: list[ChosenMetric] = []
    for i, name in enumerate(value):
        metric = parse_metric(name, offered, f"{place}[{i}]")
        if metric in chosen:
            raise ValueError(f"{place}[{i}]: the metric '{metric.name}' is named twice")
        chosen.append(metric)
    return chosen


def parse_metric(name: Any, offered: Offered, place: str) -> ChosenMetric:
    """Find the objective that a metric's name belongs to."""
    if not isinstance(name, str):
        raise ValueError(f"{place}: expected the name of a metric, got {name!r}")
    objective, slash, metric = name.rpartition("/")
    if slash:
        refuse_unknown(objective, offered, "objective", place)
        refuse_unknown(metric, offered[objective], f"metric of {objective}", place)
    else:
        refuse_unknown(metric, names(offered), "metric", place)
        objective = next(name for name, own in offered.items() if metric in own)
    return ChosenMetric(objective, metric)


def names(offered: Offered) -> list[str]:
    """The bare names on offer, each once."""
    return list(dict.fromkeys(metric for own in offered.values() for metric in own))
