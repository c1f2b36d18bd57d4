"""The house rules that a program can check: sizes, names, nothing unsafe, YAML that is data, no traces of a machine."""

import ast
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import zoo
from test_imports import parse
from zoo.cli.commands.listing import description
from zoo.strict_yaml import read_yaml

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
SOURCES = sorted(SOURCE.rglob("*.py"))
YAML = sorted([*ROOT.glob("configs/*.yaml"), *ROOT.glob("tasks/*.yaml")])
FOLDERS = ("src", "tests", "configs", "tasks", "docs", "benchmarks", "quickstart")
WRITTEN = [
    path
    for path in [*(p for folder in FOLDERS for p in (ROOT / folder).rglob("*")), *ROOT.glob("*")]
    if path.suffix in (".py", ".md", ".yaml", ".toml", ".txt") or path.name == "Makefile"
]
LONG = {"training/loop.py": "the training loop reads top to bottom"}  # functions of any length
MANY = {  # more than seven parameters
    "Model.forward": "the public face: one keyword for each stream of a batch",
    "create_model": "its options are the keys of a model",
    "Shell.forward": "transformers' own arguments",
    "evaluate": "the public face: a command has one for each option",
    "predict": "the same",
}
VAGUE = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "handler"}
UNSAFE_IMPORTS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib"}
UNSAFE_CALLS = {"eval", "exec", "torch.load", "os.system", "os.popen"}
UNSAFE_CALLS |= {f"yaml.{name}" for name in ("unsafe_load", "full_load", "load_all", "safe_load")}
UNSAFE_FLAGS = {"trust_remote_code", "shell", "allow_pickle"}  # only False may be given
MACHINE = re.compile(r"(?<![\w.~-])/(work|root|home/\w+|Users/\w+|opt/\w+)/|(?<!\w)[A-Z]:\\\\?Users")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, Function, ast.ClassDef | None]]:
    """Every function with its dotted name and, for a method, its class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield owner + node.name, node, tree if isinstance(tree, ast.ClassDef) else None
        named = isinstance(node, Function | ast.ClassDef)
        yield from functions(node, f"{owner}{node.name}." if named else owner)


def length(function: Function) -> int:
    """Lines of a function from `def` on, its docstring not counted."""
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def variants(tree: ast.AST) -> set[str]:
    """Registered classes and their bases: the keyword-only parameters of their constructors are options of a slot."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    registered = [c for c in classes if any("register" in ast.unparse(mark) for mark in c.decorator_list)]
    return {c.name for c in registered} | {ast.unparse(base) for c in registered for base in c.bases}


def parameters(function: Function, owner: ast.ClassDef | None, slotted: set[str]) -> int:
    """How many parameters a function has; options of a slot are settings, not counted."""
    arguments = function.args
    positional = len(arguments.posonlyargs) + len(arguments.args) - (owner is not None)
    optional = owner is not None and owner.name in slotted and function.name == "__init__"
    options = 0 if optional else len(arguments.kwonlyargs)
    return positional + options + (arguments.vararg is not None) + (arguments.kwarg is not None)


def size_faults(text: str, path: str) -> list[str]:
    """Functions that are too long or take too much."""
    faults = []
    tree = parse(text)
    slotted = variants(tree)
    for name, function, owner in functions(tree):
        taken = parameters(function, owner, slotted)
        if length(function) > 40 and not path.endswith(tuple(LONG)):
            faults.append(f"{path}:{function.lineno} {name} has {length(function)} lines (at most 40)")
        if taken > 7 and name not in MANY:
            faults.append(f"{path}:{function.lineno} {name} takes {taken} parameters (at most 7)")
    return faults


def words(name: str) -> set[str]:
    """The words of a snake_case or CamelCase name."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def name_faults(text: str, path: str) -> list[str]:
    """Modules, classes and functions whose name says nothing."""
    defined = [node.name for node in ast.walk(parse(text)) if isinstance(node, Function | ast.ClassDef)]
    names = [*Path(path).with_suffix("").parts, *defined]
    return [f"{path}: '{name}' says nothing" for name in names if words(name) & VAGUE]


def aliases(tree: ast.AST) -> dict[str, str]:
    """Local name -> dotted name, for everything imported."""
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return known


def unsafe(text: str, path: str) -> list[str]:
    """Whatever could run code that a file brought along."""
    tree = parse(text)
    known = aliases(tree)
    faults = [f"{path} imports {name}" for name in known.values() if UNSAFE_IMPORTS & set(name.split("."))]
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        first, dot, rest = ast.unparse(call.func).partition(".")
        name = known.get(first, first) + dot + rest
        flags = {k.arg for k in call.keywords if not (isinstance(k.value, ast.Constant) and k.value.value is False)}
        loose = name == "yaml.load" and "StrictLoader" not in ast.unparse(call)
        if name in UNSAFE_CALLS or loose or name.startswith("torch.serialization."):
            faults.append(f"{path}:{call.lineno} calls {name}")
        faults += [f"{path}:{call.lineno} gives {flag}" for flag in flags & UNSAFE_FLAGS]
    return faults


def yaml_faults(path: Path) -> list[str]:
    """What keeps a YAML file from being short data that says what it is for; ValueError where it cannot be read."""
    lines = path.read_text().splitlines()
    tree = read_yaml(path)
    faults = [f"{path.name}: {len(lines)} lines (at most 40)"] if len(lines) > 40 else []
    if not lines[0].startswith("# ") or not description(path):
        faults.append(f"{path.name}: the first line must be a comment that says what it is for")
    if path.parent.name == "tasks" and len(tree) > 12:
        faults.append(f"{path.name}: {len(tree)} fields (at most 12)")
    return faults


def report(faults: list[str]) -> None:
    assert not faults, "\n" + "\n".join(faults)


def test_source_files_keep_the_house_rules():
    read = [(path.read_text(), label(path)) for path in SOURCES]
    rules = (size_faults, name_faults, unsafe)
    report([fault for text, name in read for rule in rules for fault in rule(text, name)])


def test_files_have_at_most_300_lines():
    python = [*SOURCES, *(p for folder in FOLDERS[1:] for p in (ROOT / folder).rglob("*.py"))]
    lengths = {label(path): path.read_text().count("\n") for path in python}
    report([f"{name}: {lines} lines" for name, lines in lengths.items() if lines > 300])


def test_no_two_test_files_have_one_name():
    """pytest takes the second one for the first, and refuses it, only where both are run."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    report([name for name, count in names.items() if count > 1])


def test_shipped_yaml_files_are_short_data_that_say_what_they_are_for():
    report([fault for path in YAML for fault in yaml_faults(path)])


def test_no_file_names_a_place_on_one_machine():
    texts = {label(path): path.read_text("utf-8") for path in WRITTEN}
    report([f"{name}: {hit[0]}" for name, text in texts.items() for hit in MACHINE.finditer(text)])


def test_importing_zoo_does_not_import_torch():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, zoo; print(zoo.__version__, 'torch' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=SOURCE,
    )
    assert done.stdout.split() == [zoo.__version__, "False"]


def test_the_public_names_are_listed_and_a_wrong_one_is_answered():
    assert {"list_models", "create_model", "load", "export"} <= set(dir(zoo))
    with pytest.raises(AttributeError, match="module 'zoo' has no attribute 'lod'; available: create_model, "):
        zoo.lod  # noqa: B018


@pytest.mark.parametrize("way", ["connect", "connect_ex", "sendto"])
def test_a_test_cannot_reach_the_network(way: str, no_network: list[str]):
    elsewhere = ("192.0.2.1", 9)  # of a network that is kept for examples
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:  # which sends nothing when it connects
        given = [b"", elsewhere] if way == "sendto" else [elsewhere]
        with pytest.raises(PermissionError, match=r"a test must not reach the network: \('192.0.2.1', 9\)"):
            getattr(sender, way)(*given)
    assert no_network == [str(elsewhere)]
    no_network.clear()


def test_a_test_may_reach_its_own_machine(no_network: list[str]):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        assert not no_network


BAD_SIZES = [
    ("def f():\n" + "    x = 1\n" * 40, "f has 41 lines"),
    ("class A:\n    def f(self, a, b, c, d, e, f, g, h): ...", r"A.f takes 8 parameters"),
    ("def f(a, b, c, d, *, e, f, g, **h): ...", "f takes 8 parameters"),
    ("@x.register('a')\nclass A:\n    def __init__(self, a, b, c, d, e, f, g, h): ...", "__init__ takes 8"),
]


@pytest.mark.parametrize(("text", "fault"), BAD_SIZES)
def test_what_is_too_large_is_found(text: str, fault: str):
    assert [line for line in size_faults(text, "zoo/a.py") if fault in line]


GOOD_SIZES = [
    "def f():\n" + "    x = 1\n" * 39,
    'def f():\n    """Say.\n' + "\n" * 40 + '    """\n',
    "class A:\n    def f(self, a, b, c, d, e, f, g): ...",
    "@x.register('a')\nclass A:\n    def __init__(self, a, b, *, c=1, d=1, e=1, f=1, g=1, h=1): ...",
    "class B:\n    def __init__(self, a, *, b, c, d, e, f, g, h): ...\n@x.register('a')\nclass A(B): ...",
]


@pytest.mark.parametrize("text", GOOD_SIZES)
def test_what_is_small_enough_is_left_alone(text: str):
    assert size_faults(text, "zoo/a.py") == []


@pytest.mark.parametrize(
    ("text", "path"),
    [("", "zoo/utils.py"), ("", "zoo/text_helpers.py"), ("class RunManager: ...", "a.py"), ("def misc(): ...", "a.py")],
)
def test_a_name_that_says_nothing_is_found(text: str, path: str):
    assert name_faults(text, path)


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from torch import load\nload(f)",
        "import torch as t\nt.load(f, weights_only=True)",
        "eval('1')",
        "exec('1')",
        "import yaml\nyaml.load(f, yaml.SafeLoader)",
        "import yaml\nyaml.unsafe_load(f)",
        "AutoModel.from_pretrained(d, trust_remote_code=True)",
        "AutoModel.from_pretrained(d, trust_remote_code=flag)",
        "import subprocess\nsubprocess.run(c, shell=True)",
        "import numpy as np\nnp.load(f, allow_pickle=True)",
        "import os\nos.system(c)",
    ],
)
def test_an_unsafe_line_is_found(text: str):
    assert unsafe(text, "zoo/a.py")


@pytest.mark.parametrize("text", ["model.eval()", "yaml.load(f, StrictLoader)", "np.load(f, allow_pickle=False)"])
def test_a_safe_line_is_left_alone(text: str):
    assert unsafe(text, "zoo/a.py") == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("# a.yaml: for tests\n" + "\n" * 40 + "a: 1\n", "42 lines"),
        ("a: 1\n", "the first line must be a comment"),
        ("# a.yaml:\na: 1\n", "the first line must be a comment"),
        ("# a.yaml: for tests\n" + "".join(f"k{i}: 1\n" for i in range(13)), "13 fields"),
    ],
)
def test_a_bad_yaml_file_is_found(text: str, fault: str, tmp_path: Path):
    path = tmp_path / "tasks" / "a.yaml"
    path.parent.mkdir()
    path.write_text(text)
    assert [line for line in yaml_faults(path) if fault in line]


@pytest.mark.parametrize("start", ["/wo" + "rk/main", "`/ro" + "ot/x`", "/ho" + "me/me/x", "C:\\Us" + "ers\\me"])
def test_a_path_of_one_machine_is_found(start: str):
    assert MACHINE.search(f"see {start}/data")
