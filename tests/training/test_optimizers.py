"""Claims about optimizers: matrices decay and vectors do not, and an update is torch's own or the paper's formula."""

import re
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from tiny import TinyModel, equal, settings, tensors, train_tiny
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from zoo.devices import precision
from zoo.models.create import create_model
from zoo.training.optimizers import muon as muon_module
from zoo.training.optimizers import optimizer as optimizer_module
from zoo.training.optimizers.muon import hidden_matrices
from zoo.training.optimizers.optimizer import is_fusible, optimizers, step_unless

STEPS = 3


def one_update(choice: object) -> tuple[TinyModel, TinyModel]:
    """A model after one update with gradients that are all 1, and as it was."""
    before, after = TinyModel(), TinyModel()
    optimizer = optimizers.build(choice, after, 0.5)
    for parameter in after.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return before, after


def updated(model: nn.Module, *chosen: torch.optim.Optimizer) -> list[Tensor]:
    """The weights after a few updates with gradients drawn by their number."""
    generator = torch.Generator().manual_seed(5)
    for _ in range(STEPS):
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        for optimizer in chosen:
            step_unless(torch.zeros(()), optimizer)
    return list(model.parameters())


def split(parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, object]]:
    """Matrices, which decay, and vectors, which do not."""
    found = list(parameters)
    matrices = {"params": [p for p in found if p.dim() > 1], "weight_decay": weight_decay}
    return [matrices, {"params": [p for p in found if p.dim() < 2], "weight_decay": 0.0}]


@pytest.mark.parametrize(
    "choice",
    [
        {"name": "adamw", "eps": 0.0},
        {"name": "adam", "eps": 0.0},
        {"name": "muon", "eps": 0.0},
        "lion",
        {"name": "sgd", "momentum": 0.0},
    ],
)
def test_the_first_update_by_ones_moves_vectors_by_the_rate(choice: object):
    before, after = one_update(choice)
    torch.testing.assert_close(after.hidden.bias, before.hidden.bias - 0.5)


@pytest.mark.parametrize("name", ["adamw", "lion"])
def test_matrices_decay_and_vectors_do_not(name: str):
    before, after = one_update({"name": name, "weight_decay": 0.2})
    torch.testing.assert_close(after.hidden.weight, before.hidden.weight * (1 - 0.5 * 0.2) - 0.5)
    torch.testing.assert_close(after.embedding.weight, before.embedding.weight * (1 - 0.5 * 0.2) - 0.5)
    torch.testing.assert_close(after.hidden.bias, before.hidden.bias - 0.5)


def test_tied_and_frozen_parameters_are_counted_once_or_not_at_all():
    model = TinyModel()
    model.hidden.bias.requires_grad_(False)
    groups = optimizers.build("adamw", model, 0.5).param_groups
    assert [[tuple(p.shape) for p in group["params"]] for group in groups] == [[(11, 5), (5, 5)], [(11,)]]


@pytest.mark.parametrize("name", [name for name in optimizers.names() if "weight_decay" in optimizers.options(name)])
def test_logits_of_attention_do_not_decay_whatever_their_shape(name: str):
    model = create_model("gpt2-nano", **{"attention.sinks": 2, "position": "relative"})
    groups = optimizers.build({"name": name, "weight_decay": 0.1}, model, 0.5).param_groups
    others = {id(p) for group in groups for p in group["params"] if group["weight_decay"] == 0}
    kept = {name for name, p in model.named_parameters() if id(p) in others and p.dim() > 1}
    assert {name.rpartition(".")[2] for name in kept} == {"sinks", "weight"} and len(kept) == 3
    assert all("sinks" in name or ".positions." in name for name in kept)
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


@pytest.mark.parametrize("nesterov", [True, False])
def test_muon_is_torchs_muon_for_the_matrices_of_layers_and_adamw_for_the_rest(
    nesterov: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(muon_module, "fastest_dtype", lambda device: torch.bfloat16)  # torch's Muon has no other
    ours, theirs = create_model("gpt2-nano"), create_model("gpt2-nano")
    choice = {"name": "muon", "weight_decay": 0.2, "momentum": 0.9, "betas": [0.8, 0.9], "eps": 1e-6}
    choice |= {"nesterov": nesterov}
    matrix = re.compile(r"decoder\.stack\.blocks\..*(query|key|value|output|up|down)\.weight")
    matrices = [p for name, p in theirs.named_parameters() if matrix.fullmatch(name)]
    rest = [p for name, p in theirs.named_parameters() if not matrix.fullmatch(name)]
    assert len(matrices) == 12
    how = {"momentum": 0.9, "nesterov": nesterov, "adjust_lr_fn": "match_rms_adamw"}
    muon = torch.optim.Muon(matrices, 0.1, weight_decay=0.2, **how)
    adamw = torch.optim.AdamW(split(rest, 0.2), 0.1, betas=(0.8, 0.9), eps=1e-6, fused=True)
    for mine, other in zip(
        updated(ours, optimizers.build(choice, ours, 0.1)), updated(theirs, muon, adamw), strict=True
    ):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("name", ["muon", "lion", "adafactor"])
@pytest.mark.parametrize("count", [1, 3 * 64 * 64])
def test_weights_of_one_shape_are_updated_together_as_each_is_alone(
    name: str, count: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(muon_module, "fastest_dtype", lambda device: torch.float64)
    together, alone = (create_model("bert-nano", d_model=64).double() for _ in range(2))
    taken = [len(found) for found in optimizer_module.group_by_shape(together.parameters())]
    assert max(taken) > 3
    expected = updated(together, optimizers.build(name, together, 0.1))
    monkeypatch.setattr(optimizer_module, "STACK_ON_CPU", count)
    fewer = [
        len(found) for found in optimizer_module.group_by_shape(p for p in alone.parameters() if p.shape == (64, 64))
    ]
    assert max(fewer) == (1 if count == 1 else 3) and sum(fewer) > 3
    torch.testing.assert_close(updated(alone, optimizers.build(name, alone, 0.1)), expected, rtol=1e-9, atol=1e-12)


def test_muon_moves_a_matrix_as_far_beside_many_others_as_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(muon_module, "fastest_dtype", lambda device: torch.float64)
    together = nn.ModuleList(nn.Linear(3, 2, bias=False) for _ in range(8)).double()
    alone = deepcopy(together)
    expected = updated(together, optimizers.build("muon", together, 0.1))
    monkeypatch.setattr(optimizer_module, "STACK_ON_CPU", 1)
    torch.testing.assert_close(updated(alone, optimizers.build("muon", alone, 0.1)), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(5, 17), (17, 5), (7, 12)])
def test_muons_matrices_are_about_the_same_in_float32_where_bfloat16_would_be_emulated(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
):
    matrix, found = torch.randn(shape, generator=torch.Generator().manual_seed(0)), {}
    before = matrix.clone()
    for dtype in (torch.float32, torch.bfloat16):
        monkeypatch.setattr(muon_module, "fastest_dtype", lambda device, dtype=dtype: dtype)
        found[dtype] = muon_module.orthogonalize(matrix[None])[0]
        assert found[dtype].dtype == dtype and torch.equal(matrix, before)  # which may be the momentum itself
    torch.testing.assert_close(found[torch.bfloat16].float(), found[torch.float32], rtol=0.0, atol=0.02)
    sizes = torch.linalg.svdvals(found[torch.float32])
    assert ((sizes > 0.6) & (sizes < 1.3)).all()


@pytest.mark.parametrize("emulated", [True, False])
def test_products_that_need_few_digits_are_never_emulated(emulated: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(precision, "emulates_bfloat16", lambda device: emulated)
    expected = torch.float32 if emulated else torch.bfloat16
    assert precision.fastest_dtype.__wrapped__(torch.device("cpu")) == expected


@pytest.mark.parametrize(
    ("name", "matrices"),
    [
        ("bert-nano", {"query", "key", "value", "output", "up", "down"}),  # not masked_lm's `dense`, not the pooler's
        ("t5-nano", {"query", "key", "value", "output", "up", "down"}),  # its table of distances is added to scores
        ("rnn-attention-nano", {"query", "key", "begin", "readout"}),  # gates are several maps, `weigh` is a vector
        ("cnn-attention-nano", {"query", "key", "value", "output"}),  # convolutions are no matrices
    ],
)
def test_muon_takes_the_matrices_between_states_alone(name: str, matrices: set[str]):
    model = create_model(name)
    hidden = {id(p) for p in hidden_matrices(model)}
    names = [name for name, p in model.named_parameters() if id(p) in hidden]
    assert {name.split(".")[-2] for name in names} <= matrices and names
    assert not any(name.startswith(("heads", "pooler")) or ".embed" in name for name in names)


def test_muon_leaves_out_sinks_which_are_logits():
    model = create_model("gpt2-nano", **{"decoder.attention": {"name": "full", "sinks": 2}})
    hidden = {id(p) for p in hidden_matrices(model)}
    sinks = [p for name, p in model.named_parameters() if name.endswith("sinks")]
    assert {p.dim() for p in sinks} == {2} and not hidden & {id(p) for p in sinks}


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_is_torchs(nesterov: bool):
    ours, theirs = TinyModel(), TinyModel()
    choice = {"name": "sgd", "momentum": 0.8, "nesterov": nesterov, "weight_decay": 0.1}
    groups = split(theirs.parameters(), 0.1)
    reference = torch.optim.SGD(groups, 0.1, momentum=0.8, nesterov=nesterov, fused=True)
    mine, others = updated(ours, optimizers.build(choice, ours, 0.1)), updated(theirs, reference)
    assert all(torch.equal(one, other) for one, other in zip(mine, others, strict=True))


@pytest.mark.parametrize(("name", "own"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_adams_are_torchs(name: str, own: type[torch.optim.Optimizer]):
    ours, theirs = TinyModel(), TinyModel()
    decay = {"weight_decay": 0.1} if name == "adamw" else {}
    choice = {"name": name, "betas": [0.7, 0.8], "eps": 0.1, **decay}
    reference = own(split(theirs.parameters(), decay.get("weight_decay", 0.0)), 0.1, betas=(0.7, 0.8), eps=0.1)
    mine, others = updated(ours, optimizers.build(choice, ours, 0.1)), updated(theirs, reference)
    torch.testing.assert_close(mine, others, rtol=1e-5, atol=1e-6)


HAVE_KERNELS = ["adamw", "adam", "muon", "sgd"]


@pytest.mark.parametrize("name", HAVE_KERNELS)
def test_without_torchs_kernel_the_weights_are_the_same_but_for_rounding(name: str):
    fused, plain = TinyModel(), TinyModel()
    chosen = [optimizers.build({"name": name, "fused": on}, m, 0.1) for on, m in ((True, fused), (False, plain))]
    assert [any(group.get("fused") for group in optimizer.param_groups) for optimizer in chosen] == [True, False]
    torch.testing.assert_close(updated(plain, chosen[1]), updated(fused, chosen[0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [*optimizers.names(), *({"name": name, "fused": False} for name in HAVE_KERNELS)])
@pytest.mark.parametrize("good", [0, 2])
def test_a_step_that_is_bad_changes_no_bit_whatever_the_gradients_hold(name: object, good: int):
    """Neither weights nor moments nor counters: the steps behind it are those of a run without it."""
    model, never = TinyModel(), TinyModel()
    optimizer, reference = optimizers.build(name, model, 0.1), optimizers.build(name, never, 0.1)
    draws = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    for step in range(good + 2):
        if step == good:
            bad_step(model, optimizer)
        for one, generator in zip((model, never), draws, strict=True):
            for parameter in one.parameters():
                parameter.grad = torch.randn(parameter.shape, generator=generator)
        step_unless(torch.zeros(()), optimizer)
        reference.step()
    state = {f"{n}/{key}": kept for n, p in enumerate(model.parameters()) for key, kept in optimizer.state[p].items()}
    other = {f"{n}/{key}": kept for n, p in enumerate(never.parameters()) for key, kept in reference.state[p].items()}
    assert equal(state, other) and state
    assert equal(dict(model.named_parameters()), dict(never.named_parameters()))


@pytest.mark.parametrize(("device", "heeded"), [("cpu", True), ("cuda", True), ("mps", False)])
def test_a_kernel_that_does_not_heed_a_bad_step_is_not_taken(device: str, heeded: bool):
    with FakeTensorMode():
        assert is_fusible([nn.Parameter(torch.empty(2, device=device))]) is heeded


def bad_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """A step with gradients of every kind that is no number."""
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = torch.full_like(parameter, (torch.nan, torch.inf, -torch.inf)[number % 3])
    step_unless(torch.ones(()), optimizer)


def test_lion_is_the_formula_of_its_paper():
    model = TinyModel().double()
    weight, momentum = model.hidden.bias.detach().clone(), torch.zeros(5).double()
    optimizer = optimizers.build({"name": "lion", "betas": [0.8, 0.9]}, model, 0.1)
    for step in range(STEPS):
        model.hidden.bias.grad = gradient = torch.linspace(-1, 2, 5).double().roll(step)
        optimizer.step()
        weight = weight - 0.1 * (0.8 * momentum + 0.2 * gradient).sign()
        momentum = 0.9 * momentum + 0.1 * gradient
    torch.testing.assert_close(model.hidden.bias.detach(), weight, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", optimizers.names())
def test_a_resumed_run_has_the_bits_of_the_uninterrupted_one(tmp_path: Path, name: str):
    given = {"optimizer": name, "learning_rate": 1e-3}
    train_tiny(tmp_path / "straight", settings(steps=4, **given))
    train_tiny(tmp_path / "resumed", settings(steps=2, **given))
    train_tiny(tmp_path / "resumed", settings(steps=4, **given), TinyModel(seed=1), resume=True)
    assert equal(tensors(tmp_path / "straight"), tensors(tmp_path / "resumed"))


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"name": "sgd", "momentum": 1.0}, "training.optimizer.momentum: must be at least 0 and below 1, got 1.0"),
        ({"name": "sgd", "momentum": 0.0, "nesterov": True}, "training.optimizer.nesterov: needs a momentum above 0"),
        ({"name": "muon", "momentum": -0.1}, "training.optimizer.momentum: must be at least 0 and below 1, got -0.1"),
        ({"name": "lion", "betas": [0.9, 1.0]}, r"training.betas: each must be at least 0 and below 1, got \[0.9, 1"),
        ({"name": "adafactor", "threshold": 0.5}, "training.optimizer.threshold: must be at least 1, got 0.5"),
    ],
)
def test_options_that_cannot_be_are_refused(choice: object, words: str):
    with pytest.raises(ValueError, match=words):
        optimizers.build(choice, TinyModel(), 0.1)
