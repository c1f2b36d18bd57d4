"""A zoo metric for the `evaluate` library."""

from typing import Any

import evaluate
from evaluate.info import Features, Value  # `datasets`' own, through the library that asks for them

from zoo.metrics.metric import metrics


class EvaluateMetric(evaluate.Metric):  # type: ignore[misc]  # evaluate ships no types
    """A registered metric: `add_batch` collects, `compute` returns {name: number}, and `evaluate.combine` accepts it.

    It needs no network and writes no file. zoo itself does not use it.
    """

    def __init__(self, name: str) -> None:
        self.measured = metrics[name]()
        super().__init__(keep_in_memory=True)

    def _build_data_dir(self) -> str:
        return ""  # evaluate would create a cache folder here, even with keep_in_memory

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
