"""One word, one meaning: no two public classes of zoo share a name, and none takes a word that torch uses otherwise."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "zoo"
TAKEN = {  # words that torch and its neighbors use for something else
    *("Batch", "Dataset", "DataLoader", "ProcessGroup", "Optimizer", "Scheduler", "Tensor", "Module"),
    *("Parameter", "Device", "Stream", "Event", "Graph", "Trainer", "Accelerator", "Config"),
}


def classes(text: str) -> list[str]:
    """The public classes that a file defines at its top level."""
    found = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    return [name for name in found if not name.startswith("_")]


def places(texts: dict[str, str]) -> dict[str, list[str]]:
    """Class name -> the files that define it."""
    found = defaultdict(list)
    for path, text in texts.items():
        for name in classes(text):
            found[name].append(path)
    return dict(found)


def sources() -> dict[str, str]:
    return {str(path.relative_to(SOURCE)): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}


def test_no_class_name_stands_twice():
    twice = {name: where for name, where in places(sources()).items() if len(where) > 1}
    assert not twice, "\n".join(f"{name}: {', '.join(where)}" for name, where in twice.items())


def test_no_class_takes_a_word_that_torch_uses_for_something_else():
    taken = {name: where for name, where in places(sources()).items() if name in TAKEN}
    assert not taken, "\n".join(f"{name}: {', '.join(where)}" for name, where in taken.items())


def test_a_name_that_stands_twice_is_found():
    assert places({"a.py": "class Row: ...", "b.py": "class Row: ...\nclass _Row: ..."}) == {"Row": ["a.py", "b.py"]}
