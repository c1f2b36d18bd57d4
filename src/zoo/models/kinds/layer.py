"""Settings of a stack of blocks, and the modules that are built from them for each layer."""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union

from torch import nn

from zoo.annotations import PerLayer
from zoo.blocks.attention import Attention, attentions
from zoo.blocks.block import Block, blocks
from zoo.blocks.feed_forward import feed_forwards
from zoo.blocks.mixer import Mixer, mixers
from zoo.blocks.norm import norms
from zoo.blocks.position import Position, positions
from zoo.registry import Choice, at_layer, refuse_below

T = TypeVar("T")
MAX_LAYERS = 10_000  # the deepest Transformers have 1,000; building what a typo asks for would take hours
if TYPE_CHECKING:  # to mypy the value of one layer, as `TransformerSettings.layer` returns it
    Cycled = Annotated[T, PerLayer]
else:
    Cycled = Union[T, PerLayer]  # noqa: UP007


@dataclass(frozen=True)
class TransformerSettings:
    """Settings of a stack; all but the first six may be lists, which are cycled over the layers.

    Args:
        n_layers: number of blocks.
        d_model, vocab_size, max_length, dropout: inherited from the model where a stack does not set them.
        first_norm: whether the first block normalizes its mixer's input; not in ModernBERT, which has just normalized
            the embeddings.
        final_norm: whether the stack ends with a norm; None: if its blocks leave the residual stream unnormalized.
    """

    n_layers: int
    d_model: int
    vocab_size: int
    max_length: int
    first_norm: bool = True
    final_norm: bool | None = None
    n_heads: Cycled[int] = 8
    d_ff: Cycled[int] = 2048
    dropout: Cycled[float] = 0.1
    norm: Cycled[Annotated[Choice[nn.Module], norms]] = norms.parse("layernorm")
    position: Cycled[Annotated[Choice[Position], positions]] = positions.parse("sinusoidal")
    mixer: Cycled[Annotated[Choice[Mixer], mixers]] = mixers.parse("attention")
    attention: Cycled[Annotated[Choice[Attention], attentions]] = attentions.parse("full")
    feed_forward: Cycled[Annotated[Choice[nn.Module], feed_forwards]] = feed_forwards.parse("mlp")
    block: Cycled[Annotated[Choice[Block], blocks]] = blocks.parse("post_norm")

    def __post_init__(self) -> None:
        sizes = ("n_layers", "d_model", "vocab_size", "max_length", "n_heads", "d_ff")
        refuse_below(1, **{name: getattr(self, name) for name in sizes})
        if self.n_layers > MAX_LAYERS:
            raise ValueError(f"n_layers must be at most {MAX_LAYERS}, got {self.n_layers}")

    def layer(self, number: int) -> "TransformerSettings":
        """Return the settings of one layer: lists are cycled, also those among the options of a variant."""
        settings = replace(self, **{f.name: at_layer(getattr(self, f.name), number) for f in fields(self)})
        return replace(settings, attention=settings.attention.inherit(dropout=settings.dropout))

    def unused_settings(self, reads_memory: bool) -> dict[str, str]:
        """Return the settings that nothing reads, each with the reason; `reads_memory` as in `ReportsUnused`."""
        layers = [self.layer(number) for number in range(self.n_layers)]
        if any(mixers[layer.mixer.name].attends for layer in layers):
            return {}
        names = ", ".join(dict.fromkeys(layer.mixer.name for layer in layers))
        why = f"it acts in attention, and the mixer of every layer is {names}"
        found = {} if reads_memory else dict.fromkeys(("attention", "n_heads"), why)
        kinds = [positions[layer.position.name] for layer in layers]
        return {**found, "position": why} if any(kind.rotates or kind.biases for kind in kinds) else found


def build_cross(layer: TransformerSettings, d_memory: int) -> Attention:
    """Build attention to a memory, without a window: positions of two different rows have no distance.

    Raises:
        ValueError: the attention's output does not have d_model features.
    """
    options = {key: value for key, value in layer.attention.options.items() if key != "window"}
    cross: Attention = replace(layer.attention, options=options).build(layer.d_model, layer.n_heads, d_memory)
    if cross.width != layer.d_model:
        problem = f"attention '{layer.attention.name}' returns the memory's width ({cross.width}), not d_model"
        raise ValueError(f"{problem} ({layer.d_model}); choose full, or give both parts the same d_model")
    return cross


def build_block(layer: TransformerSettings, causal: bool, d_memory: int | None) -> Block:
    """Build one block; with attention to a memory if `d_memory`, the memory's width, is given."""
    return layer.block.build(
        lambda: layer.norm.build(layer.d_model),
        layer.mixer.build(layer.d_model, causal, lambda: layer.attention.build(layer.d_model, layer.n_heads)),
        None if d_memory is None else build_cross(layer, d_memory),
        layer.feed_forward.build(layer.d_model, layer.d_ff),
        layer.dropout,
    )


def build_positions(layers: list[TransformerSettings], causal: bool, width: int) -> tuple[list[Position], list[int]]:
    """Return one position module per distinct choice, and the index of the one that each layer uses.

    Layers with the same choice share a module, as T5's layers share one table. A module that acts only in attention (on
    queries, keys or scores) is not built for layers whose mixer does not attend: its parameters would get no gradient.

    Args:
        width: of the vectors that position embeddings are added to.

    Raises:
        ValueError: positions are added to the input, but differ between layers.
    """
    kinds: list[tuple[Any, ...]] = []
    built: list[Position] = []
    numbers = []
    for layer in layers:
        if not (positions[layer.position.name].embeds or mixers[layer.mixer.name].attends):
            numbers.append(0)  # any index: this layer uses no position
            continue
        d_key = layer.attention.options.get("d_key") or layer.d_model // layer.n_heads
        kind = (layer.position, layer.n_heads, d_key)
        if kind not in kinds:
            kinds.append(kind)
            built.append(layer.position.build(width, layer.n_heads, d_key, layer.max_length, causal))
        numbers.append(kinds.index(kind))
    acting = [layer.position.name for layer in layers if positions[layer.position.name].embeds]
    if acting and len({layer.position.name for layer in layers}) > 1:
        raise ValueError(f"position '{acting[0]}' acts on the input, so it cannot differ from layer to layer")
    if acting:  # one module for all: layers may differ in their heads, but share the input
        return built[:1], [0] * len(layers)
    return built or [Position()], numbers
