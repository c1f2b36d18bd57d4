"""Kind `recurrent` of decoder: a state that is updated with the last token and a context read from a memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.blocks.attention import Attention, attentions
from zoo.blocks.dropout import Dropout
from zoo.blocks.mixer import copy_state
from zoo.blocks.position import Position
from zoo.blocks.recurrence import Cell, keep_at_padding
from zoo.blocks.rows.view import Recorder
from zoo.models.embeddings import Embeddings, EmbeddingSettings
from zoo.models.kinds.part import Decoder, Memory, Numbers, PartInput, States, Tokens, decoders
from zoo.models.kinds.recurrent_encoder import RecurrentSettings
from zoo.models.kinds.source import TargetSources, spread_to_rows, target_sources
from zoo.registry import Choice, refuse_below

Vectors = list[Tensor]  # the state of each layer: (vectors, rows, d_model); an LSTM has two vectors, h first


@dataclass(frozen=True)
class RecurrentDecoderSettings(RecurrentSettings):
    """Settings of the decoder.

    Args:
        attention: how a memory is read at each step; null: its summary is the context of every step.
        n_heads: attention heads.
    """

    attention: Annotated[Choice[Attention], attentions] | None = None
    n_heads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_below(1, n_heads=self.n_heads)

    def unused_settings(self, reads_memory: bool) -> dict[str, str]:
        """Return the settings that nothing reads, each with the reason."""
        if not reads_memory:
            return dict.fromkeys(("attention", "n_heads"), "there is no encoder to attend to")
        return {} if self.attention is not None else {"n_heads": "the decoder has no attention"}


@dataclass
class RecurrentDecoderState:
    """What the decoder keeps between steps.

    Args:
        in_place: write new vectors into the same tensors, for a CUDA graph (`Decoder.settle`).
    """

    vectors: Vectors
    source: TargetSources | None
    in_place: bool = False

    def replace_vectors(self, new: Vectors) -> None:
        """Replace the vectors; if `in_place`, in the same tensors as long as the shape stays."""
        stays = self.in_place and new[0].shape == self.vectors[0].shape
        self.vectors = copy_state(new, self.vectors) if stays else new


@decoders.register("recurrent")
class RecurrentDecoder(Decoder):
    """s_t = g(y_{t-1}, s_{t-1}, c_t): s_{t-1} is the query for c_t; without attention, c is the memory's summary.

    Source: Bahdanau et al. 2015, arXiv:1409.0473, section 3.1 and A.2; without attention Cho et al. 2014,
    arXiv:1406.1078. s_0 = tanh(W summary). The head scores tanh(W [s_t; y_{t-1}; c_t]), with the tanh of Luong et al.
    2015, arXiv:1508.04025, equation 5, instead of Bahdanau's maxout. Upper layers read the layer below.
    """

    Settings = RecurrentDecoderSettings

    def __init__(self, settings: RecurrentDecoderSettings, embeddings: EmbeddingSettings, d_memory: int | None) -> None:
        super().__init__()
        self.d_model, self.n_layers, self.max_length = settings.d_model, settings.n_layers, settings.max_length
        width, d_context = self.d_model, d_memory or 0
        self.attention: Attention | None = None
        if d_memory is not None and settings.attention is not None:
            refuse_window(settings.attention)
            chosen = settings.attention.inherit(dropout=settings.dropout)
            self.attention = chosen.build(width, settings.n_heads, d_memory)
            d_context = self.attention.width
        self.embed = Embeddings(settings.vocab_size, width, settings.dropout, embeddings)
        inputs = [width + d_context, *[width] * (settings.n_layers - 1)]
        cells: list[Cell] = [settings.cell.build(d_input, width, False) for d_input in inputs]
        self.n_vectors, self.layers = cells[0].n_vectors, cast(Sequence[Cell], nn.ModuleList(cells))
        self.begin = None if d_memory is None else nn.Linear(d_memory, self.n_layers * self.n_vectors * width)
        self.readout = nn.Linear(2 * width + d_context, width)
        self.dropout = Dropout(settings.dropout)

    def attentions(self) -> Iterator[tuple[Attention, Position | None]]:
        """Yield nothing: attention is computed step by step, so no backend for whole rows applies."""
        return iter(())

    def layers_upward(self) -> list[nn.Module]:
        return list(self.layers)

    def forward(self, given: PartInput, memory: Memory | None = None) -> States:
        if memory is not None:
            memory.refuse_other_rows(given.tokens)
        documents = given.rows()
        x = self.embed(given.tokens, given.segments, documents.positions, [], given.tokens.shape[1])
        target = documents.sequences()
        source = None if memory is None else target_sources(memory, self.attention, [span[:2] for span in target.spans])
        steps, recorder = Recorder(), given.recorders.get("decoder.cross")
        if source is not None and recorder is not None:
            source = replace(source, recorder=steps)
        states = target.to_rows(self.unroll(target.to_steps(x), target.sizes, source))
        if "decoder.self" in given.recorders:
            given.recorders["decoder.self"].layers = [None] * self.n_layers
        if recorder is not None and memory is not None and steps.layers:
            weights = torch.cat([w for w in steps.layers if w is not None]).squeeze(2)  # one query per step
            recorder.write(spread_to_rows(target.to_rows(weights), documents.numbers, memory))
            recorder.end_layer()
        return states

    def first_states(self, like: Tensor, rows: int, source: TargetSources | None) -> Vectors:
        """Return s_0 of each layer; without a source it is 0, of the dtype and on the device of `like`."""
        if self.begin is None or source is None:
            return list(like.new_zeros(self.n_layers, self.n_vectors, rows, self.d_model))
        begun = torch.tanh(self.begin(source.summary)).view(rows, self.n_layers, self.n_vectors, self.d_model)
        return list(begun.permute(1, 2, 0, 3))  # per layer (vectors, rows, d_model)

    def unroll(
        self, x: Float[Tensor, "places d_model"], sizes: Sequence[int], source: TargetSources | None
    ) -> Float[Tensor, "places d_model"]:
        """Return the vectors that the head scores, for all steps of all sequences.

        Args:
            x, sizes: token vectors and batch sizes of a PackedSequence, as in `Sequences`.
        """
        vectors = self.first_states(x, sizes[0], source)
        if self.attention is None:
            context = None if source is None else torch.cat([source.summary[:size] for size in sizes])
            return self.read_out(self.run(x, sizes, vectors, context), x, context)
        tops, contexts = [], []
        for word in torch.split(x, list(sizes)):
            if source is not None and len(word) < len(source.summary):  # the shortest sequences have ended
                source, vectors = source.take(slice(len(word))), [v[:, : len(word)] for v in vectors]
            step = self.context(vectors, source)
            vectors = self.advance(word, vectors, step)
            tops.append(vectors[-1][0])  # h of the top layer
            contexts.append(step)
        return self.read_out(torch.cat(tops), x, torch.cat([c for c in contexts if c is not None]))

    def run(self, x: Tensor, sizes: Sequence[int], vectors: Vectors, context: Tensor | None) -> Tensor:
        """Return the top layer's states (places, d_model), layer by layer: the context does not depend on them."""
        x = x if context is None else torch.cat([x, context], dim=-1)
        for layer, start in zip(self.layers, vectors, strict=True):
            x = layer.run(x, sizes, start)
            if layer is not self.layers[-1]:
                x = self.dropout(x)
        return x

    def context(self, vectors: Vectors, source: TargetSources | None) -> Tensor | None:
        """Return c_t, which the state before the step reads from the memory; adjacent rows may share one source."""
        if source is None:
            return None
        top, n_sources = vectors[-1][0], len(source.summary)
        if self.attention is None or source.attended is None or source.view is None:
            return source.summary.repeat_interleave(len(top) // n_sources, dim=0)
        read: Tensor = self.attention.step(top.view(n_sources, -1, self.d_model), source.attended[0], source.view)
        source.view.end_layer()
        return read.flatten(0, 1)

    def advance(self, word: Tensor, vectors: Vectors, context: Tensor | None) -> Vectors:
        """Return the state of each layer after one more token."""
        x, new = word if context is None else torch.cat([word, context], dim=-1), []
        for layer, state in zip(self.layers, vectors, strict=True):
            new.append(layer.step(x, state))
            x = self.dropout(new[-1][0])
        return new

    def read_out(self, top: Tensor, word: Tensor, context: Tensor | None) -> Tensor:
        """Return the vectors that the head scores: tanh of a linear map of state, token vector and context."""
        parts = [top, word] if context is None else [top, word, context]
        return self.dropout(torch.tanh(self.readout(torch.cat(parts, dim=-1))))

    def start(self, batch: int, memory: Memory | None = None, room: int | None = None) -> RecurrentDecoderState:
        source = None if memory is None else target_sources(memory, self.attention, [(row, 1) for row in range(batch)])
        return RecurrentDecoderState(self.first_states(self.embed.tokens.weight, batch, source), source)

    def step(self, tokens: Tokens, documents: Numbers | None, state: RecurrentDecoderState) -> States:
        there = torch.ones_like(tokens) if documents is None else documents
        words, outputs = self.embed(tokens, None, torch.zeros_like(tokens), [], 1), []
        for at in range(tokens.shape[1]):
            context = self.context(state.vectors, state.source)
            new = self.advance(words[:, at], state.vectors, context)
            state.replace_vectors(
                [keep_at_padding(old, n, there[:, at] > 0) for old, n in zip(state.vectors, new, strict=True)]
            )
            outputs.append(self.read_out(state.vectors[-1][0], words[:, at], context))
        return torch.stack(outputs, dim=1)

    def settle(self, state: RecurrentDecoderState) -> None:
        state.in_place = True

    def reorder(
        self, state: RecurrentDecoderState, rows: Int[Tensor, " chosen"], sources: Int[Tensor, " kept"] | None = None
    ) -> None:
        state.replace_vectors([vectors.index_select(1, rows) for vectors in state.vectors])
        if state.source is not None and sources is not None:
            state.source = state.source.take(sources)


def refuse_window(attention: Choice[Attention]) -> None:
    """Check that attention to a memory has no window, which would show it only the first positions of each source.

    Raises:
        ValueError: it has one.
    """
    if attention.options.get("window") is not None:
        raise ValueError("attention.window: target and source positions have no distance; leave it out")
