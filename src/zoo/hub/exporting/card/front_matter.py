"""The YAML front matter of a model card, which the Hub reads: license, task, data sets, and results."""

from collections.abc import Mapping
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from zoo.data.sources.remote.repository import HubName
from zoo.hub.exporting.card.markdown import one_line
from zoo.hub.exporting.card.paths import last_component
from zoo.hub.exporting.trained_model import TrainedModel, TrainingHistory
from zoo.hub.targets.declare.target import NativeClass

HUB_METRIC_NAMES = {"matthews": "matthews_correlation"}  # metrics with another name on the Hub


def front_matter(trained: TrainedModel, native: NativeClass, name: str) -> list[str]:
    """The lines of the front matter, including the two `---` lines."""
    task, history = trained.task, trained.history
    metrics = {metric: value for metric, value in trained.measured(native).items() if metric != "loss"}
    datasets = task.card.datasets or ([HubName.parse(task.source.hub).repository] if task.source.hub else [])
    start, results = history.request.start, eval_results(native, history, metrics, datasets)
    known: dict[str, Any] = {
        "license": task.card.license,
        "language": task.card.language,
        "datasets": datasets,
        "base_model": one_line(start.removeprefix("hub:")) if history.bases and start.startswith("hub:") else None,
        "metrics": list(dict.fromkeys(hub_metric_name(metric) for metric in metrics)),
        "model_name": name if results else None,  # the Hub's client wants both or neither
        "eval_results": results,
    }
    known = {key: value for key, value in known.items() if value}  # a missing key means unknown
    data = ModelCardData(library_name="transformers", pipeline_tag=native.pipeline, tags=["zoo"], **known)
    return ["---", data.to_yaml(), "---", ""]


def eval_results(
    native: NativeClass, history: TrainingHistory, metrics: Mapping[str, float], datasets: list[str]
) -> list[EvalResult]:
    """The results in the Hub's format; empty if the class has no task there, or if only a sample was measured."""
    if native.pipeline is None or history.n_measured is not None:
        return []
    task = one_line(last_component(history.request.task)).removesuffix(".yaml") or "its task"
    return [
        EvalResult(
            task_type=native.pipeline,
            dataset_type=datasets[0] if datasets else task,
            dataset_name=task,
            dataset_split="validation",
            metric_type=hub_metric_name(metric),
            metric_name=metric,
            metric_value=round(value, 6),
        )
        for metric, value in metrics.items()
    ]


def hub_metric_name(metric: str) -> str:
    """The Hub's name of a metric."""
    own = metric.rpartition("/")[2]
    return HUB_METRIC_NAMES.get(own, own)
