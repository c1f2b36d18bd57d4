"""Where a checkpoint looks: its attention weights on one text or picture, with what stands at each place."""

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
from zoo.disk import at_home
from zoo.inference.loaded import Loaded, refuse_not_finite
from zoo.inference.predictors.predictor import Predictor, first_predictor, pair_obstacle, predictors
from zoo.inference.readable import readable
from zoo.inference.typed import as_inputs, picture_inputs, refuse_longer, source_inputs
from zoo.inference.writing import Writing, Written, write
from zoo.models.generation.settings import GenerateSettings

SHOWN = 448  # side of the picture that is drawn (pixels); the model reads a smaller one


@dataclass(frozen=True)
class Places:
    """What stands at the places of a stream: tokens, or a grid (rows, columns) over the picture."""

    labels: Sequence[str]
    grid: tuple[int, int] | None = None


@dataclass(frozen=True)
class Map:
    """How queries weigh keys, by the number of the layer, from 1: (heads, queries, keys); kind as in Output.weights."""

    kind: str
    queries: Places
    keys: Places
    layers: Mapping[int, NDArray[np.float32]]


@dataclass(frozen=True)
class Attended:
    """Every map of one example, its texts by what they are, and its picture."""

    maps: list[Map]
    texts: dict[str, str]
    picture: Picture | None


class Seen(NamedTuple):
    """One row for the model, and what stands in its streams: as read, as scored, and in the encoder's source."""

    inputs: dict[str, Tensor | Documents]
    read: Places
    written: Places
    source: Places
    texts: dict[str, str]


def attend(
    loaded: Loaded, text: str | None, target: str | None, image: str | None, settings: GenerateSettings
) -> Attended:
    """The attention weights of a checkpoint.

    Args:
        text: what the model reads; where `image` is the picture, what it writes.
        target: what the model writes, or a second text for a model of pairs; None: what it writes by itself.
        image: file of a picture; None: `text` names it where the model reads pictures.
        settings: how the target is generated, where none is given.

    Raises:
        ValueError: the model does not read what is given, it is too long, or the model has no attention.
        RuntimeError: a weight is not finite.
    """
    picture = None
    if loaded.stream.image_size is None:
        if image is not None:
            raise ValueError("--image: this model reads texts, not images; leave it out")
        seen = see_text(loaded, text, target, settings)
    else:
        image, target = name_picture(text, target, image)
        picture = decode(read_file(at_home(image), "--image"), image, SHOWN)
        seen = see_picture(loaded, image, target, settings)
    weights = loaded.run(**seen.inputs, weights=True).weights
    assert weights is not None
    streams = {
        "encoder.self": (seen.source, seen.source),  # in a model of one part, what it reads
        "decoder.self": (seen.read, seen.read),
        "decoder.cross": (seen.written, seen.source),
    }
    encoder = loaded.model.encoder
    grids = {rows * columns: (rows, columns) for rows, columns in (() if encoder is None else encoder.grids)}
    maps = [found for kind, layers in weights.items() for found in maps_of(kind, layers, *streams[kind], grids)]
    if not maps:
        layers = ", ".join(f"{len(layers)} of {kind.partition('.')[0]}" for kind, layers in weights.items())
        raise ValueError(f"this model has no attention to draw: none of its layers ({layers}) attends")
    refuse_not_finite((float(layer.sum()) for found in maps for layer in found.layers.values()), "attention weights")
    return Attended(maps, seen.texts, picture)


def maps_of(
    kind: str, layers: Sequence[Tensor | None], queries: Places, keys: Places, grids: Mapping[int, tuple[int, int]]
) -> list[Map]:
    """The layers that attend; those over grids of different sizes are maps of their own."""
    by_size: dict[tuple[int, ...], dict[int, Any]] = {}
    for number, weights in enumerate(layers, 1):
        if weights is not None:
            found = weights[0].float().cpu().numpy()
            by_size.setdefault(found.shape[1:], {})[number] = found

    def laid(places: Places, count: int) -> Places:
        return places if places.labels else Places((), grids[count])

    return [Map(kind, laid(queries, rows), laid(keys, columns), by_size[rows, columns]) for rows, columns in by_size]


def see_text(loaded: Loaded, text: str | None, target: str | None, settings: GenerateSettings) -> Seen:
    """A text in the template of the model's training, or a source with its target.

    Raises:
        ValueError: no text, one that is too long, or one too many.
    """
    if text is None:
        raise ValueError("TEXT: missing; this model reads a text")
    if loaded.stream.source:
        source = source_inputs(loaded, first_predictor(loaded).encode(loaded, [text]))
        places = Places(readable(loaded.tokenizer, source[0][0].tolist()))
        return see_target(loaded, source, places, {"source": text}, target, settings)
    reader = reader_of(loaded, text, target)
    example = reader.example(loaded, text, target)
    inputs, places = as_inputs(loaded, [example]), Places(readable(loaded.tokenizer, example.tokens.tolist()))
    texts = {"text": text} if target is None else {"text": text, reader.second: target}
    return Seen(inputs, places, places, places, texts)


def reader_of(loaded: Loaded, text: str, second: str | None) -> Predictor:
    """What reads a text, or two: as in `predict`, but a text in which nothing is to be filled in can be looked at.

    Raises:
        ValueError: none of the checkpoint's objectives reads such texts.
    """
    obstacles = {name: pair_obstacle(loaded, name, second) for name in loaded.mixture.members}
    fitting = [predictors.build(name) for name, obstacle in obstacles.items() if obstacle is None]
    if not fitting:
        raise ValueError("; or ".join(f"--target: {obstacle}" for obstacle in obstacles.values()))
    return next((one for one in fitting if one.obstacle(loaded, text, second) is None), fitting[0])


def name_picture(text: str | None, target: str | None, image: str | None) -> tuple[str, str | None]:
    """The picture's file, which TEXT names where --image is not given, and what the model writes.

    Raises:
        ValueError: no picture, or two targets.
    """
    if image is None:
        if text is None:
            raise ValueError("--image: missing; this model reads an image")
        return text, target
    if text is not None and target is not None:
        raise ValueError("--target: with --image, TEXT is the target; give only one of them")
    return image, text if target is None else target


def see_picture(loaded: Loaded, image: str, target: str | None, settings: GenerateSettings) -> Seen:
    """A picture, and what the model writes about it where it writes.

    Raises:
        ValueError: no such picture, or a target for a model that writes none.
    """
    grid, texts = Places(()), {"picture": Path(image).name}
    source = picture_inputs(loaded, [image])
    if loaded.stream.source:
        return see_target(loaded, source, grid, texts, target, settings)
    if target is not None:
        raise ValueError("--target: this model writes no text; leave it out")
    return Seen({"tokens": source[0]}, grid, grid, grid, texts)


def see_target(
    loaded: Loaded,
    source: tuple[Tensor, Documents],
    places: Places,
    texts: dict[str, str],
    target: str | None,
    settings: GenerateSettings,
) -> Seen:
    """A source with a target: inputs `<s> y…`, written `y… </s>`; where no target is given, what the model writes."""
    tokenizer, decoder = loaded.tokenizer, loaded.model.decoder
    assert decoder is not None
    if target is None:
        how = Writing(settings, Written())
        given = write(loaded, *source, how)[0].tokens[: decoder.max_length - 1]
        how.written.tell(loaded)
    else:
        given = first_predictor(loaded).encode(loaded, [target])[0].tolist()
        refuse_longer(len(given) + 1, decoder.max_length, "the target")
    read, written = [tokenizer.roles.id("start"), *given], [*given, tokenizer.roles.id("end")]
    tokens = torch.tensor([read], device=loaded.model.device)
    inputs: dict[str, Tensor | Documents] = {"tokens": tokens, "source": source[0], "source_documents": source[1]}
    said = {"written by the model": tokenizer.decode(given)} if target is None else {"target": target}
    labels = Places(readable(tokenizer, read)), Places(readable(tokenizer, written))
    return Seen(inputs, *labels, places, {**texts, **said})
