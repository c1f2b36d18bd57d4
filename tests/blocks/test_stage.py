"""Stages of a picture's grid: their formulas, and what every registered one keeps."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import Recorder, View, Visibility
from zoo.blocks.stage import AttentionStage, ResidualStage, Stage, stages

EXACT = {"rtol": 1e-10, "atol": 1e-10}
D_INPUT = 8
NEEDED = {"width": 16}
OTHER: dict[str, list[Any]] = {  # values besides the default; an option that is missing here fails a test
    "width": [8],
    "kernel": [1, 5],
    "stride": [2, 3],
    "n_blocks": [2],
    "groups": [2],
    "activation": ["silu"],
    "padding": ["replicate"],
    "n_heads": [2],
    "d_key": [3],
    "d_value": [5],
    "score": ["dot", "bilinear", "additive"],
}


def choices() -> list[dict[str, Any]]:
    """Every stage, and every option of it at every other value."""
    found = []
    for name in stages.names():
        options = stages.options(name)
        needed = {key: NEEDED[key] for key in NEEDED if key in options}
        found.append({"name": name, **needed})
        found += [{"name": name, **needed, key: value} for key in options for value in OTHER[key]]
    return found


EACH = pytest.mark.parametrize("choice", choices(), ids=lambda c: " ".join(f"{k} {v}" for k, v in c.items()))


def build(choice: dict[str, Any], dtype: torch.dtype = torch.float32) -> Stage:
    """A stage with parameters that are all different, none of them 0."""
    stage = stages.build(choice, D_INPUT)
    for seed, parameter in enumerate(stage.parameters()):
        torch.nn.init.normal_(parameter, 0.3, 0.4, generator=torch.Generator().manual_seed(seed))
    return stage.to(dtype)


def see(stage: Stage, x: Tensor, recorder: Recorder | None = None) -> Tensor:
    """What a stage makes of a grid, all of whose positions are one document."""
    places = Documents.of(None, x[:, 0].flatten(1))
    out: Tensor = stage(x, View(Visibility(places, places), recorder=recorder))
    return out


def grid(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(3, D_INPUT, 7, 5, generator=torch.Generator().manual_seed(0)).to(dtype)


def test_every_option_has_another_value_here():
    assert {key for name in stages.names() for key in stages.options(name)} == set(OTHER)


@EACH
def test_a_stage_says_how_wide_and_how_large_its_grid_is(choice: dict[str, Any]):
    stage = build(choice)
    sides = [-(-side // stage.stride) for side in (7, 5)]
    assert see(stage, grid()).shape == (3, stage.d_output, *sides)


@EACH
def test_every_parameter_gets_a_finite_gradient(choice: dict[str, Any]):
    stage = build(choice)
    see(stage, grid()).square().mean().backward()
    assert not [n for n, p in stage.named_parameters() if p.grad is None or not p.grad.isfinite().all()]


@EACH
def test_bfloat16_stays_near(choice: dict[str, Any]):
    expected = see(build(choice), grid())
    found = see(build(choice, torch.bfloat16), grid(torch.bfloat16))
    assert found.dtype == torch.bfloat16
    assert (found.float() - expected).square().mean() < 0.01 * expected.square().mean()


@EACH
def test_a_picture_does_not_depend_on_those_beside_it(choice: dict[str, Any]):
    stage, x = build(choice, torch.float64), grid(torch.float64)
    torch.testing.assert_close(see(stage, x)[1:2], see(stage, x[1:2]), **EXACT)


@EACH
def test_weights_on_request_change_nothing(choice: dict[str, Any]):
    stage, x, recorder = build(choice, torch.float64), grid(torch.float64), Recorder()
    torch.testing.assert_close(see(stage, x, recorder), see(stage, x), rtol=1e-9, atol=1e-9)
    weights = recorder.written
    assert (weights is not None) == (choice["name"] == "attention")
    if weights is not None:
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, weights.shape[1], 35).double(), **EXACT)


@pytest.mark.parametrize("padding", ["zeros", "replicate"])
def test_only_zeros_beyond_the_rim_tell_it_from_the_middle(padding: str):
    plain = torch.ones(1, D_INPUT, 7, 5, dtype=torch.float64) * torch.arange(D_INPUT)[:, None, None]
    for name in ("convolution", "residual"):
        out = see(build({"name": name, "width": 16, "stride": 2, "padding": padding}, torch.float64), plain)
        assert torch.allclose(out, out[:, :, 1:2, 1:2].expand_as(out), **EXACT) == (padding != "zeros")


def test_replicate_reads_the_nearest_position_beyond_the_rim():
    stage = build({"name": "convolution", "width": 16, "kernel": 5, "padding": "replicate"}, torch.float64)
    around = F.pad(grid(torch.float64), (2, 2, 2, 2), mode="replicate")
    torch.testing.assert_close(see(stage, grid(torch.float64)), F.conv2d(around, stage.filters.weight), **EXACT)


def test_a_residual_block_of_kernel_1_learns_nothing_of_its_neighbors_but_by_its_norms():
    stage, x = build({"name": "residual", "width": 16, "kernel": 1}, torch.float64), grid(torch.float64)
    turned = x.flip(2, 3)
    torch.testing.assert_close(see(stage, turned), see(stage, x).flip(2, 3), **EXACT)


def test_attention_over_a_grid_is_that_of_its_formula_with_1x1_convolutions():
    stage, x = build({"name": "attention"}, torch.float64), grid(torch.float64)
    assert isinstance(stage, AttentionStage)

    def convolve(name: str, x: Tensor) -> Tensor:
        linear = getattr(stage.attention, name)
        return F.conv2d(x, linear.weight[:, :, None, None], linear.bias)

    queries, keys, values = (convolve(name, x).flatten(2) for name in ("query", "key", "value"))
    assert (queries.shape[1], values.shape[1]) == (D_INPUT // 8, D_INPUT // 2)
    weights = (queries.transpose(1, 2) @ keys / queries.shape[1] ** 0.5).softmax(-1)
    read = (values @ weights.transpose(1, 2)).unflatten(2, (7, 5))
    torch.testing.assert_close(see(stage, x), x + stage.scale * convolve("output", read), **EXACT)


def test_attention_over_a_grid_begins_as_the_identity_and_learns_its_scale_first():
    stage, x = AttentionStage(D_INPUT), grid()
    assert torch.equal(see(stage, x), x)
    see(stage, x).square().sum().backward()
    assert stage.scale.grad is not None and stage.scale.grad != 0


def test_a_residual_block_is_that_of_its_formula():
    stage, x = build({"name": "residual", "width": 16, "stride": 2}, torch.float64), grid(torch.float64)
    assert isinstance(stage, ResidualStage)
    (block,) = stage.blocks
    read = F.relu(normalized(x, block.first_norm.weight, block.first_norm.bias))
    inner = F.conv2d(read, block.first.weight, stride=2, padding=1)
    inner = F.relu(normalized(inner, block.second_norm.weight, block.second_norm.bias))
    expected = F.conv2d(read, block.skip.weight, stride=2) + F.conv2d(inner, block.second.weight, padding=1)
    torch.testing.assert_close(see(stage, x), expected, **EXACT)


def normalized(x: Tensor, gain: Tensor, bias: Tensor, groups: int = 8) -> Tensor:
    """(x - mean) / sqrt(variance + 1e-5) over each picture's groups of channels, by its definition."""
    grouped = x.unflatten(1, (groups, -1))
    mean = grouped.mean((2, 3, 4), keepdim=True)
    variance = (grouped - mean).square().mean((2, 3, 4), keepdim=True)
    unit = ((grouped - mean) / (variance + 1e-5).sqrt()).flatten(1, 2)
    return unit * gain[:, None, None] + bias[:, None, None]


def test_a_residual_block_that_keeps_its_shape_adds_its_input():
    stage, x = ResidualStage(D_INPUT, width=D_INPUT), grid()
    torch.nn.init.zeros_(stage.blocks[0].second.weight)
    assert torch.equal(see(stage, x), x)


WRONG = [
    ({"name": "residual", "width": 12}, r"groups \(8\) must be at least 1 and divide the channels .* \(12\)"),
    ({"name": "attention", "groups": 3}, r"groups \(3\) must be at least 1 and divide the channels .* \(8\)"),
    ({"name": "convolution", "width": 0}, r"width must be at least 1, got 0"),
    ({"name": "convolution", "width": 4, "kernel": 2}, r"kernel must be odd, got 2"),
    ({"name": "residual", "width": 8, "kernel": 4}, r"kernel must be odd, got 4"),
    ({"name": "residual", "width": 8, "padding": "replicat"}, r"padding.*'replicat'.*did you mean 'replicate'"),
    ({"name": "residual", "width": 8, "n_blocks": 0}, r"n_blocks must be at least 1, got 0"),
    ({"name": "attention", "n_heads": 0}, r"n_heads must be at least 1, got 0"),
    ({"name": "residual"}, "stage 'residual' needs the option 'width'"),
    ({"name": "residul"}, r"unknown stage 'residul' \(did you mean 'residual'\?\)"),
]


@pytest.mark.parametrize(("choice", "message"), WRONG, ids=str)
def test_a_wrong_stage_is_refused(choice: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        stages.build(choice, D_INPUT)
