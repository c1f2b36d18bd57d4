"""The check of an export in float64 leaves alone what is float32 in ours whatever the dtype."""

import pytest
import torch
from torch import Tensor

from zoo.blocks.position import Position, positions
from zoo.hub.exporting.reloading import KeepFloat64

AT = torch.arange(7)


def turned(position: Position, heads: Tensor) -> Tensor:
    return position.rotate(heads, position.rotations(AT[None], heads.dtype)) if position.rotates else heads


@pytest.mark.parametrize("name", positions.names())
def test_positions_say_the_same_numbers_where_a_class_is_not_rounded(name: str):
    position = positions.build(name, 16, 2, 8, 32, True).double()
    x, heads = torch.ones(1, 7, 16, dtype=torch.float64), torch.ones(1, 2, 7, 8, dtype=torch.float64)
    rounded = turned(position, heads), position.bias(AT, AT)
    with KeepFloat64():
        unrounded = turned(position, heads), position.bias(AT, AT)
    assert position.embed(x, AT[None], 7).dtype == torch.float64
    for ours, theirs in zip(rounded, unrounded, strict=True):
        assert ours is theirs or torch.equal(ours.double(), theirs.double())
