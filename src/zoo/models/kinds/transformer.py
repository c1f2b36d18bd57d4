"""Kind `transformer` of encoder and decoder: a stack of blocks whose parts can all be chosen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zoo.blocks.attention import Attention
from zoo.blocks.block import Block, BlockState, Picked, Places, SourceView
from zoo.blocks.mixer import copy_state, fix_shapes, select_rows
from zoo.blocks.position import Position
from zoo.blocks.rows.documents import Documents, positions_of
from zoo.blocks.rows.view import Recorder, View, Visibility
from zoo.devices.precision import dtype_of_products
from zoo.models.embeddings import Embeddings, EmbeddingSettings
from zoo.models.kinds.layer import TransformerSettings, build_block, build_positions
from zoo.models.kinds.part import Decoder, Encoder, Memory, Numbers, PartInput, States, Tokens, decoders, encoders
from zoo.models.kinds.progress import Progress
from zoo.models.token_table import TokenTable


class Stack(nn.Module):
    """Embeddings, blocks, and a final norm where the blocks need one."""

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
        positions, self.position_of = build_positions(layers, causal, self.embeddings.tokens.embedding_dim)
        self.positions = cast(Sequence[Position], nn.ModuleList(positions))
        self.blocks = cast(Sequence[Block], nn.ModuleList(blocks))  # ModuleList is not generic
        ends = blocks[-1].final_norm if settings.final_norm is None else settings.final_norm
        self.norm = layers[-1].norm.build(settings.d_model) if ends else nn.Identity()

    def views(self, visibility: Visibility, recorder: Recorder | None = None, room: int | None = None) -> list[View]:
        """Return the view of each layer; layers with the same position share one, and everything computed from it."""
        views = [View(visibility, position, recorder, room) for position in self.positions]
        return [views[number] for number in self.position_of]

    def attentions(self) -> Iterator[tuple[Attention, Position | None]]:
        """Yield each block's attentions with their position module; None in cross-attention, which ignores order."""
        for block, number in zip(self.blocks, self.position_of, strict=True):
            for module in block.modules():
                if isinstance(module, Attention):
                    yield module, None if module.crosses else self.positions[number]

    def embed(
        self, tokens: Tensor, segments: Tensor | None, at: Tensor, reach: int, table: TokenTable | None = None
    ) -> States:
        """Return token vectors plus position embeddings; every position in `at` is below `reach`."""
        acting = [position for position in self.positions if position.embeds]
        return self.embeddings(tokens, segments, at, acting, reach, table)

    def forward(
        self, given: PartInput, recorder: Recorder | None, source: SourceView | None, recompute: bool
    ) -> States:
        documents = given.rows()
        x = self.embed(given.tokens, given.segments, documents.positions, documents.position_bound, given.table)
        views = self.views(Visibility(documents, documents, causal=self.causal), recorder)
        if not recompute:
            for block, view in zip(self.blocks, views, strict=True):
                block.prepare(view, source, dtype_of_products(x))
        for block, view in zip(self.blocks, views, strict=True):
            places = given.places if block is self.blocks[-1] else None  # the last layer alone may skip positions
            x = recomputed(block, x, view, source, places) if recompute else block(x, view, source, places)
            view.end_layer()
            if source is not None:
                source.view.end_layer()
        return self.norm(x)


def recomputed(block: Block, x: States, view: View, source: SourceView | None, places: Places | None) -> Picked:
    """Run a block whose activations are recomputed in the backward pass."""

    # The recomputation must save the same tensors as the first pass. So each pass computes masks and biases itself:
    # the second would otherwise find those of the first in the view, and save none. Masks of a memory need no gradient,
    # but the compiler would build another graph where it finds them.
    def run(x: Tensor) -> Tensor:
        return block(x, view.without_cache(), None if source is None else source.without_cache(), places)

    return checkpoint(run, x, use_reentrant=False)


@dataclass
class TransformerState:
    """What a decoder keeps between steps: how far it has read, its blocks' states, the memory's documents."""

    progress: Progress
    blocks: list[BlockState]
    source: Documents | None

    def source_view(self, queries: Documents) -> View | None:
        """Return what the queries see of the memory; several adjacent rows (beams) may read one row of it."""
        if self.source is None:
            return None
        numbers = queries.numbers.reshape(len(self.source.numbers), -1)
        return View.of(Documents(numbers, queries.whole), self.source)


@encoders.register("transformer")
class TransformerEncoder(Encoder):
    """A stack in which each position sees its whole document.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1; Devlin et al. 2019, arXiv:1810.04805.
    """

    Settings = TransformerSettings
    picks = True

    def __init__(self, settings: TransformerSettings, embeddings: EmbeddingSettings) -> None:
        super().__init__()
        self.stack = Stack(settings, embeddings, causal=False, d_memory=None)
        self.d_model, self.n_layers, self.max_length = settings.d_model, settings.n_layers, settings.max_length

    def layers_upward(self) -> list[nn.Module]:
        return list(self.stack.blocks)

    def attentions(self) -> Iterator[tuple[Attention, Position | None]]:
        return self.stack.attentions()

    def forward(self, given: PartInput) -> Memory:
        return Memory(self.stack(given, given.recorders.get("encoder.self"), None, self.recomputes), given.rows(), self)

    def summary_places(self, documents: Numbers, places: Int[Tensor, " places"]) -> Int[Tensor, " places"]:
        """Return the document's first position ([CLS]), whichever of its positions is given."""
        known = places.clamp_min(0)
        return known - positions_of(documents).flatten()[known]


@decoders.register("transformer")
class TransformerDecoder(Decoder):
    """A stack in which each position sees itself, earlier ones and, if there is one, the memory.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1; without a memory Radford et al. 2018 (GPT).
    """

    Settings = TransformerSettings
    picks = True

    def __init__(self, settings: TransformerSettings, embeddings: EmbeddingSettings, d_memory: int | None) -> None:
        super().__init__()
        self.stack = Stack(settings, embeddings, causal=True, d_memory=d_memory)
        self.d_model, self.n_layers, self.max_length = settings.d_model, settings.n_layers, settings.max_length

    def layers_upward(self) -> list[nn.Module]:
        return list(self.stack.blocks)

    def attentions(self) -> Iterator[tuple[Attention, Position | None]]:
        return self.stack.attentions()

    def forward(self, given: PartInput, memory: Memory | None = None) -> States:
        source = None
        if memory is not None:
            memory.refuse_other_rows(given.tokens)
            seen = Visibility(given.rows(), memory.documents)
            source = SourceView(memory.states, View(seen, recorder=given.recorders.get("decoder.cross")))
        return self.stack(given, given.recorders.get("decoder.self"), source, self.recomputes)

    def start(self, batch: int, memory: Memory | None = None, room: int | None = None) -> TransformerState:
        states = [block.start_state(None if memory is None else memory.states) for block in self.stack.blocks]
        progress = Progress(batch, room, self.stack.embeddings.tokens.weight.device)
        return TransformerState(progress, states, None if memory is None else memory.documents)

    def step(self, tokens: Tokens, documents: Numbers | None, state: TransformerState) -> States:
        seen, progress = state.progress.advance(documents, tokens), state.progress
        reach = min(progress.room, self.max_length) if progress.has_fixed_room else progress.read
        x = self.stack.embed(tokens, None, seen.queries.positions, reach)
        views, source_view = self.stack.views(seen, room=progress.room), state.source_view(seen.queries)
        for number, (block, view) in enumerate(zip(self.stack.blocks, views, strict=True)):
            before = state.blocks[number]
            x, after = block.step(x, view, source_view, before)
            state.blocks[number] = after if progress.place is None else copy_state(after, before)
        return self.stack.norm(x)

    def settle(self, state: TransformerState) -> None:
        state.progress.settle()
        fix_shapes(state.blocks)

    def reorder(
        self, state: TransformerState, rows: Int[Tensor, " chosen"], sources: Int[Tensor, " kept"] | None = None
    ) -> None:
        mixers, memories = ([getattr(block, name) for block in state.blocks] for name in ("mixer", "memory"))
        taken = select_rows(mixers, rows)
        taken = taken if state.progress.reallocates(rows) else copy_state(taken, mixers)
        state.progress.take(rows)
        if state.source is not None and sources is not None:
            state.source, memories = state.source.select_rows(sources), select_rows(memories, sources)
        state.blocks = [BlockState(*both) for both in zip(taken, memories, strict=True)]
