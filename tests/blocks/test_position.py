"""Positions against their papers' formulas and transformers' code."""

import pytest
import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from zoo.blocks.attention import FullAttention
from zoo.blocks.position import Learned, Position, Relative, Rotary, Sinusoidal, alibi_slopes, positions, sinusoids
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import View, Visibility

EXACT = {"rtol": 1e-12, "atol": 1e-12}


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def rotate(position: Position, heads: Tensor, at: Tensor) -> Tensor:
    return position.rotate(heads, position.rotations(at, heads.dtype))


@pytest.mark.parametrize("d_model", [6, 7])
def test_sinusoids_are_the_formula(d_model: int):
    table = sinusoids(30, d_model)
    for p, i in ((0, 0), (1, 2), (7, 4), (29, 6 if d_model == 7 else 2)):
        angle = torch.tensor(p / 10000 ** (i / d_model), dtype=torch.float64)
        assert table[p, i] == pytest.approx(float(angle.sin()), abs=1e-14)
        if i + 1 < d_model:
            assert table[p, i + 1] == pytest.approx(float(angle.cos()), abs=1e-14)


@pytest.mark.parametrize("k", [1, 5])
def test_a_shifted_sinusoid_is_a_rotation(k: int):
    table, d_model = sinusoids(40, 8), 8
    angles = k / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    sin, cos = table[:-k, 0::2], table[:-k, 1::2]
    torch.testing.assert_close(table[k:, 0::2], sin * angles.cos() + cos * angles.sin(), **EXACT)
    torch.testing.assert_close(table[k:, 1::2], cos * angles.cos() - sin * angles.sin(), **EXACT)


def test_sinusoidal_adds_the_table_rounded_to_float32():
    at = torch.tensor([[0, 1, 2, 0, 1]])
    embedded = Sinusoidal(6, 2, 3, 10, True).embed(torch.zeros(1, 5, 6), at, 5)
    assert torch.equal(embedded[0], sinusoids(10, 6)[at[0]].float())


def test_sinusoidal_goes_on_beyond_max_length():
    position = Sinusoidal(6, 2, 3, 4, True)
    at = torch.tensor([[2, 9]])
    for reach in (10, 12):
        assert torch.equal(position.embed(torch.zeros(1, 2, 6), at, reach)[0], sinusoids(10, 6)[[2, 9]].float())


def test_learned_adds_a_vector_for_each_position():
    position = Learned(6, 2, 3, 4, True)
    at = torch.tensor([[0, 3, 0]])
    assert torch.equal(position.embed(torch.ones(1, 3, 6), at, 3)[0], 1 + position.table.weight[at[0]])


def test_learned_takes_a_row_of_short_texts_that_is_longer_than_max_length():
    at = torch.tensor([[0, 1, 2, 0, 1, 2]])
    assert Learned(6, 2, 3, 4, True).embed(torch.zeros(1, 6, 6), at, 6).shape == (1, 6, 6)


def test_learned_refuses_a_text_that_is_longer_than_max_length():
    with pytest.raises(ValueError, match="a text has 6 tokens, but this model learned positions up to 4"):
        Learned(6, 2, 3, 4, True).embed(torch.zeros(1, 6, 6), torch.arange(6)[None], 6)


def test_rotary_is_llamas():
    heads, at = randn(2, 3, 5, 8).float(), torch.tensor([[0, 1, 2, 0, 1], [0, 300, 7, 8, 9]])
    angles = at[..., None] * (1.0 / 500.0 ** (torch.arange(0, 8, 2).float() / 8))
    angles = torch.cat([angles, angles], dim=-1)
    expected, _ = apply_rotary_pos_emb(heads, heads, angles.cos(), angles.sin())
    assert torch.equal(rotate(Rotary(24, 3, 8, 512, True, base=500.0), heads, at), expected)


def test_rotary_products_depend_on_distances_only():
    rotary, queries, keys = Rotary(16, 2, 8, 64, True), randn(1, 2, 5, 8), randn(1, 2, 5, 8)
    at = torch.tensor([[0, 3, 4, 9, 11]])
    scores = rotate(rotary, queries, at) @ rotate(rotary, keys, at).transpose(-1, -2)
    shifted = rotate(rotary, queries, at + 40) @ rotate(rotary, keys, at + 40).transpose(-1, -2)
    torch.testing.assert_close(scores, shifted, **EXACT)


def test_rotary_angles_stay_exact_in_bfloat16():
    heads, at = randn(1, 2, 3, 8).bfloat16(), torch.tensor([[1001, 1002, 1003]])
    rotary = Rotary(16, 2, 8, 2048, True)
    expected = rotate(rotary, heads.float(), at)
    torch.testing.assert_close(rotate(rotary.bfloat16(), heads, at).float(), expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("d_key", "base", "message"),
    [(5, 10000.0, "position rotary needs an even d_key, got 5"), (4, 1.0, "needs a base above 1, got 1.0")],
)
def test_rotary_refuses_what_it_cannot_turn(d_key: int, base: float, message: str):
    with pytest.raises(ValueError, match=message):
        Rotary(20, 4, d_key, 64, True, base=base)


def test_alibi_slopes_of_8_heads_are_the_papers():
    assert alibi_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]


def test_alibi_slopes_of_12_heads_are_the_authors_codes():
    assert alibi_slopes(12) == alibi_slopes(8) + alibi_slopes(16)[0::2][:4]


def test_alibi_lowers_scores_by_slope_times_distance():
    bias = positions.build("alibi", 8, 2, 4, 16, True).bias(torch.tensor([3, 4]), torch.arange(5))
    distances = torch.tensor([[3.0, 2, 1, 0, 1], [4, 3, 2, 1, 0]])
    assert torch.equal(bias, torch.stack([-distances / 2**4, -distances / 2**8]))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (6, 40)])
def test_relative_buckets_are_t5s(causal: bool, buckets: int, max_distance: int):
    offsets = torch.arange(-300, 301)[None]
    ours = Relative(8, 2, 4, 16, causal, buckets=buckets, max_distance=max_distance).bucket(offsets)
    assert torch.equal(ours, T5Attention._relative_position_bucket(offsets, not causal, buckets, max_distance))


def test_relative_reads_its_bias_from_the_table_by_head():
    relative = Relative(8, 2, 4, 16, True)
    bias = relative.bias(torch.tensor([2, 3]), torch.arange(4))
    assert torch.equal(bias[1], relative.table.weight[:, 1][torch.tensor([[2, 1, 0, 0], [3, 2, 1, 0]])])


@pytest.mark.parametrize(("buckets", "max_distance"), [(2, 128), (32, 16)])
def test_relative_refuses_buckets_that_it_cannot_fill(buckets: int, max_distance: int):
    given = f"got buckets {buckets} and max_distance {max_distance}"
    with pytest.raises(ValueError, match=f"needs 4 buckets or more and a max_distance above half of them, {given}"):
        Relative(8, 2, 4, 16, True, buckets=buckets, max_distance=max_distance)


def test_layers_share_what_their_position_turns_by():
    """Queries and keys of all layers with it: cosines of each position are computed once for each dtype."""
    rotary, documents = Rotary(16, 2, 8, 64, True), Documents(torch.tensor([[1, 1, 2, 2, 0]]))
    view, heads = View(Visibility(documents, documents), rotary), randn(1, 2, 5, 8)
    assert torch.equal(view.rotate(heads), rotate(rotary, heads, documents.positions))
    assert view.rotations(torch.float64) is view.rotations(torch.float64) is not view.rotations(torch.float32)
    assert View(Visibility(documents, documents)).rotate(heads) is heads


def test_what_layers_turn_by_is_there_before_the_first_of_them_asks():
    """A compiled block would otherwise need a graph of its own to compute it."""
    documents = Documents(torch.tensor([[1, 1, 2]]))
    view = View(Visibility(documents, documents), Rotary(16, 2, 8, 64, True))
    FullAttention(16, 2).prepare(view, torch.bfloat16)
    assert ("rotations", torch.bfloat16) in view.cache


def test_a_position_of_ones_own_is_asked_by_the_hook_that_it_fills():
    class Doubled(Position):
        def embed(self, x: Tensor, at: Tensor, reach: int) -> Tensor:
            return 2 * x

    assert Doubled.embeds and not (Doubled.rotates or Doubled.biases)


@pytest.mark.parametrize("name", positions.names())
def test_a_position_fills_one_hook_or_none(name: str):
    position = positions.build(name, 8, 2, 4, 16, True)
    x, heads, at = randn(1, 3, 8).float(), randn(1, 2, 3, 4).float(), torch.arange(3)[None]
    embeds = not torch.equal(position.embed(x, at, 3), x)
    rotates = position.rotates and not torch.equal(rotate(position, heads, at), heads)
    biases = position.bias(at[0], at[0]) is not None
    assert embeds + rotates + biases == (name != "none")
    assert embeds == position.embeds
