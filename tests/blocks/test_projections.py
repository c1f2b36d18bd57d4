"""Several maps of the same vectors, by one product or one by one."""

import copy
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from zoo.blocks import attention, projections
from zoo.blocks.feed_forward import MLP, GatedMLP
from zoo.blocks.projections import are_plain, project, project_each, project_one
from zoo.blocks.residual import IntoScores
from zoo.devices import large_products
from zoo.models.create import create_model


class Halved(nn.Linear):
    """A map that does more than its class says."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) / 2


def maps(bias: bool = True) -> list[nn.Module]:
    torch.manual_seed(0)
    return [IntoScores(6, 2, 4, bias), nn.Linear(6, 4, bias), nn.Linear(6, 2, bias)]


class OnGpu(torch.Tensor):
    """Says that it is on a GPU."""

    is_cuda = True


@pytest.mark.parametrize("bias", [True, False])
def test_one_product_is_what_the_maps_make_with_their_gradients(bias: bool, monkeypatch: pytest.MonkeyPatch):
    ours, theirs, x = maps(bias), maps(bias), torch.randn(3, 5, 6)
    products: list[tuple[int, ...]] = []
    linear = F.linear

    def counted(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        products.append(tuple(weight.shape))
        return linear(x.as_subclass(torch.Tensor), weight, bias)

    monkeypatch.setattr(projections.F, "linear", counted)
    found = project(x.as_subclass(OnGpu), ours)
    assert products == [(14, 6)]
    expected = [one(x) for one in theirs]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    sum(one.square().sum() for one in found).backward()  # type: ignore[union-attr]
    sum(one.square().sum() for one in expected).backward()  # type: ignore[union-attr]
    for mine, other in zip(ours, theirs, strict=True):
        for one, right in zip(mine.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(one.grad, right.grad)


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.__setitem__(1, nn.Identity()),
        lambda found: found.__setitem__(1, Halved(6, 4)),
        lambda found: found.__setitem__(1, nn.Linear(6, 4, bias=False)),
        lambda found: found[1].register_forward_hook(lambda module, given, said: said + 1),
        lambda found: found[1].register_forward_pre_hook(lambda module, given: given),
        lambda found: found[1].register_full_backward_hook(lambda module, given, said: None),
        lambda found: setattr(found[1], "forward", lambda x: x),
        lambda found: found[1].requires_grad_(False),
    ],
    ids=["no map", "another class", "no bias", "a hook", "one before", "one behind", "another forward", "frozen"],
)
def test_what_does_more_than_a_linear_map_is_called(change: Callable[[list[nn.Module]], object]):
    found = maps()
    assert are_plain(found)
    change(found)
    assert not are_plain(found)


def test_maps_are_called_one_by_one_on_a_cpu_and_in_inference(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(projections.torch, "cat", None)
    found, x = maps(), torch.randn(2, 6)
    assert len(project(x, found)) == 3
    with torch.no_grad():
        assert [one.shape[1] for one in project(x.as_subclass(OnGpu), found)] == [8, 4, 2]


def test_an_attention_maps_all_that_it_reads_at_once(monkeypatch: pytest.MonkeyPatch):
    told: list[int] = []

    def counted(x: torch.Tensor, maps: Sequence[nn.Module], fast: bool) -> list[torch.Tensor]:
        told.append(len(maps))
        return project(x, maps, fast)

    monkeypatch.setattr(attention, "project", counted)
    model = create_model("transformer-nano").initialize(0)
    model(torch.ones(1, 3, dtype=torch.long), torch.ones(1, 4, dtype=torch.long))
    layers = len(told) // 3
    assert told == layers * [3] + layers * [2, 3] or told == layers * [3] + layers * [3, 2]


def test_under_autocast_several_maps_read_one_copy_and_gradients_are_added_up_in_float32():
    ours, theirs, x = maps(), maps(), torch.randn(3, 5, 6)
    mine, right = x.clone().requires_grad_(), x.clone().requires_grad_()
    weights, kept = [torch.randn(3, 5, n) for n in (8, 4, 2)], list[torch.Tensor]()
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        with torch.autocast("cpu", torch.bfloat16):
            found = project_each(mine, ours)
    with torch.autocast("cpu", torch.bfloat16):
        stream = right * 1  # no leaf: autocast would remember its cast
        expected = [one(stream) for one in theirs]
    read = {tensor.data_ptr() for tensor in kept if tensor.numel() == x.numel() and tensor.dtype == torch.bfloat16}
    assert len(read) == 1
    for said in (found, expected):
        sum((one * weight).sum() for one, weight in zip(said, weights, strict=True)).backward()  # type: ignore[union-attr]
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert torch.equal(mine.grad, right.grad)  # bit for bit: in the order of autograd, and in float32
    for one, other in zip(ours, theirs, strict=True):
        assert all(torch.equal(p.grad, q.grad) for p, q in zip(one.parameters(), other.parameters(), strict=True))


def test_vectors_that_autocast_leaves_alone_are_not_copied(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(projections, "CastOnce", None)
    found, x = maps(), torch.randn(2, 6)
    assert len(project_each(x, found)) == 3
    with torch.autocast("cpu", torch.bfloat16):
        assert len(project_each(x.bfloat16(), found)) == 3


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Weights whose gradient was written by a product of its own, where every weight counts as large."""
    written: list[tuple[int, ...]] = []
    write = projections.write_weight_gradient_

    def watched(total: torch.Tensor, *others: torch.Tensor) -> None:
        written.append(tuple(total.shape))
        write(total, *others)

    monkeypatch.setattr(projections, "write_weight_gradient_", watched)
    for name, value in {"LARGE_WEIGHT": 1, "MANY_ROWS": 1, "has_amx": lambda: True}.items():
        monkeypatch.setattr(large_products, name, value)
    return written


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [MLP, GatedMLP])
def test_a_large_layer_computes_what_autocast_computes(
    kind: type[MLP | GatedMLP], bias: bool, large: list[tuple[int, ...]]
):
    torch.manual_seed(0)
    ours = kind(6, 10, bias=bias)
    theirs, x, other = copy.deepcopy(ours), *(torch.ones(3, 5, 6, requires_grad=True) for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = ours(x), theirs.down(plain(theirs, other))
    found.float().square().sum().backward()
    expected.float().square().sum().backward()
    assert found.dtype == torch.bfloat16 and torch.equal(found, expected)
    assert sorted(large) == sorted(tuple(one.weight.shape) for one in ours.children() if isinstance(one, nn.Linear))
    for (name, one), right in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert one.grad is not None and one.grad.dtype == torch.float32, name
        torch.testing.assert_close(one.grad, right.grad, rtol=2**-7, atol=2**-7, msg=name)
    torch.testing.assert_close(x.grad, other.grad, rtol=2**-7, atol=2**-7)


def plain(layer: MLP | GatedMLP, x: torch.Tensor) -> torch.Tensor:
    """What enters the last map, by torch's own layers."""
    return F.relu(layer.up(x)) if isinstance(layer, MLP) else F.silu(layer.gate(x)) * layer.up(x)


@pytest.mark.parametrize("change", ["frozen", "hook", "no gradient", "float32", "not fast"])
def test_a_large_layer_is_called_where_a_gradient_of_its_own_gains_nothing(change: str, large: list[tuple[int, ...]]):
    layer, x, called = nn.Linear(6, 4), torch.ones(3, 6, requires_grad=True), []
    if change == "frozen":
        layer.weight.requires_grad_(False)
    if change == "hook":
        layer.register_forward_hook(lambda module, given, said: called.append(said))
    with torch.autocast("cpu", torch.bfloat16, change != "float32"), torch.set_grad_enabled(change != "no gradient"):
        mapped = project_one(x, layer, change != "not fast")
    if mapped.requires_grad:
        mapped.float().sum().backward()
    assert large == [] and len(called) == (change == "hook")
