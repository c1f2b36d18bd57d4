"""Kind `transformer` of encoder and decoder: a stack of blocks, each of its parts a choice."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zoo.blocks.block import Block, BlockState, Crossing, Record
from zoo.blocks.documents import View, positions_of
from zoo.blocks.position import Position
from zoo.models.embeddings import Embeddings, EmbeddingSettings
from zoo.models.kinds.layer import TransformerSettings, build_block, build_positions
from zoo.models.kinds.part import Decoder, Documents, Encoder, Memory, Pass, States, decoders, encoders


class Stack(nn.Module):
    """Embeddings, blocks, and a norm at the end where the blocks need one."""

    def __init__(
        self, settings: TransformerSettings, embeddings: EmbeddingSettings, causal: bool, d_memory: int | None
    ) -> None:
        super().__init__()
        layers = [settings.layer(i) for i in range(settings.n_layers)]
        self.causal = causal
        self.embeddings = Embeddings(settings.vocab_size, settings.d_model, layers[0].dropout, embeddings)
        blocks = [build_block(layer, causal, d_memory) for layer in layers]
        if not settings.first_norm:
            blocks[0].skip_first_norm()
        self.positions, self.position_of = build_positions(layers, causal)
        self.blocks = nn.ModuleList(blocks)
        ends = blocks[-1].final_norm if settings.final_norm is None else settings.final_norm
        self.norm = layers[-1].norm.build(settings.d_model) if ends else None
        self.checkpointing = False

    def layers(self) -> Iterator[tuple[Block, Position]]:
        """Every block with the position of its layer."""
        for block, number in zip(self.blocks, self.position_of, strict=True):
            position = self.positions[number]
            assert isinstance(block, Block) and isinstance(position, Position)
            yield block, position

    def embed(self, tokens: Tensor, segments: Tensor | None, at: Tensor, reach: int) -> States:
        """Vectors of the tokens, with the positions that act on the input; every position is below `reach`."""
        acting = [p for p in self.positions if isinstance(p, Position) and p.embeds]
        x: Tensor = self.embeddings(tokens, segments, at, acting, reach)
        return x

    def end(self, x: States) -> States:
        """The norm at the end of the stack, where there is one."""
        out: Tensor = x if self.norm is None else self.norm(x)
        return out

    def forward(self, given: Pass, crossing: Crossing | None = None, record: Record | None = None) -> States:
        documents = given.explicit_documents()
        at = positions_of(documents)
        view = View(documents, at, documents, causal=self.causal, plain=given.documents is None)
        x = self.embed(given.tokens, given.segments, at, given.tokens.shape[1])
        recompute = self.checkpointing and self.training and record is None
        for block, position in self.layers():
            layer_view = view.under(position)
            x = recomputed(block, x, layer_view, crossing) if recompute else block(x, layer_view, crossing, record)
        return self.end(x)

    def start(self, batch: int, crossing: Crossing | None) -> "TransformerState":
        states = [block.start_state(batch, crossing) for block, _ in self.layers()]
        device = self.embeddings.tokens.weight.device
        nothing = torch.zeros(batch, 0, dtype=torch.long, device=device)
        memory_documents = None if crossing is None else crossing.view.key_documents
        plain_memory = crossing is None or crossing.view.plain
        return TransformerState(nothing, states, memory_documents, plain=True, plain_memory=plain_memory)

    def step(
        self, tokens: Int[Tensor, "batch new"], documents: Int[Tensor, "batch new"] | None, state: "TransformerState"
    ) -> States:
        past = state.documents
        state.plain = state.plain and documents is None
        new = torch.ones_like(tokens) if documents is None else documents
        state.documents = torch.cat([past, new], dim=1)
        at = ((past > 0).sum(1, keepdim=True) + (new > 0).cumsum(1) - 1).clamp_min(0)
        view = View(new, at, state.documents, past.shape[1], self.causal, state.plain, stepping=True)
        memory_view = None
        if state.memory_documents is not None:
            plain = state.plain and state.plain_memory
            memory_view = View(new, at, state.memory_documents, plain=plain, stepping=True)
        x = self.embed(tokens, None, at, state.documents.shape[1])
        for (block, position), block_state in zip(self.layers(), state.blocks, strict=True):
            x = block.step(x, view.under(position), memory_view, block_state)
        return self.end(x)

    def reorder(self, state: "TransformerState", rows: Int[Tensor, " chosen"]) -> None:
        state.documents = state.documents[rows]
        if state.memory_documents is not None:
            state.memory_documents = state.memory_documents[rows]
        for (block, _), block_state in zip(self.layers(), state.blocks, strict=True):
            block.reorder(block_state, rows)


def recomputed(block: Block, x: States, view: View, crossing: Crossing | None) -> States:
    """A block whose activations are computed again in the backward pass, and so is what its view computes."""

    def run(x: Tensor) -> Tensor:
        out: Tensor = block(x, view.afresh(), crossing)
        return out

    out: Tensor = checkpoint(run, x, use_reentrant=False)
    return out


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
        return Memory(self.stack(given, None, record_of(given, "encoder", False)), given.documents, self)

    def summarize(
        self, states: States, documents: Documents, places: Int[Tensor, " places"]
    ) -> Float[Tensor, "places d_model"]:
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
        states: Tensor = self.stack(given, crossing, record_of(given, "decoder", memory is not None))
        return states

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
        self.stack.reorder(state, rows)

    def checkpoint_layers(self, on: bool) -> None:
        self.stack.checkpointing = on


def cross(documents: Documents, plain: bool, memory: Memory) -> Crossing:
    """What a decoder's places may see of a memory: their own document's source."""
    size = memory.states.shape[:2]
    keys = (
        torch.ones(size, dtype=torch.long, device=memory.states.device)
        if memory.documents is None
        else memory.documents
    )
    view = View(documents, torch.zeros_like(documents), keys, plain=plain and memory.documents is None)
    return Crossing(memory.states, view)
