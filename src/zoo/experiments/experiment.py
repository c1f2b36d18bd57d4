"""One resolved experiment: model, task, training and generation settings, with the origin of each value."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from zoo import config
from zoo.data.task import Task
from zoo.examples.form import ModelTraits
from zoo.experiments.layers import SET, Value, values_of
from zoo.inference.loaded import model_traits
from zoo.metrics.choose import ChosenMetric
from zoo.models.cost import on_meta
from zoo.models.generation.settings import GenerateSettings
from zoo.models.settings import ModelSettings, dump_settings, head_map
from zoo.objectives.mixture import Mixture
from zoo.registry import plain
from zoo.training.settings import Training


def values_of_model(model: ModelSettings, origins: Mapping[str, str]) -> Iterator[Value]:
    """Yield every value of a model but its `training`, which is part of the training settings."""
    tree = {key: value for key, value in dump_settings(model).items() if key != "training"}
    return values_of("model", {**tree, "heads": head_map(tree["heads"], "heads")}, origins)


def traits_of(model: ModelSettings) -> ModelTraits:
    """The traits of a model that examples depend on. Heads are left out: they may not fit a model of the wrong kind."""
    return model_traits(on_meta(replace(model, heads=())))


@dataclass(frozen=True)
class Experiment:
    """All settings of one run; what the data and the tokenizer decide is filled in later (see `fill_in`).

    Args:
        origins: dotted key of a value -> where it came from; a key not listed has the library's default.
    """

    model: ModelSettings
    task: Task
    mixture: Mixture
    metrics: list[ChosenMetric]
    generate: GenerateSettings
    training: Training
    origins: Mapping[str, str]

    @property
    def traits(self) -> ModelTraits:
        """The traits of the model that examples depend on."""
        return traits_of(self.model)

    def decide(self, place: str, keys: Iterable[str], **parts: Any) -> "Experiment":
        """A copy with some fields replaced, which records `place` as the origin of the values at `keys`."""
        return replace(self, origins={**self.origins, **dict.fromkeys(keys, place)}, **parts)

    def is_set(self, key: str) -> bool:
        """Whether `--set` named a value."""
        return self.origins.get(key, "").startswith(SET)

    def values(self) -> Iterator[Value]:
        """Yield every value of the model, task (those in `Task.plain`), training and generation settings."""
        task = {key: value for key, value in plain(self.task.plain()).items() if key not in ("training", "generate")}
        written = {key.removeprefix("task."): place for key, place in self.origins.items()}
        yield from values_of_model(self.model, self.origins)
        yield from values_of("task", task, self.origins)
        yield from values_of("training", config.dump(self.training), self.origins)
        yield from values_of("generate", config.dump(self.generate), written)
