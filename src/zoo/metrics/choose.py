"""Parse a task's metrics: `<objective>/<metric>`, or a bare name, which means the first objective that offers it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zoo.metrics.metric import Metric, metrics
from zoo.wording import refuse_unknown

Offered = Mapping[str, Sequence[str]]  # objective -> its metrics, in the task's order


class ChosenMetric(NamedTuple):
    """A metric of one of a task's objectives."""

    objective: str
    metric: str

    @property
    def variant(self) -> type[Metric]:
        """The class that computes it."""
        return metrics[self.registered]

    @property
    def registered(self) -> str:
        """The name in the registry: `<objective>/<metric>` if the objective has its own variant, else the bare name."""
        return self.name if self.name in metrics.variants else self.metric

    @property
    def name(self) -> str:
        """The name in results and logs."""
        return f"{self.objective}/{self.metric}"


def parse_metrics(wanted: Sequence[str], offered: Offered) -> list[ChosenMetric]:
    """Find the objective that each of a task's metrics belongs to.

    Raises:
        ValueError: a name that no objective offers, or a metric named twice.
    """
    chosen: list[ChosenMetric] = []
    for i, name in enumerate(wanted):
        metric = parse_metric(name, offered, f"task.metrics[{i}]")
        if metric in chosen:
            raise ValueError(f"task.metrics[{i}]: the metric '{metric.name}' is named twice")
        chosen.append(metric)
    return chosen


def parse_metric(name: str, offered: Offered, place: str) -> ChosenMetric:
    """Find the objective that a metric's name belongs to.

    Args:
        place: the setting, for the message.

    Raises:
        ValueError: an unknown objective, or a metric that it does not offer.
    """
    objective, slash, metric = name.rpartition("/")
    if slash:
        refuse_unknown(objective, offered, "objective", place)
        refuse_unknown(metric, offered[objective], f"metric of {objective}", place)
    else:
        bare = dict.fromkeys(metric for own in offered.values() for metric in own)
        refuse_unknown(metric, bare, f"metric of {', '.join(offered)}", place)
        objective = next(name for name, own in offered.items() if metric in own)
    return ChosenMetric(objective, metric)
