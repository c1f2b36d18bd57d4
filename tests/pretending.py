"""Programs of pretended/, in a process that believes it has a GPU: it imports everything once and forks for each."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from once import once
from pretended.load import LIBRARY, TORCH

FOLDER = Path(__file__).parent / "pretended"
COMPILER = shutil.which("g++")


def compile_device(library: Path) -> None:
    """Compile what pretends to be a GPU: hooks of torch where it is built for CPUs, else a driver and a runtime."""
    assert COMPILER is not None
    includes = [f"-I{TORCH / 'include' / part}" for part in ("", "torch/csrc/api/include")]
    source = [*includes, str(FOLDER / "cuda.cpp"), "-std=c++20", "-O0", f"-L{TORCH / 'lib'}", "-lc10", "-ltorch_cpu"]
    if torch.version.cuda is not None:
        # torch opens the driver by this name, and takes what is open under it
        source = ["-x", "c", str(written_driver(library.with_name("driver.c"))), "-Wl,-soname,libcuda.so.1"]
    subprocess.run([COMPILER, *source, "-shared", "-fPIC", "-o", str(library)], check=True)


def written_driver(file: Path) -> Path:
    """The source of a driver and a runtime with all functions that torch's libraries look for in them."""
    libraries = [str(TORCH / "lib" / f"lib{name}.so") for name in ("torch_cuda", "c10_cuda", "caffe2_nvrtc")]
    listed = subprocess.run(["nm", "-D", "--undefined-only", *libraries], capture_output=True, text=True, check=True)
    text = (FOLDER / "driver.c").read_text()
    names = set(re.findall(r" U (cu(?:da)?[A-Z]\w*)", listed.stdout)) - set(re.findall(r"int (cu\w+)\(", text))
    file.write_text(text + "".join(f"int {name}(void) {{ return 0; }}\n" for name in sorted(names)))
    return file


def run_all(folder: Path) -> None:
    """Compile the device, and run every program; what each printed goes to a file with its name."""
    compile_device(folder / "cuda.so")
    path = os.pathsep.join([str(FOLDER), str(FOLDER.parent / "inference"), *filter(None, sys.path)])
    environment = os.environ | {LIBRARY: str(folder / "cuda.so"), "PYTHONPATH": path}
    subprocess.run([sys.executable, str(FOLDER / "every.py"), str(folder)], env=environment, check=True)


def run(program: str, factory: pytest.TempPathFactory) -> str:
    """What a program printed; a program that ended with an error fails the test that asks."""
    if torch.cuda.is_available():
        pytest.skip("what pretends to be a GPU would take the place of the one that is here")
    if COMPILER is None or sys.platform != "linux":
        pytest.skip("a pretended GPU is compiled by g++ on Linux, which is not here")
    said = once(factory, "pretended", run_all) / program
    assert not said.with_suffix(".failed").exists(), said.with_suffix(".errors").read_text()
    return said.read_text()
