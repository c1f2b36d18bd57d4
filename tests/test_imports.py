"""Imports go one way, at the top of the file, and each outside package has its home."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from zoo.data.store.filling import WORKER

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
LAYERS = (
    "lazy_import python_errors discover annotations wording registry strict_json strict_yaml disk config devices "
    "blocks models data examples objectives batches metrics runs inference training experiments survey report hub cli"
).split()  # each imports from itself and from those on its left
HOMES = {
    "transformers": {"hub"},
    "huggingface_hub": {"hub"},
    "accelerate": {"training"},
    "datasets": {"data"},
    "evaluate": {"hub"},
    "sacrebleu": {"metrics"},
    "sklearn": {"metrics"},
    "matplotlib": {"report"},
    "typer": {"cli"},
    "click": {"cli"},
    "rich": {"cli"},
}
ONLY: dict[str, set[str]] = {
    "lazy_import": set(),
    "python_errors": set(),
    "discover": set(),
    "annotations": set(),
    "wording": set(),
    "registry": set(),
    "strict_json": set(),
    "strict_yaml": {"yaml"},
    "disk": set(),
    "config": set(),
    "devices": {"torch", "jaxtyping", "triton"},  # one kernel needs triton, which comes with torch for GPUs
    "blocks": {"torch", "jaxtyping"},
}
# where it is not the package's own name
IMPORT_NAMES = {"protobuf": "google", "pyyaml": "yaml", "scikit-learn": "sklearn", "pillow": "PIL"}
# public names, folders of variants, and what `lazy_import.import_object` names
LAZY = {"zoo/__init__.py", "zoo/discover.py", "zoo/lazy_import.py"}
# who may call it: commands, sources that need datasets, filling without torch, imports that compare with transformers'
# own tokenizers, metrics that a library counts, and the loss that has a kernel
LAZY_IMPORTERS = {"cli", "data", "experiments", "hub", "metrics", "models"}


def modules() -> dict[str, Path]:
    """Every module of the package: dotted name -> file."""
    dotted = {path: ".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in SOURCE.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for path, name in dotted.items()}


def layer_of(module: str) -> str:
    """The layer of a dotted name in zoo; '' for `zoo` and `zoo.__main__`, which stand above all layers."""
    second = module.split(".")[1] if "." in module else ""
    return "" if second == "__main__" else second


parse = cache(ast.parse)  # several claims read the same texts


def imported(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Each import statement with the dotted name it reads; one name for each thing taken from `zoo` itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "zoo":
            yield from ((node, f"zoo.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, "." * node.level + (node.module or "")


def refuse_import(layer: str, name: str) -> str:
    """Why a module of this layer must not import this name; '' where it may."""
    top = name.split(".")[0]
    if name.startswith("."):
        return "imports are absolute"
    if top == "zoo" and layer:
        wanted = layer_of(name)
        if wanted not in LAYERS or LAYERS.index(wanted) > LAYERS.index(layer):
            return f"{layer} stands before {wanted or 'zoo itself'} in the order of imports"
    elif top in HOMES and layer and layer not in HOMES[top]:
        return f"{top} is imported only in {', '.join(HOMES[top])}"
    elif layer in ONLY and top not in ONLY[layer] | {"zoo"} | sys.stdlib_module_names:
        return f"{layer} imports only {', '.join(sorted(ONLY[layer])) or 'the standard library'}"
    return ""


def import_faults(text: str, module: str) -> list[str]:
    """What is wrong with the imports of a module, one line for each."""
    tree = parse(text)
    faults = [
        f"{module}:{node.lineno} imports {name}: {why}"
        for node, name in imported(tree)
        if (why := refuse_import(layer_of(module), name))
    ]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {node.lineno: name for function in functions for node, name in imported(function)}
    return faults + [f"{module}:{line} imports {name} inside a function" for line, name in inside.items()]


def lazy_calls(text: str) -> list[int]:
    """Lines that import by a name made at run time."""
    calls = [node for node in ast.walk(parse(text)) if isinstance(node, ast.Call)]
    lazy = ("import_module", "__import__", "run_module", "run_path")
    return [call.lineno for call in calls if getattr(call.func, "attr", getattr(call.func, "id", "")) in lazy]


def reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    """Every module that importing `start` loads, its packages' `__init__` included."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        module = waiting.pop()
        if module in graph and module not in found:
            found.add(module)
            waiting += [*graph[module], module.rpartition(".")[0]]
    return found


@cache
def import_graph() -> dict[str, set[str]]:
    """Module -> what it imports; `from a import b` reads both a and, where it is a module, a.b.

    A package of variants imports all of its modules.
    """
    graph = {}
    for module, path in modules().items():
        text = path.read_text()
        tree = parse(text)
        taken = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module]
        members = {f"{node.module}.{alias.name}" for node in taken for alias in node.names}
        graph[module] = members | {name for _, name in imported(tree)}
        if "import_all(__name__)" in text:
            graph[module] |= {name for name in modules() if name.startswith(f"{module}.")}
    return graph


def test_imports_go_one_way():
    faults = [fault for module, path in sorted(modules().items()) for fault in import_faults(path.read_text(), module)]
    assert not faults, "\n".join(faults)


def test_every_folder_is_a_layer():
    found = {layer_of(module) for module in modules()} - {""}
    assert found <= set(LAYERS), f"not in the order of imports: {', '.join(found - set(LAYERS))}"


def test_only_the_lazy_places_import_at_run_time():
    lazy = {str(p.relative_to(SOURCE)) for p in modules().values() if lazy_calls(p.read_text())}
    assert lazy == LAZY, f"import at run time: {lazy - LAZY}"
    callers = {layer_of(module) for module, names in import_graph().items() if "zoo.lazy_import.import_object" in names}
    assert callers == LAZY_IMPORTERS


def test_everything_imported_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = sum(project["optional-dependencies"].values(), project["dependencies"])
    names = {need.split(">=")[0].split("==")[0].strip().lower() for need in needed}
    known = {IMPORT_NAMES.get(name, name) for name in names} | {"zoo", "triton"}  # the last comes with torch for GPUs
    known |= sys.stdlib_module_names
    found = {name.split(".")[0]: module for module, names in import_graph().items() for name in names}
    undeclared = {name: module for name, module in found.items() if name and name not in known}
    assert not undeclared, f"imported, but not in pyproject.toml: {undeclared}"


def test_predicting_loads_no_metric():
    loaded = reachable("zoo.inference.predict", import_graph())
    assert not [module for module in loaded if layer_of(module) == "metrics"]


HEAVY = {"transformers", "accelerate", "sklearn", "scipy", "datasets", "pandas", "matplotlib"}


def packages(start: str) -> set[str]:
    """The packages that importing a module loads."""
    graph = import_graph()
    return {name.split(".")[0] for module in reachable(start, graph) for name in graph[module]}


def test_predicting_waits_for_no_package_that_it_does_not_use():
    loaded = packages("zoo.cli.commands.predict")
    assert "torch" in loaded and not loaded & HEAVY


def test_training_waits_for_no_metric_that_does_not_measure_it():
    loaded = packages("zoo.cli.commands.train")
    assert "accelerate" in loaded and not loaded & {"sklearn", "scipy", "seqeval", "pandas"}


@pytest.mark.parametrize("start", [WORKER, "zoo.cli.commands.tokenize"])
def test_processes_that_tokenize_load_no_torch(start: str):
    loaded = packages(start)
    assert "tokenizers" in loaded and not loaded & {*HEAVY, "torch"}


BAD = [
    ("import zoo.models.model", "zoo.blocks.norm", "blocks stands before models"),
    ("from zoo import training", "zoo.data.store.store", "data stands before training"),
    ("from zoo import create_model", "zoo.hub.exporting.card.card", "hub stands before create_model"),
    ("import zoo", "zoo.cli.main", "cli stands before zoo itself"),
    ("from .norm import RMSNorm", "zoo.blocks.block", "imports are absolute"),
    ("from transformers import AutoModel", "zoo.data.store.store", "transformers is imported only in hub"),
    ("import datasets.features", "zoo.models.model", "datasets is imported only in data"),
    ("import numpy as np", "zoo.blocks.norm", "blocks imports only jaxtyping, torch"),
    ("import yaml", "zoo.registry", "registry imports only the standard library"),
    ("def f():\n    import os", "zoo.runs.run", "imports os inside a function"),
    ("class A:\n    def f(self):\n        if self:\n            from os import path", "zoo.runs.a", "imports os in"),
]


@pytest.mark.parametrize(("text", "module", "fault"), BAD)
def test_a_wrong_import_is_found(text: str, module: str, fault: str):
    assert any(fault in line for line in import_faults(text, module))


def test_a_right_import_is_left_alone():
    text = "import os\nimport torch\nfrom zoo.registry import Slot\nfrom zoo.blocks import norm"
    assert import_faults(text, "zoo.blocks.block") == []


@pytest.mark.parametrize("text", ["importlib.import_module('os')", "import_module('os')", "__import__('os')"])
def test_an_import_at_run_time_is_found(text: str):
    assert lazy_calls(text) == [1]


def test_what_is_reachable_includes_packages_and_what_they_import():
    graph = {"zoo.a.b": {"zoo.c"}, "zoo.a": {"zoo.d"}, "zoo.c": {"zoo.a.b", "os"}, "zoo.d": set(), "zoo.e": set()}
    assert reachable("zoo.a.b", graph) == {"zoo.a.b", "zoo.a", "zoo.c", "zoo.d"}
