"""Rename tables lead there and back."""

from typing import Any

import pytest
import torch

from zoo.blocks.position import sinusoids
from zoo.hub.targets.declare.flat_settings import FlatSettings
from zoo.hub.targets.declare.renaming import (
    ROW,
    TRANSPOSED,
    Conversion,
    Rename,
    affine,
    expand,
    halves,
    same,
    split_halves,
)


def test_halves_puts_the_even_positions_first():
    assert halves(5).tolist() == [0, 2, 4, 1, 3]


@pytest.mark.parametrize("transform", [split_halves(0), split_halves(1), TRANSPOSED, ROW])
def test_every_transform_has_its_inverse(transform: Any):
    tensor = torch.arange(35.0).reshape(5, 7)
    torch.testing.assert_close(transform.inverse(transform.forward(tensor)), tensor, atol=0, rtol=0)


def test_interleaved_sinusoids_become_split_ones():
    """Marian's table: sines of all rates, then their cosines, of position / 10000^(2i/d)."""
    rates = 10000.0 ** (-torch.arange(0, 20, 2, dtype=torch.float64) / 20)
    angles = torch.arange(37, dtype=torch.float64)[:, None] * rates
    theirs = torch.cat([angles.sin(), angles.cos()], dim=1)
    torch.testing.assert_close(split_halves(1).forward(sinusoids(37, 20)), theirs, atol=1e-12, rtol=0)


def test_several_tensors_are_joined_then_transposed():
    query, key = torch.ones(2, 3), torch.zeros(2, 3)
    joined, _ = affine(["q", "k"], "qk", weight=[TRANSPOSED])
    there = joined.to_transformers({"q.weight": query, "k.weight": key})
    assert there.shape == (3, 4) and there.is_contiguous()
    assert there[0].tolist() == [1, 1, 0, 0]
    assert joined.to_zoo(there)["k.weight"].equal(key)


def test_a_layer_entry_stands_for_every_layer():
    tensors = {"more", *(f"blocks.{i}.weight" for i in range(12))}
    table = [same("blocks.{i}.weight", "h.{i}.w")]
    assert [entry.theirs for entry in expand(table, {}, tensors)] == [f"h.{i}.w" for i in range(12)]


def test_an_entry_of_a_setting_that_is_not_there_is_left_out():
    table = [Rename(("a",), "b", when=("tied", False))]
    assert not [*expand(table, {"tied": (True,)}, {"a"})]
    assert [entry.theirs for entry in expand(table, {"tied": (False,)}, {"a"})] == ["b"]


def test_a_change_may_depend_on_the_settings():
    """GPT-NeoX keeps the rows of query, key and value by heads: a matrix alone does not say how many there are."""

    def by_heads(flat: FlatSettings) -> Conversion:
        (heads,) = flat["n_heads"]
        return Conversion(
            lambda t: t.unflatten(0, (3, heads, -1)).transpose(0, 1).flatten(0, 2),
            lambda t: t.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2),
        )

    ours = {f"{i}.{name}": torch.randn(4, 6) for i in range(2) for name in "qkv"}
    table = [Rename(("{i}.q", "{i}.k", "{i}.v"), "{i}.qkv", (by_heads,))]
    flat: Any = {"n_heads": (2,)}
    entries = [*expand(table, flat, ours)]
    theirs = {entry.theirs: entry.to_transformers(ours) for entry in entries}
    assert torch.equal(theirs["1.qkv"][:6], torch.cat([ours[f"1.{name}"][:2] for name in "qkv"]))
    back = [entry.to_zoo(theirs[entry.theirs]) for entry in entries]
    assert all(torch.equal(tensor, ours[name]) for part in back for name, tensor in part.items())
