"""The YAML at the head of a model card, which the hub reads: license, task, data sets, and what was measured."""

from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from zoo.hub.exporting.card.markdown import visible
from zoo.hub.exporting.card.paths import name_of
from zoo.hub.exporting.trained_model import TrainingHistory
from zoo.hub.targets.declare.target import NativeClass

THEIR_METRICS = {"matthews": "matthews_correlation"}  # where the hub has another name


def front_matter(native: NativeClass, history: TrainingHistory | None, name: str) -> list[str]:
    """The lines between the two marks, which are among them."""
    known: dict[str, Any] = {}
    if history is not None:
        known |= {"license": history.card.license, "language": history.card.language, "datasets": history.datasets}
        known |= {"base_model": visible(history.base.removeprefix("hub:"))} if history.base.startswith("hub:") else {}
        known["metrics"] = [type_of(metric) for metric in history.metrics]
        known |= {"model_name": name, "eval_results": results} if (results := eval_results(native, history)) else {}
    known = {key: value for key, value in known.items() if value}
    data = ModelCardData(library_name="transformers", pipeline_tag=native.pipeline, tags=["zoo"], **known)
    return ["---", data.to_yaml(), "---", ""]


def eval_results(native: NativeClass, history: TrainingHistory) -> list[EvalResult]:
    """What was measured, as the hub wants it; nothing where the task has no name there."""
    task = visible(name_of(history.task_name)).removesuffix(".yaml") or "its task"
    if native.pipeline is None:
        return []
    return [
        EvalResult(
            task_type=native.pipeline,
            dataset_type=history.datasets[0] if history.datasets else task,
            dataset_name=task,
            dataset_split="validation",
            metric_type=type_of(metric),
            metric_name=metric,
            metric_value=round(value, 6),
        )
        for metric, value in history.metrics.items()
    ]


def type_of(metric: str) -> str:
    """The hub's name of a metric."""
    own = metric.rpartition("/")[2]
    return THEIR_METRICS.get(own, own)
