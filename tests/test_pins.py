"""constraints.txt pins what pyproject.toml asks for, and nothing but versions from a registry."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINES = (ROOT / "constraints.txt").read_text().splitlines()
PINS = dict(line.split("==") for line in LINES if not line.startswith("#"))


def normal(name: str) -> str:
    """A package's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_line_is_an_exact_version_of_a_registry():
    assert not [line for line in LINES if not re.fullmatch(r"#.*|[\w.-]+==[\w.]+", line)]


def test_everything_the_project_needs_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = sum(project["optional-dependencies"].values(), project["dependencies"])
    names = {normal(re.split(r"[<>=]", need)[0]) for need in needed}
    assert not names - {normal(name) for name in PINS}


def test_the_torch_that_is_installed_first_is_the_pinned_one():
    assert f"torch=={PINS['torch']}" in (ROOT / "Makefile").read_text()


def test_an_environment_without_pip_is_made_anew(tmp_path: Path):
    """Debian's Python makes half of one, and fails, while the package python3-venv is missing."""
    half, python = tmp_path / "half" / "bin" / "python", tmp_path / "python"
    half.parent.mkdir(parents=True)
    half.write_text("#!/bin/sh\necho No module named pip >&2\nexit 1\n")
    python.write_text('#!/bin/sh\necho asked for "$@"\nexit 1\n')
    for program in (half, python):
        program.chmod(0o755)
    words = ["make", "lint", f"VENV={tmp_path / 'half'}", f"PYTHON={python}"]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert f"asked for -m venv {tmp_path / 'half'}" in ended.stdout and "installing" not in ended.stdout


def test_continuous_integration_runs_make_test():
    run = ROOT / ".ci" / "run"
    assert os.access(run, os.X_OK)
    assert run.read_text().rstrip().endswith("make test")
