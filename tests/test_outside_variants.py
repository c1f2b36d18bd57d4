"""Variants that another installed package registers: lists, `--set`, errors and run folders know them."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
NORM = '''
import torch
from torch import Tensor, nn

from zoo.blocks.norm import norms


@norms.register("peaknorm")
class PeakNorm(nn.Module):
    """x divided by its largest absolute value.

    Args:
        eps: the least that is divided by.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-3) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x / x.abs().amax(-1, keepdim=True).clamp_min(self.eps)
'''
TASK = """# lm.yaml: predict the next token
objective: causal_lm
source: {files: {train: text.txt}}
tokenizer: {name: byte_bpe, vocab_size: 300}
length: 16
training: {steps: 2, batch: 2, precision: float32}
"""


def write_wheel(folder: Path, name: str, module: str, text: str) -> Path:
    """A wheel of one module with an entry point for zoo, as a build tool makes it."""
    wheel = folder / f"{name}-1.2-py3-none-any.whl"
    about = f"{name}-1.2.dist-info"
    files = {
        f"{module}.py": text,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": f"[zoo.variants]\n{module} = {module}\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return wheel


def install(site: Path, wheel: Path) -> None:
    quiet = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *quiet, "--target", str(site), str(wheel)], check=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a package with a norm is installed."""
    folder = tmp_path_factory.mktemp("outside")
    install(folder / "site", write_wheel(folder, "zoo_peaks", "zoo_peaks", NORM))
    return folder / "site"


def zoo(site: Path, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), str(site)])}
    command = [sys.executable, "-m", "zoo", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)


def test_lists_name_a_variant_from_outside_and_its_options(site: Path, tmp_path: Path):
    done = zoo(site, "list", "blocks", "--json", folder=tmp_path)
    assert json.loads(done.stdout)["norm"]["peaknorm"] == {"eps": 0.001}


def test_errors_know_a_variant_from_outside(site: Path, tmp_path: Path):
    done = zoo(site, "show", "gpt2-nano", "--set", "norm=peaknrm", folder=tmp_path)
    assert done.returncode == 2
    assert "did you mean 'peaknorm'?" in done.stderr and done.stderr.strip().endswith(", peaknorm")


def test_a_run_trains_a_variant_from_outside_and_names_its_package(site: Path, tmp_path: Path):
    (tmp_path / "lm.yaml").write_text(TASK)
    (tmp_path / "text.txt").write_text("".join(f"the cat sat on mat {n} and the dog slept\n" for n in range(60)))
    norm = "norm={name: peaknorm, eps: 0.01}"
    done = zoo(site, "pretrain", "gpt2-nano", "lm.yaml", "-o", "run", "--set", norm, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run/environment.json").read_text())["versions"]["zoo_peaks"] == "1.2"
    assert "peaknorm" in (tmp_path / "run/config.yaml").read_text()


def test_a_package_that_cannot_be_imported_is_named_and_stops_nothing(tmp_path: Path):
    install(tmp_path / "site", write_wheel(tmp_path, "zoo_broken", "zoo_broken", "import nothing_of_this_name\n"))
    done = zoo(tmp_path / "site", "list", "blocks", "--json", folder=tmp_path)
    assert done.returncode == 0 and "layernorm" in json.loads(done.stdout)["norm"]
    assert "package zoo_broken: zoo_broken cannot be imported, so its variants are missing" in done.stderr
