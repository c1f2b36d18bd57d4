"""A metric of zoo as the `evaluate` library takes it."""

from typing import Any

import evaluate
from evaluate.info import Features, Value  # `datasets`' own, through the library that asks for them

from zoo.metrics.metric import metrics


class EvaluateMetric(evaluate.Metric):  # type: ignore[misc]  # evaluate ships no types
    """A registered metric: `add_batch` collects, `compute` answers {name: number}, `evaluate.combine` takes it.

    It needs no network and writes no file. zoo itself measures without it.
    """

    def __init__(self, name: str) -> None:
        self.measured = metrics[name]()
        super().__init__(keep_in_memory=True)

    def _build_data_dir(self) -> str:
        return ""  # evaluate would make a folder for its cache here, also where all is kept in memory

    @property
    def name(self) -> str:
        """The registered name."""
        return self.measured.name

    def _info(self) -> evaluate.MetricInfo:
        types = self.measured.inputs.items()
        features = Features({k: [Value(t[0])] if isinstance(t, list) else Value(t) for k, t in types})
        return evaluate.MetricInfo(
            description=self.measured.__doc__ or "", citation="", inputs_description="", features=features
        )

    def _compute(self, **given: Any) -> dict[str, float]:
        return {self.name: self.measured.compute(**given)}
