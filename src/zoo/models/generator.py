"""ELECTRA's generator: a small encoder that replaces masked tokens, which the model's own encoder learns to detect."""

import dataclasses
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.annotations import PerLayer
from zoo.blocks.position import Position
from zoo.models.embeddings import Embeddings, EmbeddingSettings
from zoo.models.heads.head import Head, heads
from zoo.models.kinds.part import Encoder, PartChoice, Tokens, encoders
from zoo.models.settings import ModelSettings
from zoo.registry import Choice, at_layer


def generator_size(settings: ModelSettings) -> Choice[Head] | None:
    """Return the head whose options give the generator's size; None if no head guesses or none detects guesses."""
    guesses = any(heads[choice.name].guesses for choice in settings.heads)
    return next((choice for choice in settings.heads if guesses and heads[choice.name].detects), None)


def build_generator(size: Choice[Head], part: PartChoice, embeddings: EmbeddingSettings, encoder: Encoder) -> Encoder:
    """Build a smaller encoder of the same kind, which shares token, segment and position vectors with `encoder`.

    Source: Clark et al. 2020 (ELECTRA), arXiv:2003.10555, sections 3.2 and 3.3; the authors' code, where a map brings
    the shared vectors to the generator's d_model.

    Raises:
        ValueError: an encoder of this size cannot be built, or the model's reads no tokens.
    """
    if encoder.embeddings is None:
        raise ValueError(f"heads.{size.name}: it scores tokens, but the encoder reads none")
    shared = dataclasses.replace(embeddings, width=encoder.embeddings.tokens.embedding_dim)
    try:
        smaller = shrink(part.settings, size.option("generator_width"), size.option("generator_depth"))
        generator = encoders[part.kind](smaller, shared)  # type: ignore[call-arg]  # which every kind takes
    except ValueError as error:
        raise ValueError(f"heads.{size.name}.generator_width: no generator of this size: {error}") from None
    for own, other in zip(inputs_of(generator), inputs_of(encoder), strict=True):
        for name, module in other.named_children():
            if name != "project":  # the map from the shared width to the generator's own d_model
                setattr(own, name, module)
    return generator


def shrink(settings: Any, width: float, depth: float) -> Any:
    """Return an encoder's settings with a share of its heads (each as wide as before), d_ff, d_model and layers."""
    own = {field.name for field in dataclasses.fields(settings)}
    # a recurrent encoder has no heads, but d_model must stay even for two directions
    columns = at_layer(settings.n_heads, 0) if "n_heads" in own else max(1, settings.d_model // 2)
    changed = {name: times(getattr(settings, name), width) for name in ("n_heads", "d_ff") if name in own}
    d_model = times(columns, width) * (settings.d_model // columns)
    return dataclasses.replace(settings, **changed, d_model=d_model, n_layers=times(settings.n_layers, depth))


def times(size: Any, share: float) -> Any:
    """Return a share of a size, or of each layer's size; at least 1."""
    if isinstance(size, PerLayer):
        return PerLayer(tuple(times(value, share) for value in size.values))
    return max(1, round(size * share))


def inputs_of(part: Encoder) -> list[torch.nn.Module]:
    """Return the modules that embed tokens and add positions."""
    return [m for m in part.modules() if isinstance(m, Embeddings) or (isinstance(m, Position) and m.embeds)]


def replace_tokens(tokens: Tokens, places: Int[Tensor, " places"], others: Int[Tensor, " places"]) -> Tokens:
    """Return the tokens with those at some flat positions replaced (row * length + position; -1: none)."""
    flat = torch.cat([tokens.flatten(), tokens.new_zeros(1)])  # the extra last entry takes the -1s, and is dropped
    at = torch.where(places >= 0, places, len(flat) - 1)
    return flat.scatter(0, at, others.to(flat.dtype))[:-1].view_as(tokens)
