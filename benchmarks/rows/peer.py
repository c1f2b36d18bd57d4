"""The peer of a training row: the transformers class that zoo's model would be exported to, with random weights."""

import transformers
from torch import nn

from zoo.data.ids import Roles
from zoo.data.task import load_task
from zoo.hub.exporting.config_files import config_file
from zoo.hub.exporting.trained_model import TrainedModel, TrainingHistory
from zoo.hub.targets.choose import choose_target
from zoo.models.cost import on_meta
from zoo.models.settings import ModelSettings


def untrained_peer(settings: ModelSettings, task: str, roles: Roles) -> nn.Module:
    """Build the class of the model's default target, with every setting as its export would have it.

    Raises:
        ValueError: no transformers class matches the model.
    """
    trained = TrainedModel(on_meta(settings), None, load_task(task), TrainingHistory("peer"), roles)
    target = choose_target(trained.settings)
    native = target.native_class(trained.settings)
    assert native is not None
    config = transformers.AutoConfig.for_model(**config_file(trained, target, native))
    peer: nn.Module = getattr(transformers, native.name)(config)
    return peer
