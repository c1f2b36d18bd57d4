"""The YAML at the head of a model card, which the hub reads: license, task, data sets, and what was measured.

Source: the hub's model card specification, https://github.com/huggingface/hub-docs/blob/main/modelcard.md.
"""

from typing import Any

from zoo.config import to_yaml
from zoo.hub.exporting.card.prose import visible, without_folders
from zoo.hub.exporting.record import RunRecord
from zoo.hub.targets.declare.target import NativeClass

THEIR_METRICS = {"matthews": "matthews_correlation"}  # where the hub has another name


def front_matter(chosen: NativeClass, record: RunRecord | None, name: str) -> list[str]:
    """The lines between the two marks, which are among them."""
    known: dict[str, Any] = {}
    if record is not None:
        known |= {"license": record.card.license, "language": record.card.language, "datasets": record.datasets}
        known |= {"base_model": visible(record.base.removeprefix("hub:"))} if record.base.startswith("hub:") else {}
    known |= {"library_name": "transformers", "pipeline_tag": chosen.pipeline, "tags": ["zoo"]}
    if record is not None:
        known["metrics"] = list(dict.fromkeys(type_of(metric) for metric in record.measured if metric != "loss"))
        known["model-index"] = model_index(chosen, record, name)
    return ["---", to_yaml({key: value for key, value in known.items() if value}).rstrip(), "---", ""]


def model_index(chosen: NativeClass, record: RunRecord, name: str) -> list[dict[str, Any]]:
    """What was measured, as the hub wants it; nothing where nothing was, or the task has no name there."""
    measured = {metric: value for metric, value in record.measured.items() if metric != "loss"}
    if not measured or chosen.pipeline is None:
        return []
    task = visible(without_folders(record.task_name)).removesuffix(".yaml") or "its task"
    data = {"name": task, "type": record.datasets[0] if record.datasets else task, "split": "validation"}
    metrics = [{"type": type_of(m), "name": m, "value": round(value, 6)} for m, value in measured.items()]
    return [{"name": name, "results": [{"task": {"type": chosen.pipeline}, "dataset": data, "metrics": metrics}]}]


def type_of(metric: str) -> str:
    """The hub's name of a metric."""
    own = metric.rpartition("/")[2]
    return THEIR_METRICS.get(own, own)
