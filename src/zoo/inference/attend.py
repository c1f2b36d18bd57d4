"""A checkpoint's attention weights on one text or image, with a label for each position."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoo.blocks.rows.documents import Documents
from zoo.data.columns.pictures import decode, read_file
from zoo.data.ids import Picture
from zoo.disk import expand_user
from zoo.inference.loaded import Loaded, refuse_not_finite
from zoo.inference.model_inputs import collate_inputs, image_inputs, refuse_too_long, source_inputs
from zoo.inference.predictors.predictor import Predictor, first_predictor, pair_obstacle, predictors
from zoo.inference.text_generation import GeneratedCounts, TextGeneration, generate_from_source
from zoo.inference.token_labels import token_labels
from zoo.models.generation.settings import GenerateSettings

DRAWN_SIZE = 448  # side of the image that is drawn (pixels); the model usually reads a smaller one


@dataclass(frozen=True)
class PositionLabels:
    """What labels the positions along one axis of a map: their tokens, or a grid (rows, columns) over the image."""

    labels: Sequence[str]
    grid: tuple[int, int] | None = None


@dataclass(frozen=True)
class AttentionMap:
    """Attention weights (heads, queries, keys) by layer number, from 1; `kind` is a key of `Output.weights`."""

    kind: str
    queries: PositionLabels
    keys: PositionLabels
    layers: Mapping[int, NDArray[np.float32]]


@dataclass(frozen=True)
class AttentionMaps:
    """All attention maps of one example, its texts by role ("source", "target" …), and its image."""

    maps: list[AttentionMap]
    texts: dict[str, str]
    picture: Picture | None


class AttentionInputs(NamedTuple):
    """The model's inputs for one example, and the positions of its streams.

    Args:
        read: tokens that the decoder reads.
        written: tokens that it predicts from them, which label the queries of cross attention.
        source: what the encoder reads. In a model of one part, all three are its only stream.
        texts: as in `AttentionMaps`.
    """

    inputs: dict[str, Tensor | Documents]
    read: PositionLabels
    written: PositionLabels
    source: PositionLabels
    texts: dict[str, str]


def attend(
    loaded: Loaded, text: str | None, target: str | None, image: str | None, settings: GenerateSettings
) -> AttentionMaps:
    """Compute a checkpoint's attention weights on one example.

    Args:
        text: what the model reads; with `image`, the target.
        target: the text that the model writes, or the second text of a pair. None: a model that writes generates it.
        image: path of the image; None: if the model reads images, `text` is the path.
        settings: how the target is generated if none is given.

    Raises:
        ValueError: the model does not read such an input, the input is too long, or the model has no attention.
        RuntimeError: a weight is not finite.
    """
    picture = None
    if loaded.traits.image_size is None:
        if image is not None:
            raise ValueError("--image: this model reads texts, not images; leave it out")
        given = text_inputs(loaded, text, target, settings)
    else:
        image, target = image_and_target(text, target, image)
        picture = decode(read_file(expand_user(image), "--image"), image, DRAWN_SIZE)
        given = inputs_of_image(loaded, image, target, settings)
    weights = loaded.run(**given.inputs, weights=True).weights
    assert weights is not None
    streams = {
        "encoder.self": (given.source, given.source),
        "decoder.self": (given.read, given.read),
        "decoder.cross": (given.written, given.source),
    }
    encoder = loaded.model.encoder
    grids = {rows * columns: (rows, columns) for rows, columns in (() if encoder is None else encoder.grids)}
    maps = [found for kind, layers in weights.items() for found in maps_by_size(kind, layers, *streams[kind], grids)]
    if not maps:
        layers = ", ".join(f"{len(layers)} of {kind.partition('.')[0]}" for kind, layers in weights.items())
        raise ValueError(f"this model has no attention to draw: none of its layers ({layers}) attends")
    refuse_not_finite((float(layer.sum()) for found in maps for layer in found.layers.values()), "attention weights")
    return AttentionMaps(maps, given.texts, picture)


def maps_by_size(
    kind: str,
    layers: Sequence[Tensor | None],
    queries: PositionLabels,
    keys: PositionLabels,
    grids: Mapping[int, tuple[int, int]],
) -> list[AttentionMap]:
    """One map per size of the attention weights: layers of an image encoder may attend over grids of different sizes.

    Layers without attention (None) are left out.
    """
    by_size: dict[tuple[int, ...], dict[int, Any]] = {}
    for number, weights in enumerate(layers, 1):
        if weights is not None:
            found = weights[0].float().cpu().numpy()  # of the only row: (heads, queries, keys)
            by_size.setdefault(found.shape[1:], {})[number] = found

    def with_grid(positions: PositionLabels, count: int) -> PositionLabels:
        return positions if positions.labels else PositionLabels((), grids[count])

    return [
        AttentionMap(kind, with_grid(queries, rows), with_grid(keys, columns), by_size[rows, columns])
        for rows, columns in by_size
    ]


def text_inputs(loaded: Loaded, text: str | None, target: str | None, settings: GenerateSettings) -> AttentionInputs:
    """Encode a text or pair in the template of the model's training, or a source with its target.

    Raises:
        ValueError: the text is missing, a text is too long, or the model reads no second one.
    """
    if text is None:
        raise ValueError("TEXT: missing; this model reads a text")
    if loaded.traits.source:
        source = source_inputs(loaded, first_predictor(loaded).encode(loaded, [text]))
        positions = PositionLabels(token_labels(loaded.tokenizer, source[0][0].tolist()))
        return inputs_with_target(loaded, source, positions, {"source": text}, target, settings)
    predictor = encoding_predictor(loaded, text, target)
    example = predictor.example(loaded, text, target)
    positions = PositionLabels(token_labels(loaded.tokenizer, example.tokens.tolist()))
    texts = {"text": text} if target is None else {"text": text, predictor.pair_name: target}
    return AttentionInputs(collate_inputs(loaded, [example]), positions, positions, positions, texts)


def encoding_predictor(loaded: Loaded, text: str, second: str | None) -> Predictor:
    """Choose the predictor that encodes a text or pair, as `predict` does.

    If all refuse the text, such as one without a mask token, take the first: its attention can be shown all the same.

    Raises:
        ValueError: no objective of the checkpoint reads a pair, or each needs one.
    """
    obstacles = {name: pair_obstacle(loaded, name, second) for name in loaded.mixture.members}
    fitting = [predictors.build(name) for name, obstacle in obstacles.items() if obstacle is None]
    if not fitting:
        raise ValueError("; or ".join(f"--target: {obstacle}" for obstacle in obstacles.values()))
    return next((one for one in fitting if one.obstacle(loaded, text, second) is None), fitting[0])


def image_and_target(text: str | None, target: str | None, image: str | None) -> tuple[str, str | None]:
    """Return the path of the image and the target: without --image, TEXT is the path; with it, TEXT is the target.

    Raises:
        ValueError: no image, or two targets.
    """
    if image is None:
        if text is None:
            raise ValueError("--image: missing; this model reads an image")
        return text, target
    if text is not None and target is not None:
        raise ValueError("--target: with --image, TEXT is the target; give only one of them")
    return image, text if target is None else target


def inputs_of_image(loaded: Loaded, image: str, target: str | None, settings: GenerateSettings) -> AttentionInputs:
    """Load an image, with its target if the model writes text.

    Raises:
        ValueError: the file is missing or not an image, or a target is given to a model that writes no text.
    """
    grid, texts = PositionLabels(()), {"picture": Path(image).name}
    source = image_inputs(loaded, [image])
    if loaded.traits.source:
        return inputs_with_target(loaded, source, grid, texts, target, settings)
    if target is not None:
        raise ValueError("--target: this model writes no text; leave it out")
    return AttentionInputs({"tokens": source[0]}, grid, grid, grid, texts)


def inputs_with_target(
    loaded: Loaded,
    source: tuple[Tensor, Documents],
    positions: PositionLabels,
    texts: dict[str, str],
    target: str | None,
    settings: GenerateSettings,
) -> AttentionInputs:
    """Add a target to a source: inputs `<s> y…`, predicted `y… </s>`; without a target, the model generates one.

    Raises:
        ValueError: the target is too long.
    """
    tokenizer, decoder = loaded.tokenizer, loaded.model.decoder
    assert decoder is not None
    if target is None:
        generation = TextGeneration(settings, GeneratedCounts())
        given = generate_from_source(loaded, *source, generation)[0].tokens[: decoder.max_length - 1]
        generation.counts.warn_unfinished(loaded)
    else:
        given = first_predictor(loaded).encode(loaded, [target])[0].tolist()
        refuse_too_long(len(given) + 1, decoder.max_length, "the target")
    read, written = [tokenizer.roles.id("start"), *given], [*given, tokenizer.roles.id("end")]
    tokens = torch.tensor([read], device=loaded.model.device)
    inputs: dict[str, Tensor | Documents] = {"tokens": tokens, "source": source[0], "source_documents": source[1]}
    said = {"written by the model": tokenizer.decode(given)} if target is None else {"target": target}
    labels = PositionLabels(token_labels(tokenizer, read)), PositionLabels(token_labels(tokenizer, written))
    return AttentionInputs(inputs, *labels, positions, {**texts, **said})
