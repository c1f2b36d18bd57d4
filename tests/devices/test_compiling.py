"""Claims about training.compile where what compiles is missing: one message before anything is read."""

import pytest
import torch

from zoo.devices.compiling import refuse_without_compiler

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")


def test_a_cpu_without_a_compiler_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "no-such-c++")
    with pytest.raises(
        ValueError, match=r"^training.compile: true needs a C\+\+ compiler on a CPU, and there is no 'no-s"
    ):
        refuse_without_compiler(CPU, "training.compile")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    refuse_without_compiler(GPU, "training.compile")  # its kernels are triton's


def test_a_gpu_without_triton_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="^training.compile: true needs the package triton on a GPU; install it, or"):
        refuse_without_compiler(GPU, "training.compile")


def test_a_compiler_that_is_there_is_enough(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "sh")
    refuse_without_compiler(CPU, "training.compile")
