"""What a stranger installs: the wheel alone, without the source tree, beside packages that register variants."""

import ast
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

import zoo

ROOT = Path(__file__).parents[1]
STUB = ast.parse((ROOT / "src" / "zoo" / "__init__.pyi").read_text())
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
columns: {text: text}
tokenizer: {name: byte_bpe, vocab_size: 300}
length: 16
training: {steps: 2, batch: 2, warmup_steps: 0}
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


BROKEN = "import nothing_of_this_name\n"
ASK = """
import contextlib, io, json, sys
import zoo
from zoo.__main__ import main

said = []
for words in json.loads(sys.argv[1]):
    out, err, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as left:
            status = left.code
    said.append([status, out.getvalue(), err.getvalue()])
print(json.dumps([zoo.__file__, said]))
"""
NORM_SET = "norm={name: peaknorm, eps: 0.01}"
COMMANDS = {
    "models": ["list", "models"],
    "list": ["list", "blocks", "--json"],
    "show": ["show", "gpt2-nano", "--set", "norm=peaknrm"],
    "pretrain": ["pretrain", "gpt2-nano", "lm.yaml", "-o", "run", "--set", NORM_SET],
    "predict": ["predict", "run", "the dogs", "--set", "generate.max_new_tokens=3", "--json"],
}


class Said(NamedTuple):
    """What a command left."""

    status: int
    out: str
    err: str


def pip(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "pip", *map(str, words)], check=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with zoo's wheel and two packages installed into it, one with a norm, one broken; nothing is fetched."""
    made = tmp_path_factory.mktemp("wheels")
    pip("wheel", "-q", ROOT, "--no-deps", "--no-build-isolation", "-w", made)
    for name, text in (("zoo_peaks", NORM), ("zoo_broken", BROKEN)):
        write_wheel(made, name, name, text)
    quiet = ["-q", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    pip("install", *quiet, "--target", made / "site", *made.glob("*.whl"))
    return made / "site"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data for a run, and the run."""
    made = tmp_path_factory.mktemp("stranger")
    (made / "lm.yaml").write_text(TASK)
    (made / "text.txt").write_text("".join(f"the cat sat on mat {n} and the dog slept\n" for n in range(60)))
    return made


@pytest.fixture(scope="module")
def said(folder: Path, site: Path) -> dict[str, Said]:
    """What each command said, called one after the other in a process that has the wheels alone."""
    command = [sys.executable, "-c", ASK, json.dumps(list(COMMANDS.values()))]
    environment = {**os.environ, "PYTHONPATH": str(site)}  # in the place of the source tree
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=folder, check=True)
    place, answers = json.loads(done.stdout)
    assert Path(place) == site / "zoo" / "__init__.py"
    return {name: Said(*answer) for name, answer in zip(COMMANDS, answers, strict=True)}


def test_the_wheel_has_every_file_of_the_package_and_the_models_and_tasks(site: Path):
    source = ROOT / "src" / "zoo"
    wanted = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    wanted |= {f"{path.parent.name}/{path.name}" for kind in ("configs", "tasks") for path in (ROOT / kind).iterdir()}
    has = {str(path.relative_to(site / "zoo")) for path in (site / "zoo").rglob("*") if path.is_file()}
    assert {name for name in wanted if "__pycache__" not in name} == {name for name in has if "__pycache__" not in name}
    assert {"py.typed", "__init__.pyi", "configs/gpt2-nano.yaml", "tasks/numbers-words.yaml"} <= has


def test_the_installed_wheel_lists_trains_and_predicts_without_the_source_tree(said: dict[str, Said]):
    assert "gpt2-nano" in said["models"].out
    assert said["predict"].status == 0 and json.loads(said["predict"].out)[0]["input"] == "the dogs"


def test_lists_name_a_variant_from_outside_and_its_options(said: dict[str, Said]):
    assert json.loads(said["list"].out)["norm"]["peaknorm"] == {"eps": 0.001}


def test_errors_know_a_variant_from_outside(said: dict[str, Said]):
    assert said["show"].status == 2
    assert "did you mean 'peaknorm'?" in said["show"].err and said["show"].err.strip().endswith(", peaknorm")


def test_a_run_trains_a_variant_from_outside_and_names_its_package(said: dict[str, Said], folder: Path):
    assert said["pretrain"].status == 0, said["pretrain"].err
    assert json.loads((folder / "run/environment.json").read_text())["versions"]["zoo_peaks"] == "1.2"
    assert "peaknorm" in (folder / "run/config.yaml").read_text()


def test_a_package_that_cannot_be_imported_is_named_and_stops_nothing(said: dict[str, Said]):
    assert said["list"].status == 0 and "layernorm" in json.loads(said["list"].out)["norm"]
    complaint = "package zoo_broken: zoo_broken cannot be imported, so its variants are missing"
    assert [complaint in one.err for one in said.values()].count(True) == 1


def test_the_stub_names_what_the_package_offers_and_where_it_lies():
    named = {
        (alias.name, node.module) for node in STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert named == set(zoo.PUBLIC.items())
    (listed,) = [node.value for node in STUB.body if isinstance(node, ast.Assign)]
    assert ast.literal_eval(listed) == zoo.__all__ == sorted(zoo.PUBLIC)
