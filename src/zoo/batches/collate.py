"""Collate rows of examples into tensors of a fixed shape."""

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
from zoo.devices.copying import make_copier
from zoo.examples.example import Example
from zoo.examples.form import ModelTraits
from zoo.models.kinds.part import CHANNELS

Inputs = dict[str, Tensor | Documents | dict[str, Tensor]]
DOCUMENTS = ("documents", "source_documents")  # inputs that hold document numbers


@dataclass(frozen=True)
class MicroBatch:
    """The inputs, targets and examples of one forward pass.

    Args:
        inputs: the keyword arguments of `Model.forward`.
        targets: by objective. Where `inputs["places"]` lists the scored positions of its head: one target for each
            `places_per_target` of them. Else (rows, length), one per position. The objective's `unscored` (-1 for class
            and token ids) where nothing is scored.
        examples: (epoch, document, number) of each example, row by row; heads that score documents keep this order.
        tokens: positions that hold a token, sources included.
        occupancy: `tokens` divided by all positions.
    """

    inputs: Inputs
    targets: dict[str, Tensor]
    examples: list[tuple[int, int, int]]
    tokens: int
    occupancy: float

    def to(self, device: torch.device) -> "MicroBatch":
        """Return the micro-batch with its tensors on a device."""
        return self.map_tensors(make_copier(device))

    def pin_memory(self) -> "MicroBatch":
        """Return the micro-batch in pinned memory, from which copies to a GPU are asynchronous."""
        return self.map_tensors(Tensor.pin_memory)

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> "MicroBatch":
        """Return the micro-batch with a function applied to each of its tensors."""
        inputs: Inputs = {name: map_input(value, change) for name, value in self.inputs.items()}
        return replace(self, inputs=inputs, targets=map_input(self.targets, change))


def map_input(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Apply a function to each tensor of an input, or of a dict of inputs."""
    if isinstance(value, dict):
        return {name: map_input(one, change) for name, one in value.items()}
    return value.map_tensors(change) if isinstance(value, Documents) else change(value)


def collate(
    rows: Sequence[PackedRow], examples: Examples, micro_batch: int, lengths: tuple[int, int] | None = None
) -> MicroBatch:
    """Build the rows into a micro-batch, with empty rows added up to `micro_batch`.

    Args:
        lengths: of the rows and of the source rows, large enough for these rows; None: the full row shape.
    """
    assert len(rows) <= micro_batch, f"{len(rows)} rows for a micro-batch of {micro_batch}"
    built = [examples.build(row) for row in rows]
    length, source = lengths or (examples.shape.length, examples.shape.source)
    traits, pad = examples.form.traits, examples.roles.pad
    documents_of = [[document for example in row for document in example.split()] for row in built]
    tokens, documents = concatenate_rows(documents_of, (micro_batch, length), pad)
    arrays: dict[str, NDArray[Any]] = {"tokens": tokens, "documents": documents}
    if traits.segments:
        parts = [[np.zeros_like(e.tokens) if e.segments is None else e.segments for e in row] for row in built]
        arrays["segments"] = concatenate_rows(parts, (micro_batch, length), 0)[0]
    if examples.mixture.draws:
        drawn = [[example.draws for example in row if example.draws is not None] for row in built]
        arrays["draws"] = concatenate_rows(drawn, (micro_batch, length), 0)[0]
    if examples.form.pictures and not examples.form.source:
        arrays["tokens"] = stack_images(built, micro_batch, traits)
    if examples.form.source:
        arrays["source"], arrays["source_documents"] = encoder_inputs(built, (micro_batch, source), pad, traits)
    inputs: Inputs = {
        name: documents_from(array) if name in DOCUMENTS else torch.from_numpy(array) for name, array in arrays.items()
    }
    held = np.concatenate([arrays[name].reshape(-1) for name in DOCUMENTS if name in arrays]) > 0
    scored, targets = gather_targets(built, examples, micro_batch, length)
    if scored:
        inputs["places"] = scored
    named = [name for row in rows for name in row.names]
    return MicroBatch(inputs, targets, named, int(held.sum()), float(held.mean()))


def concatenate_rows(
    rows: list[list[NDArray[Any]]], shape: tuple[int, int], empty: int | NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Concatenate the sequences of each row. Return the value at each position, and its sequence's number (0: none).

    Args:
        rows: the sequences of each row, each of shape (length, *shape of `empty`).
        shape: (rows, length) of the result.
        empty: the value of the remaining positions; it gives the shape and dtype of a value.
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


def documents_from(numbers: NDArray[np.int64]) -> Documents:
    """Build `Documents` from the numbers of `concatenate_rows`: 1, 2, ..., back to back from position 0."""
    lengths = [np.bincount(row)[1:].tolist() for row in numbers]
    return Documents.packed(lengths, torch.from_numpy(numbers))


def encoder_inputs(
    built: list[list[Example]], shape: tuple[int, int], pad: int, traits: ModelTraits
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the encoder's input and its document numbers: texts in rows of this shape, or one image per row."""
    if traits.image_size is None:
        return concatenate_rows([[e.source for e in row if e.source is not None] for row in built], shape, pad)
    filled = [[np.zeros(1, dtype=np.int64) for _ in row] for row in built]
    return stack_images(built, shape[0], traits), concatenate_rows(filled, (shape[0], 1), 0)[1]


def stack_images(built: list[list[Example]], rows: int, traits: ModelTraits) -> NDArray[np.uint8]:
    """Stack the images, one per row, as (rows, channels, size, size); rows without an example are black."""
    size = traits.image_size or 0
    pictures = np.zeros((rows, CHANNELS, size, size), dtype=np.uint8)
    for r, row in enumerate(built):
        for example in row:
            assert example.picture is not None, "a form of pictures reads one for each example"
            pictures[r] = example.picture
    return pictures


def gather_targets(
    built: list[list[Example]], examples: Examples, micro_batch: int, length: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the flat scored positions by head (only for heads with a capacity), and the targets by objective."""
    mixture = examples.mixture
    capacities = mixture.capacities(examples.shape.length)
    places: dict[str, Tensor] = {}
    targets: dict[str, Tensor] = {}
    for head, name in mixture.names_by_head.items():
        member = mixture.members[name]
        answers = [[example.targets[head] for example in row] for row in built]
        width = capacities[head] if head in capacities else length
        wanted = concatenate_rows(answers, (micro_batch, width), member.unscored)[0]
        if head in capacities:
            shape = (micro_batch, width * member.places_per_target)
            flat = concatenate_rows(flat_places(built, head, length), shape, -1)[0]
            places[head] = torch.from_numpy(flat.reshape(-1))
            wanted = wanted.reshape(-1, *member.unscored.shape)  # (micro_batch * width, …), flat as the places are
        targets[name] = torch.from_numpy(wanted)
    return places, targets


def flat_places(built: list[list[Example]], head: str, length: int) -> list[list[Ids]]:
    """Return the scored positions by row and example, as indices into the flattened batch (rows x length)."""
    flat: list[list[Ids]] = []
    for r, row in enumerate(built):
        # the start of each example, and the end of the last one
        starts = np.cumsum([0, *(len(example.tokens) for example in row)]) + r * length
        flat.append([example.places[head] + start for example, start in zip(row, starts, strict=False)])
    return flat
