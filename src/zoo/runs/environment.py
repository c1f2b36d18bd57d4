"""The environment of a run: versions, machine, command and zoo's commit; no secrets."""

import importlib.metadata
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from zoo.discover import variant_packages
from zoo.strict_yaml import Tree

PACKAGES = ("zoo", "torch", "numpy", "accelerate", "datasets", "evaluate", "safetensors", "tokenizers", "transformers")
BITS = "the resumed run may differ in its last bits"
EXACT = {  # entry -> what can differ in a resumed run if the entry changes
    **dict.fromkeys(("versions", "instructions", "threads", "devices", "attention", "precision"), BITS),
    "processes": "the examples and their order stay the same, but each process draws its own dropout",
}
SECRET = re.compile(r"hf_\w+")


def describe_environment(command: Sequence[str], devices: Sequence[str]) -> Tree:
    """The content of environment.json; `devices` has one entry per process."""
    return {
        "command": [SECRET.sub("hf_…", word) for word in command],
        "zoo_commit": zoo_commit(Path(__file__)),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "versions": versions(),
        "instructions": instructions(),
        "threads": torch.get_num_threads(),
        "processes": len(devices),
        "devices": list(devices),
    }


def versions() -> Tree:
    """Package -> installed version, for zoo's dependencies and the packages that register variants."""
    return installed() | variant_packages()


def missing_since(environment: Tree) -> list[str]:
    """Packages with variants ("name version") that a run was trained with and that are not installed now."""
    known, others = environment.get("versions"), (*PACKAGES, *variant_packages())
    return [f"{n} {number}" for n, number in known.items() if n not in others] if isinstance(known, dict) else []


@cache  # upgrading a package does not change a process that has imported it
def installed() -> Tree:
    """Package -> version, of `PACKAGES`."""
    found = {}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):  # zoo itself, where it runs from a checkout
            found[name] = importlib.metadata.version(name)
    return found


@cache  # a process runs the source it imported, even after a later commit
def zoo_commit(source: Path) -> str | None:
    """The commit of zoo's source if it runs from a checkout; None if zoo is installed as a package.

    Args:
        source: any file of zoo.
    """
    # `HEAD:./file` fails unless git tracks the file. So if zoo is installed in a virtual environment inside a user's
    # repository, git refuses instead of naming the commit of that repository.
    words = ["git", "rev-parse", "HEAD", f"HEAD:./{source.name}"]
    try:
        answer = subprocess.run(words, cwd=source.parent, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.split()[0]


def changes(before: Tree, now: Tree) -> list[str]:
    """One line for each difference between two environments that can change the results of a resumed run."""
    differing = [key for key in EXACT if before.get(key) != now.get(key)]
    return [f"{EXACT[key]}: {key}: {before.get(key)} -> {now.get(key)}" for key in differing]


def instructions() -> str:
    """CPU architecture and the instruction set that torch uses: they decide how sums are rounded."""
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
