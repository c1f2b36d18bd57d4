"""Exports to every native class, checked by four versions of transformers, each in its own environment.

    python benchmarks/transformers_versions.py

Each environment has its own transformers and dependencies; torch is taken from this environment. A small random model
of every class is exported here, and the full check of `zoo export` runs in each environment: logits, loss, greedy and
beam output, ids of 1,000 lines, padding on both sides. Prints the largest differences of logits, in float32 and
float64, and fails if a version disagrees.
"""

import argparse
import subprocess
import sys
import sysconfig
import tempfile
from functools import partial
from pathlib import Path

import torch

from zoo.config import parse_set
from zoo.data.task import read_task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.exporting.child import reload_in_child
from zoo.hub.exporting.export import write_files
from zoo.hub.exporting.samples import TEXTS
from zoo.hub.exporting.trained_model import TrainedModel, TrainingHistory
from zoo.hub.exporting.verify import verify
from zoo.hub.importing.importing import task_of
from zoo.hub.targets.declare.registry import targets
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.inference.loaded import model_traits
from zoo.models.model import Model
from zoo.models.settings import load_settings

VERSIONS = ("4.57.*", "5.17.*", "5.23.*", "5.24.*")
VOCABULARY = 160
SIZES = {"d_model": 48, "max_length": 64, "vocab_size": VOCABULARY}
STACK_SIZES = {"n_layers": 3, "n_heads": 4, "d_ff": 192}


def create_environment(root: Path, version: str) -> str:
    """Create the environment with a version of transformers if it is missing; returns its Python."""
    folder = root / version.rstrip(".*")
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "-qq", f"transformers=={version}"]
        subprocess.run(install, check=True)
        ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        site_packages = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
        # comes after its own packages on the path, so only missing ones, such as torch, come from here
        (Path(site_packages) / "torch_from.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return str(python)


def random_model(target: Target, native_class: NativeClass) -> Model:
    """A small random model of a class, in which no parameter has its initial value.

    The noise is small: with more, attention nears an argmax (T5 does not scale its scores), and float32 rounding shows.
    """
    stacks = {f"{side}.{name}": value for side in target.sides for name, value in STACK_SIZES.items()}
    sizes = {**SIZES, **stacks, "heads": list(native_class.heads)}
    name, *sets = target.example.split()
    overrides = [(tuple(path.split(".")), value) for path, value in sizes.items()]
    model = Model(load_settings(name, [*map(parse_set, sets), *overrides])).initialize(0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def check_versions(target: Target, native_class: NativeClass, tokenizer: Tokenizer, pythons: list[str]) -> list[str]:
    """The result of each environment for a class: the largest differences of logits, or the error."""
    model = random_model(target, native_class)
    task = read_task(task_of(model.settings, model_traits(model), [], {}, False, {}), "task.yaml")
    trained, results = TrainedModel(model, tokenizer, task, TrainingHistory("model")), []
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), trained, target, native_class)
        for python in pythons:
            try:
                check = verify(Path(folder), trained, target, native_class, partial(reload_in_child, python=python))
                results.append(" / ".join(f"{value:.0e}" for value in check.differences.values()))
            except RuntimeError as error:
                results.append(f"FAILED: {error}")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=Path("build/transformers"), help="where they lie")
    parser.add_argument("--versions", nargs="+", default=list(VERSIONS))
    parser.add_argument("--targets", nargs="+", default=list(targets), choices=list(targets))
    options = parser.parse_args()
    pythons = [create_environment(options.environments.absolute(), version) for version in options.versions]
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "bpe", "vocab_size": VOCABULARY - 10}), [*TEXTS, *TEXTS])
    failed = False
    print(f"| class | {' | '.join(options.versions)} |\n|---|{'---|' * len(pythons)}", flush=True)
    for target in (targets[name] for name in options.targets):
        for native_class in target.classes:
            cells = check_versions(target, native_class, tokenizer, pythons)
            failed |= any(cell.startswith("FAILED") for cell in cells)
            print(f"| `{native_class.name}` | {' | '.join(cells)} |", flush=True)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
