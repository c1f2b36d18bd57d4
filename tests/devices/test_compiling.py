"""Claims about what torch needs to compile: what is missing is one message before anything is read."""

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo

from zoo.devices import compiling
from zoo.devices.compiling import is_of_a_compiler, missing_for, refuse_without_compiler
from zoo.devices.memory import is_out_of_memory

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
WITHOUT = "^training.compile: true on a {} needs {}"


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Linux with triton, a C compiler and the headers of Python: a folder that has one."""
    header = tmp_path / "Python.h"
    header.touch()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sysconfig, "get_path", lambda *names: str(tmp_path))
    monkeypatch.setenv("CC", "sh")
    return header


def test_a_cpu_without_a_compiler_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "no-such-c++")
    with pytest.raises(ValueError, match=WITHOUT.format("CPU", r"a C\+\+ compiler \('no-such-c\+\+' not found\)")):
        refuse_without_compiler(CPU)


def test_a_gpu_needs_no_compiler_of_c_plus_plus(triton: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "no-such-c++")
    refuse_without_compiler(GPU)


def test_a_gpu_without_triton_is_refused(triton: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=WITHOUT.format("GPU", "the package triton; install it, or set false")):
        refuse_without_compiler(GPU)


def test_a_gpu_without_a_c_compiler_is_refused(triton: Path, monkeypatch: pytest.MonkeyPatch):
    """triton compiles what starts its kernels, in the first step."""
    monkeypatch.setenv("CC", "no-such-cc")
    with pytest.raises(ValueError, match=WITHOUT.format("GPU", r"a C compiler \('no-such-cc' not found\)")):
        refuse_without_compiler(GPU)
    monkeypatch.delenv("CC")
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(
        ValueError, match=r"a C compiler \('gcc', 'clang' not found\); install gcc, set CC to a compiler, or"
    ):
        refuse_without_compiler(GPU)
    monkeypatch.setattr("shutil.which", lambda name: name if name == "clang" else None)
    refuse_without_compiler(GPU)


def test_a_gpu_without_the_headers_of_python_is_refused(triton: Path, monkeypatch: pytest.MonkeyPatch):
    elsewhere = triton.parent / "elsewhere"
    elsewhere.mkdir()
    triton.rename(elsewhere / triton.name)
    for name in ("CPATH", "C_INCLUDE_PATH"):
        monkeypatch.setenv(name, "")
    with pytest.raises(ValueError, match=WITHOUT.format("GPU", rf"Python's headers \({triton} not found\)")):
        refuse_without_compiler(GPU)
    monkeypatch.setenv("C_INCLUDE_PATH", f"no-such-folder:{elsewhere}")
    refuse_without_compiler(GPU)


def test_nothing_is_asked_for_where_triton_brings_its_compiler(triton: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "win32")
    triton.unlink()
    assert missing_for(GPU) is None


def test_a_compiler_that_is_there_is_enough(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "sh")
    refuse_without_compiler(CPU)


@pytest.mark.parametrize(
    ("error", "of_a_compiler"),
    [
        (subprocess.CalledProcessError(1, "gcc"), True),
        (OSError("No space left on device"), True),
        (ImportError("libcuda.so.1"), True),
        (torch._dynamo.exc.TorchDynamoException(), True),
        (RuntimeError("CUDA out of memory"), False),
        (AssertionError("shapes"), False),
    ],
)
def test_what_a_compiler_raises_is_told_from_what_a_model_does(error: Exception, of_a_compiler: bool):
    assert is_of_a_compiler(error) == of_a_compiler


@pytest.mark.parametrize(("module", "of_a_compiler"), [("triton.backends.nvidia.driver", True), ("tritonic", False)])
def test_what_is_raised_within_triton_is_a_compilers_whatever_its_class(module: str, of_a_compiler: bool):
    """As where a driver is missing: AssertionError("libcuda.so cannot found!")."""
    own: dict[str, Any] = {"__name__": module}
    exec("def start(): raise AssertionError('libcuda.so cannot found!')", own)
    with pytest.raises(AssertionError) as raised:
        own["start"]()
    assert is_of_a_compiler(raised.value) == of_a_compiler


class Wrapped(torch._dynamo.exc.TorchDynamoException):
    """As torch's compiler wraps what ends it."""

    inner_exception = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_memory_that_is_full_while_something_is_compiled_is_no_failure_of_the_compiler(monkeypatch: pytest.MonkeyPatch):
    """A smaller batch may do; what was not compiled then is compiled later."""

    def fail() -> None:
        raise Wrapped

    monkeypatch.setattr(compiling, "failures", [])
    with pytest.raises(Wrapped):
        compiling.with_fallback(fail, lambda: None)()
    assert not compiling.failures and is_out_of_memory(Wrapped())
