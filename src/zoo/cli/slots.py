"""Every slot of the registry: those of a model, then those of training and of tasks."""

import dataclasses
from typing import Any

from zoo.blocks.activation import activations
from zoo.blocks.attention import attentions
from zoo.blocks.backends.backend import backends
from zoo.blocks.block import blocks
from zoo.blocks.feed_forward import feed_forwards
from zoo.blocks.mixer import mixers
from zoo.blocks.norm import norms
from zoo.blocks.position import positions
from zoo.blocks.recurrence import cells
from zoo.blocks.rotary_scaling import scalings
from zoo.blocks.score import scores
from zoo.blocks.stage import stages
from zoo.data.builtin.builtin import builtins
from zoo.data.formats.format import formats
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.examples.form import forms
from zoo.inference.predictors.predictor import predictors
from zoo.metrics.metric import metrics
from zoo.models.heads.head import heads
from zoo.models.initialize import initializers
from zoo.models.kinds.part import decoders, encoders
from zoo.objectives.objective import objectives
from zoo.registry import REQUIRED, Slot, plain
from zoo.training.optimizers.optimizer import optimizers
from zoo.training.schedules import schedules

SLOTS: tuple[Slot[Any], ...] = (
    norms, activations, feed_forwards, positions, scalings, scores, attentions, cells, mixers, blocks, stages, heads,
    initializers, backends, objectives, encoders, decoders, forms, metrics, predictors, optimizers, schedules, formats,
    tokenizers, builtins,
)  # fmt: skip


def every_option() -> dict[str, dict[str, dict[str, Any]]]:
    """Return every slot with its variants and their options."""
    return {slot.name: {name: options(slot, name) for name in slot.names()} for slot in SLOTS}


def options(slot: Slot[Any], name: str) -> dict[str, Any]:
    """Return a variant's options (an encoder's or decoder's settings), with the default or "required" for each."""
    if slot in (encoders, decoders):
        known = {one.name: default_of(one) for one in dataclasses.fields(slot[name].Settings)}
    else:
        known = {key: option.default for key, option in slot.options(name).items()}
    return {key: "required" if default is REQUIRED else plain(default) for key, default in known.items()}


def default_of(setting: "dataclasses.Field[Any]") -> Any:
    """Return the default of a dataclass field; REQUIRED if it has none."""
    if setting.default_factory is not dataclasses.MISSING:
        return setting.default_factory()
    return REQUIRED if setting.default is dataclasses.MISSING else setting.default
