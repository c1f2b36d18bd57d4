"""Programs of pretended/, each run in a process that believes it has a GPU."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from pretended.load import LIBRARY, TORCH

FOLDER = Path(__file__).parent / "pretended"


@cache
def compiled(folder: Path) -> Path:
    """The device, compiled once a process.

    What is missing for that is the reason of a skip.
    """
    compiler, library = shutil.which("g++"), folder / "pretended_cuda.so"
    if compiler is None or sys.platform != "linux":
        pytest.skip("a pretended GPU is compiled by g++ on Linux, which is not here")
    includes = [f"-I{TORCH / 'include' / part}" for part in ("", "torch/csrc/api/include")]
    flags = ["-std=c++20", "-O0", "-shared", "-fPIC", *includes, f"-L{TORCH / 'lib'}", "-lc10", "-ltorch_cpu"]
    subprocess.run([compiler, str(FOLDER / "cuda.cpp"), *flags, "-o", str(library)], check=True)
    return library


def run(program: str, folder: Path) -> str:
    """What a program prints; it fails where the program does."""
    command = [sys.executable, str(FOLDER / program)]
    environment = os.environ | {LIBRARY: str(compiled(folder))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
