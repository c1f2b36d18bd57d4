"""Reordered matrices multiply as the matrices themselves, and never as what these were before."""

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from zoo import create_model
from zoo.blocks.activation import activations
from zoo.blocks.feed_forward import MLP, GatedMLP
from zoo.models.generation import fast, product
from zoo.models.generation.fast import fast_generation, replacements
from zoo.models.generation.generate import generate
from zoo.models.generation.product import Product, SharedProduct, is_faster, multiply
from zoo.models.generation.reordered import Fingerprint, ReorderedMatrix, reordered_matrices
from zoo.models.generation.settings import GenerateSettings

HALF = pytest.param(
    torch.bfloat16,
    marks=pytest.mark.skipif(not is_faster(torch.ones(2, 2).bfloat16()), reason="oneDNN has no bfloat16 here"),
)
EXACT = pytest.param(
    torch.float32,
    marks=pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch is built without oneDNN here"),
)
CLOSE = {torch.bfloat16: 2**-7, torch.float32: 1e-5}
UNTIED = {"name": "language", "tied": False, "bias": True}


@pytest.fixture(params=[HALF, EXACT], ids=str)
def dtype(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.dtype:
    """What is reordered: float32 on processors without bfloat16, and here on any."""
    monkeypatch.setattr(product, "prefers_reordered_float32", lambda: request.param == torch.float32)
    monkeypatch.setattr(product, "MAX_UNREORDERED", 0)
    found: torch.dtype = request.param
    return found


def linear(d_input: int, d_output: int, bias: bool, dtype: torch.dtype) -> nn.Linear:
    return nn.Linear(d_input, d_output, bias).to(dtype).requires_grad_(False)


def same(found: torch.Tensor, map_: nn.Linear, x: torch.Tensor) -> None:
    exact = F.linear(x.double(), map_.weight.double(), None if map_.bias is None else map_.bias.double())
    torch.testing.assert_close(found.double(), exact, rtol=CLOSE[x.dtype], atol=CLOSE[x.dtype])


@pytest.mark.parametrize("rows", [(1,), (5, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_a_reordered_product_is_the_product(rows: tuple[int, ...], bias: bool, dtype: torch.dtype) -> None:
    x, map_ = torch.randn(*rows, 48).to(dtype), linear(48, 70, bias, dtype)
    same(Product(map_)(x), map_, x)


@pytest.mark.parametrize("bias", [False, True])
def test_maps_of_one_input_are_one_product_each_with_its_own_part(bias: bool, dtype: torch.dtype) -> None:
    maps = [linear(48, width, bias, dtype) for width in (70, 20, 30)]
    shared = SharedProduct(*maps)
    for x in (torch.randn(5, 2, 48).to(dtype), torch.randn(5, 1, 48).to(dtype)):
        for number in (1, 2, 0):
            same(shared.forward_of(number)(x), maps[number], x)


@pytest.mark.parametrize("attention", ["full", {"name": "grouped", "n_kv_heads": 1}], ids=str)
def test_fast_generation_computes_the_same_logits(attention: Any, dtype: torch.dtype) -> None:
    model = create_model("gpt2-nano", **{"decoder.attention": attention}).to(dtype).eval()
    tokens = torch.randint(0, 200, (2, 5))
    with torch.no_grad():
        said = model(tokens).logits.float()
        with fast_generation(model):
            assert any("forward" in module.__dict__ for module in model.modules() if isinstance(module, nn.Linear))
            again = model(tokens).logits.float()
    torch.testing.assert_close(again, said, rtol=0, atol=CLOSE[dtype] * 2 * float(said.abs().max()))


@pytest.mark.parametrize("name", activations.names())
@pytest.mark.parametrize("kind", ["mlp", "gated"])
def test_an_activation_is_part_of_the_product_before_it(name: str, kind: str, dtype: torch.dtype) -> None:
    changes = {"decoder.feed_forward": {"name": kind, "activation": name, "bias": True}}
    model = create_model("gpt2-nano", **changes).to(dtype).eval()
    feed_forward = next(module for module in model.modules() if isinstance(module, MLP | GatedMLP))
    x = 4 * torch.randn(3, 1, feed_forward.up.in_features).to(dtype)
    with torch.no_grad():
        exact = deepcopy(feed_forward).double()(x.double())
        with fast_generation(model):
            found = feed_forward(x)
            inside = "forward" in feed_forward.activation.__dict__
    assert inside == (dtype == torch.bfloat16 and type(feed_forward.activation) in fast.FUSED_ACTIVATIONS)
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=CLOSE[dtype] * 2 * float(exact.abs().max()))
    assert "forward" not in feed_forward.activation.__dict__


@pytest.mark.parametrize("activation", fast.FUSED_ACTIVATIONS)
def test_what_is_no_number_stays_none_in_products_with_an_activation(activation: type[nn.Module]) -> None:
    before, x = linear(48, 70, True, torch.bfloat16), torch.randn(3, 48).bfloat16()
    if not is_faster(before.weight):
        pytest.skip("oneDNN has no bfloat16 here")
    before.bias[7], before.weight[9, 3] = torch.nan, torch.inf
    found, expected = Product(before, after=fast.FUSED_ACTIVATIONS[activation])(x), activation()(before(x))
    assert torch.equal(found.isnan(), expected.isnan()) and expected[:, 7].isnan().all()
    assert torch.equal(found.isinf(), expected.isinf())


class Twisted(MLP):
    """Not f(x W1) W2."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        between = self.up(x)
        return self.down(self.activation(between) + between)


def add_one(module: nn.Module, given: Any, said: torch.Tensor) -> torch.Tensor:
    return said + 1


@pytest.mark.parametrize("place", [None, "up", "activation"])
def test_what_stands_between_a_map_and_its_activation_stays_there(place: str | None) -> None:
    """A subclass that uses both parts in another way, and hooks, such as those of adapters."""
    model = create_model("gpt2-nano").to(torch.bfloat16).eval()
    for module in list(model.modules()):
        if isinstance(module, MLP):
            if place is None:
                module.__class__ = Twisted
            else:
                getattr(module, place).register_forward_hook(add_one)
    tokens = torch.randint(0, 200, (2, 5))
    with torch.no_grad():
        said = model(tokens).logits.float()
        with fast_generation(model):
            again = model(tokens).logits.float()
    torch.testing.assert_close(again, said, rtol=0, atol=2**-6 * float(said.abs().max()))


def test_threads_that_share_a_model_write_what_one_writes(dtype: torch.dtype) -> None:
    model = create_model("gpt2-nano").to(dtype).eval()
    prompts, settings = [[1, 5, n] for n in range(7, 23)], GenerateSettings(max_new_tokens=4)

    def write(prompt: list[int]) -> list[int]:
        with torch.no_grad():
            return list(generate(model, [prompt], settings, None)[0].tokens)

    alone = [write(prompt) for prompt in prompts]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(write, prompts)) == alone


def test_a_matrix_that_has_changed_is_reordered_anew(dtype: torch.dtype) -> None:
    weight, eye = nn.Parameter(torch.randn(6, 4).to(dtype)), torch.eye(4).to(dtype)
    first = ReorderedMatrix.of([weight])
    assert ReorderedMatrix.of([weight]) is first
    with torch.no_grad():
        weight[5, 3] += 1
    second = ReorderedMatrix.of([weight])
    weight.data[0, 0] *= -1
    assert second is not first and ReorderedMatrix.of([weight]) is not second
    with torch.no_grad():
        torch.testing.assert_close(multiply(eye, ReorderedMatrix.of([weight]).matrix, None), weight.detach().T)
        assert len(ReorderedMatrix.of([weight, weight]).fingerprints) == 2


@pytest.mark.parametrize("columns", [3, 4, 64])
@pytest.mark.parametrize("rows", [slice(None), slice(1, None), slice(2, 3)], ids=["all", "all but the first", "one"])
def test_a_matrix_whose_rows_or_columns_changed_places_is_reordered_anew(
    columns: int, rows: slice, dtype: torch.dtype
) -> None:
    changes = [lambda x: x.flip(0)] if len(range(*rows.indices(6))) > 1 else []
    for change in [*changes, lambda x: x.roll(1, 1), lambda x: x.roll(columns // 2, 1)]:
        weight = nn.Parameter(torch.randn(6, columns).to(dtype))
        weight.data[0] = 0.0
        first = ReorderedMatrix.of([weight])
        weight.data[rows] = change(weight.data[rows].clone())
        assert ReorderedMatrix.of([weight]) is not first


def test_any_matrix_has_a_fingerprint(dtype: torch.dtype) -> None:
    whole = torch.randn(9, 12).to(dtype)
    for matrix in (
        whole,
        whole[:1, :8],
        whole[:, :1].clone().T,
        whole.flatten()[1:9].view(2, 4),
        whole.flatten()[4:8].view(1, 4),
    ):
        assert Fingerprint.of(matrix) == Fingerprint.of(matrix)


def test_a_model_is_left_with_its_own_maps(dtype: torch.dtype) -> None:
    model = create_model("gpt2-nano").to(dtype)
    up = model.decoder.stack.blocks[0].feed_forward.up
    with pytest.raises(RuntimeError), fast_generation(model):
        assert "forward" in up.__dict__
        raise RuntimeError
    assert not any("forward" in module.__dict__ for module in model.modules())


def test_who_reads_in_another_thread_reads_the_model_itself(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pipeline may classify a text while it writes another: what multiplies for the writer is not to be shared."""
    model, tokens = create_model("gpt2-nano", heads=[UNTIED]).to(dtype).eval(), torch.randint(0, 200, (2, 5))
    with torch.no_grad(), ThreadPoolExecutor(1) as other:
        said = model(tokens).scores["language"].exact()
        with fast_generation(model):
            monkeypatch.setattr(Product, "outputs", lambda *_: pytest.fail("it multiplied for another thread"))
            found = other.submit(torch.no_grad()(lambda: model(tokens).scores["language"].exact())).result()
    assert torch.equal(found, said)


def test_batch_after_batch_looks_at_the_matrices_once(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    model, looked = create_model("gpt2-nano").to(dtype).eval(), []
    monkeypatch.setattr(fast, "replacements", lambda model: looked.append(model) or replacements(model))
    settings = GenerateSettings(max_new_tokens=2)
    with fast_generation(model):
        first, again = (generate(model, [[1, 5, 7]], settings, None)[0].tokens for _ in range(2))
        assert any("forward" in module.__dict__ for module in model.modules())
    assert len(looked) == 1 and first == again == generate(model, [[1, 5, 7]], settings, None)[0].tokens
    assert len(looked) == 2 and not any("forward" in module.__dict__ for module in model.modules())


def test_nothing_is_reordered_where_that_is_turned_off(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    model = create_model("gpt2-nano").to(dtype).eval()
    monkeypatch.setattr(fast, "replacements", lambda model: pytest.fail("it was looked at"))
    generate(model, [[1, 5, 7]], GenerateSettings(max_new_tokens=2, fast=False), None)


def test_float32_stays_bit_by_bit_where_it_is_not_what_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.ones(256, 257)
    monkeypatch.setattr(product, "prefers_reordered_float32", lambda: False)
    assert not is_faster(weight)
    monkeypatch.setattr(product, "prefers_reordered_float32", lambda: True)
    assert is_faster(weight) and not is_faster(weight.double())
    with torch.autocast("cpu", torch.bfloat16):  # its products are to be of bfloat16
        assert not is_faster(weight)


def test_blocks_that_are_narrower_than_the_rest_write_what_they_write_without_it() -> None:
    """As FSDP puts them together for a validation in bfloat16."""
    model, given = create_model("gpt2-nano").eval(), [[1, 5, 7], [3, 2, 4]]
    for block in model.decoder.stack.blocks:
        block.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = [generate(model, given, GenerateSettings(max_new_tokens=4, fast=fast), 2) for fast in (True, False)]
    assert found[0] == found[1]


def test_small_matrices_in_float32_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "prefers_reordered_float32", lambda: True)
    assert not is_faster(torch.ones(256, 256)) and is_faster(torch.ones(256, 257))
    assert is_faster(torch.ones(64, 512), torch.ones(64, 513))  # one below the other they are large enough
    assert not is_faster(torch.ones(64, 512), torch.ones(513, 64).T)
    model = create_model("gpt2-nano").eval()
    assert not any(isinstance(module, nn.Linear) for module in replacements(model))


def test_a_reordered_copy_goes_with_its_matrix(dtype: torch.dtype) -> None:
    weight, before = torch.randn(6, 4).to(dtype), len(reordered_matrices)
    ReorderedMatrix.of([weight])
    assert len(reordered_matrices) == before + 1
    del weight
    assert len(reordered_matrices) == before


@pytest.mark.parametrize("name", ["gpt2-nano", "transformer-nano"])
def test_a_score_with_weights_of_its_own_is_read_in_the_dtype_of_the_model(name: str, dtype: torch.dtype) -> None:
    model = create_model(name, **{"decoder.attention.score": "additive"}).to(dtype).eval()
    source = torch.randint(5, 200, (2, 6)) if model.encoder is not None else None
    settings = GenerateSettings(max_new_tokens=4, beams=2)
    assert all(len(one.tokens) == 4 for one in generate(model, [[1, 5], [1, 7]], settings, None, source))
