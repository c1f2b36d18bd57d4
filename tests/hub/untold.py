"""Models to export of whose training nothing is known."""

from collections.abc import Sequence
from typing import Any

from zoo.data.task import read_task
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.exporting.trained_model import TrainedModel, TrainingHistory
from zoo.hub.importing.importing import task_of
from zoo.inference.loaded import Loaded, model_traits
from zoo.models.model import Model


def untold(
    model: Model,
    tokenizer: Tokenizer | None,
    heads: Sequence[str] = (),
    labels: Sequence[str] = (),
    generate: dict[str, Any] | None = None,
) -> TrainedModel:
    """A model with an objective for each of its heads, `heads` first."""
    tree = task_of(model.settings, model_traits(model), list(labels), generate or {}, False, {})
    names = list(tree["objective"])
    ranked = sorted(zip(names, model.settings.heads, strict=True), key=lambda pair: pair[1].name not in heads[:1])
    task = read_task({**tree, "objective": {name: {} for name, _ in ranked}}, "task.yaml")
    return TrainedModel(model, tokenizer, task, TrainingHistory("untold"))


def untold_run(loaded: Loaded, tokenizer: Tokenizer | None = None) -> TrainedModel:
    """What a run holds, without its history."""
    return TrainedModel(loaded.model, tokenizer or loaded.optional_tokenizer, loaded.task, TrainingHistory("untold"))
