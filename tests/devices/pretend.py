"""A process in which torch believes that there is a GPU, for fake tensors on it; see pretend_cuda.cpp."""

import ctypes
import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("pretend_cuda.cpp")
NO_COMPILER = "g++ is not there, which compiles the pretended CUDA device"


def torch_folder() -> Path:
    """Where torch lies, found without importing it."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def build() -> Path:
    """The compiled device; kept for the next run of the tests."""
    torch = torch_folder()
    key = hashlib.sha256(SOURCE.read_bytes() + (torch / "version.py").read_bytes()).hexdigest()[:16]
    built = Path.home() / ".cache" / "zoo-tests" / f"pretend-cuda-{key}.so"
    if not built.is_file():
        built.parent.mkdir(parents=True, exist_ok=True)
        made = built.with_suffix(f".{os.getpid()}")
        compiler = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC"]
        headers = [f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include"]
        library = [f"-L{torch}/lib", "-lc10", "-ltorch_cpu", "-o", str(made)]
        subprocess.run([*compiler, *headers, str(SOURCE), *library], check=True)
        made.replace(built)
    return built


def load(library: str) -> None:
    """Let torch find the device; to be called before torch is imported."""
    assert "torch" not in sys.modules
    ctypes.CDLL(str(torch_folder() / "lib" / "libtorch_cpu.so"))
    ctypes.CDLL(library)


def run(program: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that calls `load` with its first argument, in a process of its own."""
    path = os.pathsep.join([str(SOURCE.parent), str(SOURCE.parents[1] / "inference"), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, str(program), str(build())]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
