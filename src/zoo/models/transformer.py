"""Kind `transformer` of encoder and decoder: a stack of blocks, each of its parts a choice."""

from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zoo.blocks.attention import Attention, attentions
from zoo.blocks.block import Block, BlockState, Crossing, Record, blocks
from zoo.blocks.documents import View, positions_of
from zoo.blocks.feed_forward import feed_forwards
from zoo.blocks.mixer import Mixer, mixers
from zoo.blocks.norm import norms
from zoo.blocks.position import Position, positions
from zoo.models.embeddings import Embeddings, EmbeddingSettings
from zoo.models.parts import Decoder, Documents, Encoder, Memory, Pass, States, decoders, encoders
from zoo.registry import Choice, PerLayer, plain

CYCLED = {"per_layer": True}


@dataclass(frozen=True)
class TransformerSettings:
    """Settings of a stack; every one but the first five may be a list that is cycled over the layers.

    Args:
        n_layers: number of blocks.
        d_model, vocab_size, max_length, dropout: inherited from the model where a stack does not set them.
        first_norm: whether the first block normalizes its mixer's input; not, where embeddings have just been (ModernBERT).
        final_norm: a norm at the end of the stack; None: where the blocks leave the stream unnormalized.
    """

    n_layers: int
    d_model: int
    vocab_size: int
    max_length: int
    first_norm: bool = True
    final_norm: bool | None = None
    n_heads: int = field(default=8, metadata=CYCLED)
    d_ff: int = field(default=2048, metadata=CYCLED)
    dropout: float = field(default=0.1, metadata=CYCLED)
    norm: Annotated[Choice[nn.Module], norms] = field(default=norms.parse("layernorm"), metadata=CYCLED)
    position: Annotated[Choice[Position], positions] = field(default=positions.parse("sinusoidal"), metadata=CYCLED)
    mixer: Annotated[Choice[Mixer], mixers] = field(default=mixers.parse("attention"), metadata=CYCLED)
    attention: Annotated[Choice[Attention], attentions] = field(default=attentions.parse("full"), metadata=CYCLED)
    feed_forward: Annotated[Choice[nn.Module], feed_forwards] = field(default=feed_forwards.parse("mlp"), metadata=CYCLED)
    block: Annotated[Choice[Block], blocks] = field(default=blocks.parse("post_norm"), metadata=CYCLED)

    def __post_init__(self) -> None:
        for name in ("n_layers", "d_model", "vocab_size", "max_length", "n_heads", "d_ff"):
            value = getattr(self, name)
            if any(v < 1 for v in (value.values if isinstance(value, PerLayer) else (value,))):
                raise ValueError(f"{name} must be at least 1, got {plain(value)}")

    def layer(self, number: int) -> "TransformerSettings":
        """The settings of one layer: lists are cycled, options that are lists too."""
        values: dict[str, Any] = {}
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            value = value.at(number) if isinstance(value, PerLayer) else value
            values[name] = value.at(number) if isinstance(value, Choice) else value
        settings = replace(self, **values)
        return replace(settings, attention=settings.attention.inherit(dropout=settings.dropout))


def build_attention(layer: TransformerSettings, d_memory: int | None = None) -> Attention:
    return layer.attention.build(layer.d_model, layer.n_heads, d_memory)


def build_block(layer: TransformerSettings, causal: bool, d_memory: int | None) -> Block:
    """One block; with attention to a memory where `d_memory`, its width, is given."""
    return layer.block.build(
        lambda: layer.norm.build(layer.d_model),
        layer.mixer.build(layer.d_model, causal, lambda: build_attention(layer)),
        None if d_memory is None else build_attention(layer, d_memory),
        layer.feed_forward.build(layer.d_model, layer.d_ff),
        layer.dropout,
    )


class Stack(nn.Module):
    """Embeddings, blocks, and a norm at the end where the blocks need one."""

    def __init__(self, settings: TransformerSettings, embeddings: EmbeddingSettings, causal: bool, d_memory: int | None) -> None:
        super().__init__()
        layers = [settings.layer(i) for i in range(settings.n_layers)]
        self.causal = causal
        self.embeddings = Embeddings(settings.vocab_size, settings.d_model, layers[0].dropout, embeddings)
        self.positions, self.position_of = build_positions(layers, causal)
        self.blocks = nn.ModuleList(build_block(layer, causal, d_memory) for layer in layers)
        if not settings.first_norm:
            self.blocks[0].norms["mixer"] = nn.Identity()
        ends = self.blocks[-1].final_norm if settings.final_norm is None else settings.final_norm
        self.norm = layers[-1].norm.build(settings.d_model) if ends else None
        self.checkpointing = False

    def embedded(self) -> list[Position]:
        """The positions that act on the input."""
        return [p for p in self.positions if p.embeds]

    def forward(self, given: Pass, crossing: Crossing | None = None, record: Record | None = None) -> States:
        documents = given.explicit_documents()
        at = positions_of(documents)
        view = View(documents, at, documents, causal=self.causal, plain=given.documents is None)
        x = self.embeddings(given.tokens, given.segments, at, self.embedded())
        for block, number in zip(self.blocks, self.position_of, strict=True):
            layer_view = view.under(self.positions[number])
            if self.checkpointing and self.training:
                x = checkpoint(block, x, layer_view, crossing, record, use_reentrant=False)
            else:
                x = block(x, layer_view, crossing, record)
        return x if self.norm is None else self.norm(x)

    def start(self, batch: int, crossing: Crossing | None) -> "TransformerState":
        states = [block.start_state(batch, crossing) for block in self.blocks]
        device = self.embeddings.tokens.weight.device
        nothing = torch.zeros(batch, 0, dtype=torch.long, device=device)
        memory_documents = None if crossing is None else crossing.view.key_documents
        return TransformerState(nothing, states, memory_documents, plain=True, plain_memory=crossing is None or crossing.view.plain)

    def step(self, tokens: Int[Tensor, "batch new"], documents: Int[Tensor, "batch new"] | None, state: "TransformerState") -> States:
        past = state.documents
        state.plain = state.plain and documents is None
        new = torch.ones_like(tokens) if documents is None else documents
        state.documents = torch.cat([past, new], dim=1)
        at = ((past > 0).sum(1, keepdim=True) + (new > 0).cumsum(1) - 1).clamp_min(0)
        view = View(new, at, state.documents, past.shape[1], self.causal, state.plain)
        memory_view = None
        if state.memory_documents is not None:
            memory_view = View(new, at, state.memory_documents, plain=state.plain and state.plain_memory)
        x = self.embeddings(tokens, None, at, self.embedded())
        for block, number, block_state in zip(self.blocks, self.position_of, state.blocks, strict=True):
            x = block.step(x, view.under(self.positions[number]), memory_view, block_state)
        return x if self.norm is None else self.norm(x)


def build_positions(layers: list[TransformerSettings], causal: bool) -> tuple[nn.ModuleList, list[int]]:
    """One position module for each different choice, and which one each layer uses.

    Layers with the same choice share it, as T5's layers share one table.
    """
    kinds: list[tuple[Any, ...]] = []
    modules = nn.ModuleList()
    numbers = []
    for layer in layers:
        d_key = layer.attention.option("d_key") or layer.d_model // layer.n_heads
        kind = (layer.position, layer.n_heads, d_key)
        if kind not in kinds:
            kinds.append(kind)
            modules.append(layer.position.build(layer.d_model, layer.n_heads, d_key, layer.max_length, causal))
        numbers.append(kinds.index(kind))
    if len({layer.position.name for layer in layers}) > 1 and any(p.embeds for p in modules):
        acting = next(layer.position.name for layer, n in zip(layers, numbers, strict=True) if modules[n].embeds)
        raise ValueError(f"position '{acting}' acts on the input, so it cannot differ from layer to layer")
    embedding = [i for i, p in enumerate(modules) if p.embeds]
    if len(embedding) > 1:  # the same choice, for layers with other heads: the input is the same
        return nn.ModuleList([modules[0]]), [0] * len(layers)
    return modules, numbers


@dataclass
class TransformerState:
    """What a decoder remembers between steps."""

    documents: Documents
    blocks: list[BlockState]
    memory_documents: Int[Tensor, "batch memory"] | None
    plain: bool
    plain_memory: bool


def record_of(given: Pass, side: str, crosses: bool) -> Record | None:
    """Lists for the weights of a stack, under `<side>.self` and `<side>.cross`."""
    if given.record is None:
        return None
    record = Record(given.record.setdefault(f"{side}.self", []), [])
    if crosses:
        given.record[f"{side}.cross"] = record.cross
    return record


@encoders.register("transformer")
class TransformerEncoder(Encoder):
    """A stack whose places see all of their document.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1; Devlin et al. 2019, arXiv:1810.04805.
    """

    Settings = TransformerSettings

    def __init__(self, settings: TransformerSettings, embeddings: EmbeddingSettings) -> None:
        super().__init__()
        self.stack = Stack(settings, embeddings, causal=False, d_memory=None)
        self.d_model, self.n_layers, self.max_length = settings.d_model, settings.n_layers, settings.max_length

    @property
    def embeddings(self) -> Embeddings:
        return self.stack.embeddings

    def forward(self, given: Pass) -> Memory:
        return Memory(self.stack(given, None, record_of(given, "encoder", False)), given.documents)

    def summarize(self, states: States, documents: Documents, places: Int[Tensor, " places"]) -> Float[Tensor, "places d_model"]:
        """The document's first place ([CLS]), whichever of its places is given."""
        known = places.clamp_min(0)
        return states.flatten(0, 1)[known - positions_of(documents).flatten()[known]]

    def checkpoint_layers(self, on: bool) -> None:
        self.stack.checkpointing = on


@decoders.register("transformer")
class TransformerDecoder(Decoder):
    """A stack whose places see those before them, and a memory where there is one.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1; without a memory Radford et al. 2018 (GPT).
    """

    Settings = TransformerSettings

    def __init__(self, settings: TransformerSettings, embeddings: EmbeddingSettings, d_memory: int | None) -> None:
        super().__init__()
        self.stack = Stack(settings, embeddings, causal=True, d_memory=d_memory)
        self.d_model, self.n_layers, self.max_length = settings.d_model, settings.n_layers, settings.max_length

    @property
    def embeddings(self) -> Embeddings:
        return self.stack.embeddings

    def forward(self, given: Pass, memory: Memory | None = None) -> States:
        crossing = None if memory is None else cross(given.explicit_documents(), given.documents is None, memory)
        return self.stack(given, crossing, record_of(given, "decoder", memory is not None))

    def start(self, batch: int, memory: Memory | None = None) -> TransformerState:
        if memory is None:
            return self.stack.start(batch, None)
        nothing = torch.zeros(batch, 0, dtype=torch.long, device=memory.states.device)
        return self.stack.start(batch, cross(nothing, True, memory))

    def step(
        self, tokens: Int[Tensor, "batch new"], documents: Int[Tensor, "batch new"] | None, state: TransformerState
    ) -> Float[Tensor, "batch new d_model"]:
        return self.stack.step(tokens, documents, state)

    def reorder(self, state: TransformerState, rows: Int[Tensor, " chosen"]) -> None:
        state.documents = state.documents[rows]
        if state.memory_documents is not None:
            state.memory_documents = state.memory_documents[rows]
        for block, block_state in zip(self.stack.blocks, state.blocks, strict=True):
            block.reorder(block_state, rows)

    def checkpoint_layers(self, on: bool) -> None:
        self.stack.checkpointing = on


def cross(documents: Documents, plain: bool, memory: Memory) -> Crossing:
    """What a decoder's places may see of a memory: their own document's source."""
    size = memory.states.shape[:2]
    keys = torch.ones(size, dtype=torch.long, device=memory.states.device) if memory.documents is None else memory.documents
    view = View(documents, torch.zeros_like(documents), keys, plain=plain and memory.documents is None)
    return Crossing(memory.states, view)
