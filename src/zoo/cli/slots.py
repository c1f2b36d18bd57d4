"""Every slot of a model and its training, in the order in which a model is read; none of them imports a metric."""

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
from zoo.models.heads.head import heads
from zoo.models.initialize import initializers
from zoo.objectives.objective import objectives
from zoo.registry import Slot

SLOTS: tuple[Slot[Any], ...] = (
    norms, activations, feed_forwards, positions, scalings, scores, attentions, cells, mixers, blocks, stages, heads,
    initializers, backends, objectives,
)  # fmt: skip
