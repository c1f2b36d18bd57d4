"""Settings of a stack of blocks, and what is built from them for each layer."""

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union

from torch import nn

from zoo.annotations import PerLayer
from zoo.blocks.attention import Attention, attentions
from zoo.blocks.block import Block, blocks
from zoo.blocks.feed_forward import feed_forwards
from zoo.blocks.mixer import Mixer, mixers
from zoo.blocks.norm import norms
from zoo.blocks.position import Position, positions
from zoo.registry import Choice, at_layer, plain

T = TypeVar("T")
CYCLED = {"per_layer": True}
MOST_LAYERS = 10_000  # the deepest Transformers have 1,000; building what a typo asks for would take hours
if TYPE_CHECKING:  # whoever reads such a field reads one layer's settings
    Cycled = Annotated[T, CYCLED]
else:
    Cycled = Union[T, PerLayer]  # noqa: UP007


@dataclass(frozen=True)
class TransformerSettings:
    """Settings of a stack; every one but the first six may be a list that is cycled over the layers.

    Args:
        n_layers: number of blocks.
        d_model, vocab_size, max_length, dropout: inherited from the model where a stack does not set them.
        first_norm: whether the first block normalizes its mixer's input; ModernBERT has just normalized its embeddings.
        final_norm: a norm at the end of the stack; None: where the blocks leave the stream unnormalized.
    """

    n_layers: int
    d_model: int
    vocab_size: int
    max_length: int
    first_norm: bool = True
    final_norm: bool | None = None
    n_heads: Cycled[int] = field(default=8, metadata=CYCLED)
    d_ff: Cycled[int] = field(default=2048, metadata=CYCLED)
    dropout: Cycled[float] = field(default=0.1, metadata=CYCLED)
    norm: Cycled[Annotated[Choice[nn.Module], norms]] = field(default=norms.parse("layernorm"), metadata=CYCLED)
    position: Cycled[Annotated[Choice[Position], positions]] = field(
        default=positions.parse("sinusoidal"), metadata=CYCLED
    )
    mixer: Cycled[Annotated[Choice[Mixer], mixers]] = field(default=mixers.parse("attention"), metadata=CYCLED)
    attention: Cycled[Annotated[Choice[Attention], attentions]] = field(
        default=attentions.parse("full"), metadata=CYCLED
    )
    feed_forward: Cycled[Annotated[Choice[nn.Module], feed_forwards]] = field(
        default=feed_forwards.parse("mlp"), metadata=CYCLED
    )
    block: Cycled[Annotated[Choice[Block], blocks]] = field(default=blocks.parse("post_norm"), metadata=CYCLED)

    def __post_init__(self) -> None:
        for name in ("n_layers", "d_model", "vocab_size", "max_length", "n_heads", "d_ff"):
            value = getattr(self, name)
            if any(v < 1 for v in (value.values if isinstance(value, PerLayer) else (value,))):
                raise ValueError(f"{name} must be at least 1, got {plain(value)}")
        if self.n_layers > MOST_LAYERS:
            raise ValueError(f"n_layers must be at most {MOST_LAYERS}, got {self.n_layers}")
        shares = self.dropout.values if isinstance(self.dropout, PerLayer) else (self.dropout,)
        if not all(0 <= share < 1 for share in shares):
            raise ValueError(f"dropout must be at least 0 and below 1, got {plain(self.dropout)}")

    def layer(self, number: int) -> "TransformerSettings":
        """The settings of one layer: lists are cycled, options that are lists too."""
        settings = replace(self, **{f.name: at_layer(getattr(self, f.name), number) for f in fields(self)})
        return replace(settings, attention=settings.attention.inherit(dropout=settings.dropout))

    def unread(self, reads_memory: bool) -> dict[str, str]:
        """Settings that nothing reads, each with the reason."""
        layers = [self.layer(number) for number in range(self.n_layers)]
        if any(mixers[layer.mixer.name].attends for layer in layers):
            return {}
        names = ", ".join(dict.fromkeys(layer.mixer.name for layer in layers))
        why = f"it acts in attention, and the mixer of every layer is {names}"
        found = {} if reads_memory else dict.fromkeys(("attention", "n_heads"), why)
        acting = any(positions[layer.position.name].acts_in_attention() for layer in layers)
        return {**found, "position": why} if acting else found


def build_attention(layer: TransformerSettings) -> Attention:
    return layer.attention.build(layer.d_model, layer.n_heads)


def build_cross(layer: TransformerSettings, d_memory: int) -> Attention:
    """Attention to a memory: places of two rows have no distance, so there is no window."""
    options = {key: value for key, value in layer.attention.options.items() if key != "window"}
    cross: Attention = replace(layer.attention, options=options).build(layer.d_model, layer.n_heads, d_memory)
    if cross.width != layer.d_model:
        problem = f"attention '{layer.attention.name}' returns the memory's width ({cross.width}), not d_model"
        raise ValueError(f"{problem} ({layer.d_model}); choose full, or give both parts the same d_model")
    return cross


def build_block(layer: TransformerSettings, causal: bool, d_memory: int | None) -> Block:
    """One block; with attention to a memory where `d_memory`, its width, is given."""
    return layer.block.build(
        lambda: layer.norm.build(layer.d_model),
        layer.mixer.build(layer.d_model, causal, lambda: build_attention(layer)),
        None if d_memory is None else build_cross(layer, d_memory),
        layer.feed_forward.build(layer.d_model, layer.d_ff),
        layer.dropout,
    )


def build_positions(layers: list[TransformerSettings], causal: bool) -> tuple[nn.ModuleList, list[int]]:
    """One position module for each different choice, and which one each layer uses.

    Layers with the same choice share it, as T5's layers share one table. What acts in attention alone (on queries, keys
    and scores) is not built for layers whose mixer does not attend, since its parameters would have no gradient.
    """
    kinds: list[tuple[Any, ...]] = []
    built: list[Position] = []
    numbers = []
    for layer in layers:
        if not (positions[layer.position.name].embeds or mixers[layer.mixer.name].attends):
            numbers.append(0)  # whichever that is, nothing asks it
            continue
        d_key = layer.attention.options.get("d_key") or layer.d_model // layer.n_heads
        kind = (layer.position, layer.n_heads, d_key)
        if kind not in kinds:
            kinds.append(kind)
            built.append(layer.position.build(layer.d_model, layer.n_heads, d_key, layer.max_length, causal))
        numbers.append(kinds.index(kind))
    acting = [layer.position.name for layer in layers if positions[layer.position.name].embeds]
    if acting and len({layer.position.name for layer in layers}) > 1:
        raise ValueError(f"position '{acting[0]}' acts on the input, so it cannot differ from layer to layer")
    if acting:  # layers with other heads read the same input
        return nn.ModuleList(built[:1]), [0] * len(layers)
    return nn.ModuleList(built or [Position()]), numbers
