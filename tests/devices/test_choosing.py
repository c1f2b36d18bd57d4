"""Claims about the choice of a device: one rule, and a name of what is not there is refused."""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch
from torch import nn

from zoo.devices.choose import choose_device, choose_placement, with_dtype
from zoo.devices.defaults import default_torch_settings, shared
from zoo.devices.precision import forward_dtype, has_bfloat16, nearest_precision, warn_of_emulation, widest_dtype

MISSING = "--device: no device 'cuda:2' here"


def pretend(monkeypatch: pytest.MonkeyPatch, gpus: int, mps: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(("gpus", "mps", "best"), [(2, True, "cuda:0"), (0, True, "mps"), (0, False, "cpu")])
def test_auto_is_cuda_then_mps_then_the_cpu(gpus: int, mps: bool, best: str, monkeypatch: pytest.MonkeyPatch):
    pretend(monkeypatch, gpus, mps)
    assert choose_device() == torch.device(best)


@pytest.mark.parametrize(("name", "device"), [("cpu", "cpu"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1")])
def test_a_device_may_be_named(name: str, device: str, monkeypatch: pytest.MonkeyPatch):
    pretend(monkeypatch, 2, False)
    assert choose_device(name) == torch.device(device)


@pytest.mark.parametrize(("gpus", "rounds"), [(1, False), (0, True)])
def test_float32_means_float32_in_cudnn_too(gpus: int, rounds: bool, monkeypatch: pytest.MonkeyPatch):
    """By torch's default convolutions and recurrent layers compute in TF32, whose products have three digits."""
    pretend(monkeypatch, gpus, False)
    of_all, before = torch.backends.fp32_precision, torch.backends.cudnn.allow_tf32
    try:
        torch.backends.fp32_precision = "tf32"  # what kernels do that are told nothing
        torch.backends.cudnn.allow_tf32 = True
        choose_device()
        assert torch.backends.cudnn.allow_tf32 == rounds
        found = {kernels.fp32_precision for kernels in (torch.backends.cudnn.conv, torch.backends.cudnn.rnn)}
        assert found == {"tf32" if rounds else "ieee"}
    finally:
        torch.backends.fp32_precision = of_all
        torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize(
    ("gpus", "mps", "said"),
    [
        (2, False, r" \(did you mean 'cuda:1'\?\); allowed: auto, cuda, cuda:0, cuda:1, cpu$"),
        (0, True, "; allowed: auto, mps, cpu$"),
        (0, False, "; allowed: auto, cpu$"),
    ],
)
def test_a_device_that_is_not_there_is_refused_with_those_that_are(
    gpus: int, mps: bool, said: str, monkeypatch: pytest.MonkeyPatch
):
    pretend(monkeypatch, gpus, mps)
    with pytest.raises(ValueError, match=MISSING + said):
        choose_device("cuda:2")


def test_an_unknown_precision_is_refused():
    with pytest.raises(ValueError, match=r"--precision: unknown value 'bf16'.*; allowed: auto, float32, bfloat16, flo"):
        choose_placement("cpu", "bf16")


def test_float16_is_refused_on_a_cpu_by_the_name_of_the_option_or_the_setting():
    with pytest.raises(ValueError, match="^--precision: float16 needs a GPU; on a CPU use bfloat16 or float32$"):
        choose_placement("cpu", "float16")
    with pytest.raises(ValueError, match="^training.precision: float16 needs a GPU; on a CPU use bfloat16 or float32$"):
        forward_dtype("float16", torch.device("cpu"))


def test_what_was_computed_in_float16_is_computed_on_a_cpu_as_that_does_best():
    assert nearest_precision("float16", torch.device("cpu")) == "auto"
    assert nearest_precision("float16", torch.device("cuda")) == "float16"


@pytest.mark.parametrize(("able", "nearest"), [(True, "bfloat16"), (False, "auto")])
def test_bfloat16_without_hardware_is_never_chosen_and_told_where_it_is_named(
    able: bool, nearest: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_bf16": able})
    warn_of_emulation.cache_clear()
    cpu = torch.device("cpu")
    with caplog.at_level("INFO", "zoo"):
        assert forward_dtype("auto", cpu) == (torch.bfloat16 if able else None)
        assert nearest_precision("bfloat16", cpu) == nearest and nearest_precision("float32", cpu) == "float32"
        assert [forward_dtype("bfloat16", cpu) for _ in range(3)] == [torch.bfloat16] * 3
    said = [
        "the run computed in bfloat16, which this processor lacks: figures may differ in their last digits",
        "training.precision: this processor has no bfloat16 in hardware; float32 is 10 times as fast, or more",
    ]
    assert caplog.messages == ([] if able else said)


@pytest.mark.parametrize(("able", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_weights_are_cast_once_and_stay_tied(able: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": able})
    model = nn.ModuleList([nn.Linear(2, 3), nn.Linear(2, 3)])
    model[1].weight = model[0].weight
    choose_placement("cpu").move(model)
    assert {p.dtype for p in model.parameters()} == {dtype} and model[1].weight is model[0].weight


def test_a_gpu_beside_a_newer_one_is_asked_itself_for_bfloat16(monkeypatch: pytest.MonkeyPatch):
    """torch's own question is about the current GPU, the first one."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: ((8, 0), (7, 5))[device.index])
    assert [has_bfloat16(torch.device("cuda", index)) for index in (0, 1)] == [True, False]


def test_a_dtype_that_a_device_lacks_is_computed_on_the_cpu(monkeypatch: pytest.MonkeyPatch):
    assert (widest_dtype(torch.device("mps")), widest_dtype(torch.device("cpu"))) == (torch.float32, torch.float64)
    monkeypatch.setattr("zoo.devices.choose.widest_dtype", lambda device: torch.float32)
    model = nn.Linear(1, 1, device="meta")
    monkeypatch.setattr(model, "to", lambda device, dtype: (device.type, dtype))
    wanted = torch.float32, torch.float64
    assert [with_dtype(model, dtype) for dtype in wanted] == [("meta", torch.float32), ("cpu", torch.float64)]


@pytest.mark.parametrize("way", ["of old", "by backend"])
def test_products_of_float32_are_exact_where_the_caller_has_rough_ones(way: str):
    rows = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    expected, backend = rows @ rows, torch.backends.mkldnn.matmul
    before = backend.fp32_precision
    try:
        if way == "of old":
            torch.set_float32_matmul_precision("medium")
        else:
            backend.fp32_precision = "bf16"
        with default_torch_settings():
            assert backend.fp32_precision == "ieee" and torch.equal(rows @ rows, expected)
            if way == "of old":  # torch refuses to say it where both ways were taken
                assert not torch.backends.cuda.matmul.allow_tf32
        assert backend.fp32_precision == "bf16"
        if way == "of old":
            assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
        backend.fp32_precision = before


def test_what_a_caller_told_one_kind_of_device_alone_is_told_no_other():
    told = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    before = [backend.fp32_precision for backend in told]
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        mine = [backend.fp32_precision for backend in told]
        with default_torch_settings():
            assert [backend.fp32_precision for backend in told] == ["ieee", "ieee"]
        assert [backend.fp32_precision for backend in told] == mine == ["tf32", before[1]]
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
        for backend, precision in zip(told, before, strict=True):
            backend.fp32_precision = precision


def test_a_thread_that_leaves_does_not_make_the_products_of_another_rough():
    entered, leave = Event(), Event()

    def other() -> str:
        with default_torch_settings():
            entered.set()
            leave.wait(10)
            return torch.get_float32_matmul_precision()

    try:
        torch.set_float32_matmul_precision("medium")
        with ThreadPoolExecutor(1) as thread:
            with default_torch_settings():
                found = thread.submit(other)
                assert entered.wait(10)
                assert len(shared.to_call) == 1  # of threads that never all leave, no more is kept with each call
            child = os.fork()
            if not child:  # where the other thread is not
                os._exit(torch.get_float32_matmul_precision() != "medium")
            assert os.waitpid(child, 0)[1] == 0
            leave.set()
            assert found.result() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
