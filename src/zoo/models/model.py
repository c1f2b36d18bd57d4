"""A model: an encoder, a decoder or both, and the heads that score their states."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor, nn

from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import Recorder
from zoo.models.generator import build_generator, generator_size, replace_tokens
from zoo.models.heads.head import Head, heads, refuse_other_width
from zoo.models.heads.pooler import Pooler
from zoo.models.heads.scores import Scores
from zoo.models.initialize import initialize
from zoo.models.kinds.part import (
    PARTS,
    Decoder,
    Encoder,
    Memory,
    Part,
    PartChoice,
    PartInput,
    Pictures,
    Tokens,
    share_tokens,
)
from zoo.models.output import Output, kinds_of
from zoo.models.reading import Reading
from zoo.models.settings import ModelSettings
from zoo.models.token_table import TokenTable
from zoo.registry import Choice
from zoo.wording import refuse_unknown


class Model(nn.Module):
    """Encoders make a memory, decoders read it, heads score it.

    Raises:
        ValueError: settings that do not combine.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.settings = settings
        settings.initialize.build()  # checks its options before anything is drawn, also on the meta device
        self.chunked_loss = True  # compute cross entropies in chunks, without all logits at once
        self.skip_unread = True  # in the last layer, skip positions that no head reads
        self.encoder: Encoder | None = None
        self.decoder: Decoder | None = None
        if settings.encoder is not None:
            self.encoder = build_part("encoder", settings.encoder, settings.embeddings)
        if settings.decoder is not None:
            d_memory = None if self.encoder is None else self.encoder.d_model
            self.decoder = build_part("decoder", settings.decoder, settings.embeddings, d_memory)
        if settings.embeddings.shared:
            share_tokens(self.encoder, self.decoder)
        self.generator = self.build_generator()
        part = self.stream
        self.heads = nn.ModuleDict({choice.name: self.build_head(choice) for choice in settings.heads})
        pools = part.pooled and any(self.pools(head) for head in self.heads.values())
        self.pooler = Pooler(part.d_model, settings.pooler) if pools else None

    @property
    def parts(self) -> list[Part]:
        """The encoder, the decoder, or both in this order."""
        return [part for part in (self.encoder, self.decoder) if part is not None]

    @property
    def stream(self) -> Part:
        """The part whose states the heads score."""
        return self.parts[-1]

    def pools(self, head: Any) -> bool:
        """Whether a head reads states through the pooler, where the part has one."""
        return bool(head.scores_documents or (head.pools_positions and self.settings.pooler.places))

    @property
    def averages(self) -> bool:
        """Whether the pooler makes the mean state a document's summary; an image's summary is the mean anyway."""
        return self.pooler is not None and self.settings.pooler.mean and self.stream.image_size is None

    def heads_by_name(self) -> dict[str, Head]:
        """Return the heads, typed; a wrapper of peft around one counts as a head, since it forwards attributes."""
        return {name: cast(Head, head) for name, head in self.heads.items()}

    def build_generator(self) -> Encoder | None:
        """Build ELECTRA's generator, if the model has heads that guess tokens and detect guesses.

        Raises:
            ValueError: the model has a decoder, or no encoder, but asks for a generator or `embeddings.width`.
        """
        settings = self.settings
        size, wide = generator_size(settings), settings.embeddings.width is not None
        if self.encoder is None or settings.encoder is None or self.decoder is not None:
            if wide or size is not None:
                what = "embeddings.width" if size is None else f"heads.{size.name}"
                raise ValueError(f"{what}: only an encoder without a decoder can have it, such as bert-base")
            return None
        return None if size is None else build_generator(size, settings.encoder, settings.embeddings, self.encoder)

    def part_scored_by(self, head: type[Head]) -> Part:
        """Return the part whose states a head scores."""
        return self.generator if head.guesses and self.generator is not None else self.stream

    def build_head(self, choice: Choice[Head]) -> Head:
        part = self.part_scored_by(heads[choice.name])
        if part.embeddings is None and not heads[choice.name].scores_documents:
            fitting = ", ".join(name for name in heads.names() if heads[name].scores_documents)
            raise ValueError(f"heads.{choice.name}: it scores tokens, but the encoder reads none; allowed: {fitting}")
        # not the model's vocab_size: a stack may have its own
        size = self.settings.vocab_size if part.embeddings is None else part.embeddings.tokens.num_embeddings
        width = None if part.embeddings is None else part.embeddings.tokens.embedding_dim
        choice = choice.inherit(dropout=self.settings.dropout, width=width)
        head = choice.build(part.d_model, size, part.pooled)
        if width is not None and head.ends_in_table:
            refuse_other_width(choice, part.d_model, width)
        return head

    @classmethod
    def from_seed(cls, settings: ModelSettings, seed: int) -> "Model":
        """Build an initialized model; the seed also fixes what variants draw from torch's global CPU generator."""
        with torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(seed)
            return cls(settings).initialize(seed)

    def initialize(self, seed: int) -> "Model":
        """Initialize all parameters as the settings say, on their device; do nothing on the meta device."""
        if self.device.type == "meta":
            return self
        initializer, stream = self.settings.initialize.build(), self.stream
        parts = [(part, part.n_layers) for part in self.parts]
        tops = [(top, stream.n_layers) for top in (*self.heads.values(), self.pooler) if top is not None]
        beside = [] if self.generator is None else [(self.generator, self.generator.n_layers)]
        # Heads have a seed of their own, so that models that differ only in their heads start with the same parts. The
        # generator comes first: what it shares with the encoder must start as the encoder's.
        for number, modules in ((seed + 2, beside), (seed, parts), (seed + 1, tops)):
            generator = torch.Generator(self.device).manual_seed(number)
            for module, n_layers in modules:
                initialize(module, initializer, n_layers, generator)
        return self

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def forward(
        self,
        tokens: Tokens | Pictures,
        source: Int[Tensor, "batch source"] | Pictures | None = None,
        documents: Int[Tensor, "batch length"] | Documents | None = None,
        source_documents: Int[Tensor, "batch source"] | Documents | None = None,
        segments: Int[Tensor, "batch length"] | None = None,
        places: dict[str, Int[Tensor, " places"]] | None = None,
        weights: bool | str | Collection[str] = False,
        draws: Int[Tensor, "batch length"] | None = None,
    ) -> Output:
        """Score a batch.

        Args:
            tokens: the stream that the heads score; images, for an image encoder without a decoder.
            source: the encoder's tokens or images, in a model that has both parts.
            documents: of `tokens`: 0 is padding, k the k-th document of the row; None: each row is one document.
                `Documents` also carries lengths and borders that a packer knows.
            source_documents: of `source`; target document k reads source document k.
            segments: 0 or 1 by position, in a model with segments.
            places: by head, scored positions (row * length + position; -1: none); a head without an entry scores all.
            weights: also return attention weights, all or those of some kinds. Attention whose weights are requested is
                computed by the `eager` backend.
            draws: by position, a random number from 0 to 2^31 - 1 that decides the generator's guess at the scored
                positions of its head; the encoder then reads the guesses. None: it reads `tokens`.

        Raises:
            ValueError: heads, weights, segments or a source that this model does not have, or a missing source.
        """
        recorders = {kind: Recorder() for kind in kinds_of(weights)}
        self.refuse_unread(segments, places or {}, draws)
        table = TokenTable.early(self.token_vectors, self.heads_by_name().values()) if self.chunked_loss else None
        memory = self.encode_source(source, source_documents, recorders, table)
        given = PartInput(tokens, documents, segments, recorders, table=table)
        guessed, guesses = self.guess(given, places or {}, draws)
        given = given if guesses is None else replace(given, tokens=guesses)  # ELECTRA's discriminator reads these
        others = {name: head for name, head in self.heads_by_name().items() if name not in guessed}
        reading = Reading(self.stream, given, places or {}, self.averages, self.skip_unread)
        states, read = reading.run(others, lambda given: self.states_of(given, memory))
        scores = {name: guessed.get(name) or self.score(name, read[name], table) for name in self.heads}
        recorded = {kind: recorder.layers for kind, recorder in recorders.items() if recorder.layers}
        return Output(states, scores, recorded if weights else None, guesses)

    def refuse_unread(self, segments: Tensor | None, places: Mapping[str, Tensor], draws: Tensor | None) -> None:
        """Refuse arguments that would be ignored silently.

        Raises:
            ValueError: as `forward`.
        """
        if segments is not None and not self.settings.embeddings.segments:
            raise ValueError("segments: this model has no segment embeddings (embeddings.segments)")
        for name in places:
            refuse_unknown(str(name), self.heads, "head", "places")
        if draws is not None:
            if self.generator is None:
                raise ValueError("draws: this model has no generator to use them")
            for name, head in self.heads_by_name().items():
                if head.guesses and name not in places:
                    raise ValueError(f"draws: they need the places of head '{name}', which 'places' lacks")

    def states_of(self, given: PartInput, memory: Memory | None) -> Tensor:
        """Return the states that the heads score (batch, length, d_model)."""
        if self.decoder is not None:
            return self.decoder(given, memory)
        assert self.encoder is not None
        return self.encoder(given).states

    def guess(
        self, given: PartInput, places: Mapping[str, Tensor], draws: Tensor | None
    ) -> tuple[dict[str, Scores], Tensor | None]:
        """Return the scores of the generator's heads, and the tokens with a sample from them at each scored position.

        Source: Clark et al. 2020 (ELECTRA), arXiv:2003.10555, section 2: no gradient flows through the draw.
        """
        if self.generator is None:
            return {}, None
        generator, given = self.generator, replace(given, recorders={})
        names = {name: head for name, head in self.heads_by_name().items() if head.guesses}
        reading = Reading(generator, given, places, skip_unread=self.skip_unread)
        _, states = reading.run(names, lambda given: generator(given).states)
        found = {name: self.score(name, states[name], given.table) for name in names}
        if draws is None:
            return found, None
        tokens, numbers = given.tokens, draws.flatten()
        for name in names:
            chosen = found[name].sample(numbers[places[name].clamp_min(0)])
            tokens = replace_tokens(tokens, places[name], chosen)
        return found, tokens

    def encode_source(
        self,
        source: Tensor | None,
        documents: Tensor | Documents | None,
        recorders: Mapping[str, Recorder] | None = None,
        table: TokenTable | None = None,
    ) -> Memory | None:
        """Return the encoder's memory of a source; None in a model with one part.

        Raises:
            ValueError: a source is missing, or the model reads none.
        """
        if self.encoder is None or self.decoder is None:
            for name, unread in (("source", source), ("source_documents", documents)):
                if unread is not None:
                    raise ValueError(f"{name}: this model has one part, so it takes tokens only")
            return None
        if source is None:
            raise ValueError("source: this model has an encoder and a decoder, so it needs a source beside the tokens")
        if documents is not None and self.encoder.image_size is None:
            documents = Documents.of(documents, source, "source_documents")
        return self.encoder(PartInput(source, documents, None, recorders or {}, table=table))

    @property
    def token_vectors(self) -> Tensor | None:
        """The token vectors (vocab_size, width) of the part that the heads score; None if it reads no tokens."""
        return None if self.stream.embeddings is None else self.stream.embeddings.tokens.weight

    def score(self, name: str, states: Tensor, table: TokenTable | None = None) -> Scores:
        """Return the scores of one head, given the states that it reads (*places, d_model)."""
        head, vectors = self.heads_by_name()[name], self.token_vectors
        if vectors is None:  # it reads images: its heads score documents, and none is tied
            vectors = states.new_zeros(0, self.stream.d_model)
        elif table is not None and head.ends_in_table:
            vectors = table.narrow  # through which the tied head's gradient reaches `Cast.backward`
        if self.pooler is not None and self.pools(head):
            states = self.pooler(states)
        scores = head.score(states, vectors)
        if table is not None and scores.weight is table.narrow:
            scores.exact_weight = table.weight
        scores.chunked = self.chunked_loss
        return scores


def build_part(side: str, part: PartChoice, *supplied: Any) -> Any:
    """Build an encoder or a decoder.

    Args:
        side: "encoder" or "decoder".
        supplied: the other arguments of the kind's constructor.

    Raises:
        ValueError: settings that do not combine; the message names the side.
    """
    try:
        return PARTS[side][part.kind](part.settings, *supplied)
    except ValueError as error:
        raise ValueError(f"{side}: {error}") from None
