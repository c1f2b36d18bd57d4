"""Convert the tokens and masks that transformers passes to a model into the input of zoo's parts."""

import torch
from torch import Tensor

from zoo.hub.modeling.losses import IGNORE_INDEX
from zoo.models.kinds.part import PartInput


def part_input(row: Tensor | None, mask: Tensor | None, segments: Tensor | None = None) -> PartInput:
    """The input of a part, from the arguments of a forward pass.

    Raises:
        ValueError: there is no row, or the mask has another shape.
    """
    if row is None:
        raise ValueError(
            "input_ids or pixel_values are missing; a model with an encoder and a decoder also needs "
            "decoder_input_ids or labels"
        )
    return PartInput(row, documents_of(mask, row), segments)


def documents_of(mask: Tensor | None, row: Tensor) -> Tensor | None:
    """The mask as document numbers, 1 for tokens and 0 for padding, of the row's positions; None if nothing is masked.

    The mask may be longer than the row, which then holds its last positions. `torch.export` and `torch.compile` cannot
    branch on a mask's values, so there it always gives numbers.

    Raises:
        ValueError: the mask does not fit the rows.
    """
    if mask is None:
        return None
    rows, length = row.shape[:2]
    if mask.dim() != 2 or mask.shape[1] < length or mask.shape[0] != rows:
        raise ValueError(f"attention_mask: expected one number per token, {(rows, length)}; got {tuple(mask.shape)}")
    new = mask[:, -length:] > 0
    return None if not torch.compiler.is_compiling() and bool(new.all()) else new.long()


def shift(labels: Tensor, start: int, padding: int) -> Tensor:
    """A target's tokens: its labels shifted right by one, after the start token; ignored labels become padding."""
    tokens = labels.new_full(labels.shape, start)
    tokens[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORE_INDEX, padding)
    return tokens
