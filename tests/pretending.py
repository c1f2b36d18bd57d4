"""Programs of pretended/, in a process that believes it has a GPU: it imports everything once and forks for each."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from once import once
from pretended.device import compile_device
from pretended.load import LIBRARY

FOLDER = Path(__file__).parent / "pretended"
COMPILER = shutil.which("g++")


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
