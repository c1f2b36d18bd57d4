"""Rows of tokens and their masks, as transformers hands them to a model, and as ours reads them."""

from torch import Tensor

from zoo.hub.modeling.losses import IGNORED
from zoo.models.kinds.part import PartInput


def part_input(row: Tensor | None, mask: Tensor | None, segments: Tensor | None = None) -> PartInput:
    """What a part reads, from the arguments of a forward pass.

    Raises:
        ValueError: there is no row, or the mask is not one of its places.
    """
    if row is None:
        raise ValueError(
            "input_ids or pixel_values are missing; a model with an encoder and a decoder also needs "
            "decoder_input_ids or labels"
        )
    return PartInput(row, documents_of(mask, row), segments)


def documents_of(mask: Tensor | None, row: Tensor) -> Tensor | None:
    """What the mask shows as one document a row, for the last places that it speaks of; None where all is shown.

    Raises:
        ValueError: it is no mask of rows.
    """
    if mask is None:
        return None
    rows, length = row.shape[:2]
    if mask.dim() != 2 or mask.shape[1] < length or len(mask) != rows:
        raise ValueError(f"attention_mask: expected one number per token, {(rows, length)}; got {tuple(mask.shape)}")
    new = mask[:, -length:] > 0
    return None if bool(new.all()) else new.long()


def shift(labels: Tensor, start: int, padding: int) -> Tensor:
    """A target's tokens: its labels one place later, behind the start token; what does not count is padding."""
    tokens = labels.new_full(labels.shape, start)
    tokens[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, padding)
    return tokens
