"""What a run ran on: versions, machine, command and the state of the source; no secrets."""

import importlib.metadata
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from zoo.config import Tree
from zoo.discover import outside_packages
from zoo.runs.files import read_sealed

PACKAGES = ("zoo", "torch", "numpy", "accelerate", "datasets", "evaluate", "safetensors", "tokenizers", "transformers")
BITS = "the resumed run may differ in its last bits"
EXACT = {  # what a resumed run needs to be the same to the last bit, and what can differ where it changes
    "versions": BITS,
    "instructions": BITS,
    "threads": BITS,
    "devices": BITS,
    "processes": "the examples and their order stay the same, but each process draws its own dropout",
}
UNSEALED = ("command", "git_commit", "python", "platform", "resumed", "versions", *EXACT)  # what older zoos wrote
SECRET = re.compile(r"hf_\w+")


def describe_environment(command: Sequence[str], processes: int, devices: Sequence[str]) -> Tree:
    """The content of environment.json."""
    return {
        "command": [SECRET.sub("hf_…", word) for word in command],
        "git_commit": git_commit(Path.cwd()),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "versions": versions(),
        "instructions": instructions(),
        "threads": torch.get_num_threads(),
        "processes": processes,
        "devices": list(devices),
    }


def read_environment(path: Path) -> Tree:
    """The content of an environment.json.

    Raises:
        ValueError: it cannot be read, or is not what was written.
    """
    return read_sealed(path, UNSEALED)


def versions() -> Tree:
    """The packages that are installed, with their versions, those that register variants of zoo among them."""
    return {name: version for name in PACKAGES if (version := installed(name)) is not None} | outside_packages()


def installed(package: str) -> str | None:
    """The version of a package; None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def git_commit(folder: Path) -> str | None:
    """The commit that a folder's repository is at; None outside of one."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None


def changes(before: Tree, now: Tree) -> list[str]:
    """What differs between two environments, and what can differ in a resumed run because of it."""
    differing = [key for key in EXACT if before.get(key) != now.get(key)]
    return [f"{EXACT[key]}: {key}: {before.get(key)} -> {now.get(key)}" for key in differing]


def instructions() -> str:
    """The processor's kind, and the instructions that torch uses of it: they decide how sums are rounded."""
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
