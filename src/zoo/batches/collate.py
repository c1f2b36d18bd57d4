"""Rows of examples as tensors of one fixed shape."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zoo.batches.order import Examples, PackedRow
from zoo.blocks.rows.documents import Documents
from zoo.data.ids import Ids
from zoo.devices.copying import copier
from zoo.examples.example import Example
from zoo.examples.form import ModelTraits
from zoo.models.kinds.part import CHANNELS

Inputs = dict[str, Tensor | Documents | dict[str, Tensor]]
DOCUMENTS = ("documents", "source_documents")  # inputs that are numbers of documents


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch.

    Args:
        inputs: the keyword arguments of `Model.forward`.
        targets: by objective, what stands at the scored places: as many as `inputs["places"]` of its head has entries,
            or (rows, length) where the head scores every place; -1 where nothing is scored.
        examples: (epoch, document, number) of each example, row after row; documents are scored in this order.
        tokens: how many places hold a token, sources included.
        filled: the share of all places that they are.
    """

    inputs: Inputs
    targets: dict[str, Tensor]
    examples: list[tuple[int, int, int]]
    tokens: int
    filled: float

    def to(self, device: torch.device) -> "MicroBatch":
        """The same part with its tensors on a device."""
        return self.each(copier(device))

    def pinned(self) -> "MicroBatch":
        """The same part in memory from which a GPU copies by itself."""
        return self.each(Tensor.pin_memory)

    def each(self, change: Callable[[Tensor], Tensor]) -> "MicroBatch":
        """The same part with each of its tensors changed."""
        inputs: Inputs = {name: changed(value, change) for name, value in self.inputs.items()}
        return replace(self, inputs=inputs, targets=changed(self.targets, change))


def changed(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """An input, or several by their names, with each tensor changed."""
    if isinstance(value, dict):
        return {name: changed(one, change) for name, one in value.items()}
    return value.each(change) if isinstance(value, Documents) else change(value)


def collate(
    rows: Sequence[PackedRow], examples: Examples, micro_batch: int, places: tuple[int, int] | None = None
) -> MicroBatch:
    """Build the rows and fill up with empty ones to `micro_batch` rows.

    Args:
        places: of a row and of its source row, as many as these rows need; None: as many as a row has.
    """
    assert len(rows) <= micro_batch, f"{len(rows)} rows for a micro-batch of {micro_batch}"
    built = [examples.build(row) for row in rows]
    length, source = places or (examples.shape.length, examples.shape.source)
    stream, pad = examples.form.stream, examples.roles.pad
    documents_of = [[document for example in row for document in example.split()] for row in built]
    tokens, documents = lay_rows(documents_of, (micro_batch, length), pad)
    arrays: dict[str, NDArray[Any]] = {"tokens": tokens, "documents": documents}
    if stream.segments:
        parts = [[np.zeros_like(e.tokens) if e.segments is None else e.segments for e in row] for row in built]
        arrays["segments"] = lay_rows(parts, (micro_batch, length), 0)[0]
    if examples.mixture.draws:
        drawn = [[example.draws for example in row if example.draws is not None] for row in built]
        arrays["draws"] = lay_rows(drawn, (micro_batch, length), 0)[0]
    if examples.form.pictures and not examples.form.source:
        arrays["tokens"] = lay_pictures(built, micro_batch, stream)
    if examples.form.source:
        arrays["source"], arrays["source_documents"] = lay_sources(built, (micro_batch, source), pad, stream)
    inputs: Inputs = {
        name: documents_in(array) if name in DOCUMENTS else torch.from_numpy(array) for name, array in arrays.items()
    }
    held = np.concatenate([arrays[name].reshape(-1) for name in DOCUMENTS if name in arrays]) > 0
    scored, targets = score(built, examples, micro_batch, length)
    if scored:
        inputs["places"] = scored
    named = [name for row in rows for name in row.names]
    return MicroBatch(inputs, targets, named, int(held.sum()), float(held.mean()))


def lay_rows(
    rows: list[list[NDArray[Any]]], shape: tuple[int, int], empty: int | NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Lay sequences one after the other into rows: what stands at each place, and which sequence it is of (0: none).

    Args:
        empty: what stands at the other places; what stands at each has its shape and type.
    """
    nothing = np.asarray(empty)
    values = np.full((*shape, *nothing.shape), nothing)
    documents = np.zeros(shape, dtype=np.int64)
    for r, row in enumerate(rows):
        at = 0
        for k, sequence in enumerate(row, start=1):
            values[r, at : at + len(sequence)] = sequence
            documents[r, at : at + len(sequence)] = k
            at += len(sequence)
    return values, documents


def documents_in(numbers: NDArray[np.int64]) -> Documents:
    """Documents as `lay_rows` lays them: 1, 2 and so on, one after the other from the first place on."""
    lengths = [np.bincount(row)[1:].tolist() for row in numbers]
    return Documents.packed(lengths, torch.from_numpy(numbers))


def lay_sources(
    built: list[list[Example]], shape: tuple[int, int], pad: int, stream: ModelTraits
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """What the encoder reads beside each row, and its documents: texts in rows of this shape, or one picture a row."""
    if stream.image_size is None:
        return lay_rows([[e.source for e in row if e.source is not None] for row in built], shape, pad)
    filled = [[np.zeros(1, dtype=np.int64) for _ in row] for row in built]
    return lay_pictures(built, shape[0], stream), lay_rows(filled, (shape[0], 1), 0)[1]


def lay_pictures(built: list[list[Example]], rows: int, stream: ModelTraits) -> NDArray[np.uint8]:
    """The picture of each row's one example; black where there is none."""
    size = stream.image_size or 0
    pictures = np.zeros((rows, CHANNELS, size, size), dtype=np.uint8)
    for r, row in enumerate(built):
        for example in row:
            assert example.picture is not None, "a form of pictures reads one for each example"
            pictures[r] = example.picture
    return pictures


def score(
    built: list[list[Example]], examples: Examples, micro_batch: int, length: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """By head, the flat places to score (only where there is a capacity); by objective, the targets."""
    mixture = examples.mixture
    capacities = mixture.capacities(examples.shape.length)
    places: dict[str, Tensor] = {}
    targets: dict[str, Tensor] = {}
    for head, name in mixture.names_by_head.items():
        member = mixture.members[name]
        answers = [[example.targets[head] for example in row] for row in built]
        width = capacities[head] if head in capacities else length
        wanted = lay_rows(answers, (micro_batch, width), member.unscored)[0]
        if head in capacities:
            flat = lay_rows(flat_places(built, head, length), (micro_batch, width * member.places_each), -1)[0]
            places[head] = torch.from_numpy(flat.reshape(-1))
            wanted = wanted.reshape(-1, *member.unscored.shape)
        targets[name] = torch.from_numpy(wanted)
    return places, targets


def flat_places(built: list[list[Example]], head: str, length: int) -> list[list[Ids]]:
    """By row and example, the scored places counted over the whole batch."""
    flat: list[list[Ids]] = []
    for r, row in enumerate(built):
        starts = np.cumsum([0, *(len(example.tokens) for example in row)]) + r * length
        flat.append([example.places[head] + start for example, start in zip(row, starts, strict=False)])
    return flat
