"""What a run ran on: versions, machine, command and the state of the source; no secrets."""

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

from zoo.discover import outside_packages
from zoo.strict_yaml import Tree

PACKAGES = ("zoo", "torch", "numpy", "accelerate", "datasets", "evaluate", "safetensors", "tokenizers", "transformers")
BITS = "the resumed run may differ in its last bits"
EXACT = {  # what a resumed run needs to be the same to the last bit, and what can differ where it changes
    **dict.fromkeys(("versions", "instructions", "threads", "devices", "attention", "precision"), BITS),
    "processes": "the examples and their order stay the same, but each process draws its own dropout",
}
SECRET = re.compile(r"hf_\w+")


def describe_environment(command: Sequence[str], devices: Sequence[str]) -> Tree:
    """The content of environment.json, with one device for each process."""
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
    """The packages that are installed, with their versions, those that register variants of zoo among them."""
    return installed() | outside_packages()


def missing_since(environment: Tree) -> list[str]:
    """The packages of variants, with their versions, that a run was made with and that are not installed now."""
    known, others = environment.get("versions"), (*PACKAGES, *outside_packages())
    return [f"{n} {number}" for n, number in known.items() if n not in others] if isinstance(known, dict) else []


@cache  # a process keeps what it imported
def installed() -> Tree:
    """The packages that zoo computes with, and their versions."""
    found = {}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):  # zoo itself, where it runs from a checkout
            found[name] = importlib.metadata.version(name)
    return found


@cache  # what a process runs is what it read at its start, also after a later commit
def zoo_commit(source: Path) -> str | None:
    """The commit of zoo's own source, where it runs from a checkout of it.

    None where zoo is installed: then its version says what it is, and a repository around it is the user's own.

    Args:
        source: a file of zoo.
    """
    # Git knows the second name only if it tracks the file. An environment that lies in somebody's repository is not
    # tracked there, so the first answer is never the commit of the user's own work.
    words = ["git", "rev-parse", "HEAD", f"HEAD:./{source.name}"]
    try:
        answer = subprocess.run(words, cwd=source.parent, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.split()[0]


def changes(before: Tree, now: Tree) -> list[str]:
    """What differs between two environments, and what can differ in a resumed run because of it."""
    differing = [key for key in EXACT if before.get(key) != now.get(key)]
    return [f"{EXACT[key]}: {key}: {before.get(key)} -> {now.get(key)}" for key in differing]


def instructions() -> str:
    """The processor's kind, and the instructions that torch uses of it: they decide how sums are rounded."""
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
