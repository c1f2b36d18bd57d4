"""Paths in a card become names of files: folders tell who and where an author is, and nobody else has them."""

import re
from typing import Any

# the keys of task and model files whose values are paths, relative ones included
HOLDERS = ("files", "vectors", "from")
DATA = ("labels",)  # what the data says stays as it is: a class may be called '/s'
START = r"(?:file:[\\/]*|~[\w.-]*[\\/]|[A-Za-z]:[\\/]|\.{1,2}[\\/]|[\\/])"
WHOLE = re.compile(START)
QUOTED = re.compile(rf"(['\"`])({START}[^'\"`\n]*)\1")
# in running text nobody can tell where a path with spaces ends, so all goes up to the last separator
INSIDE = re.compile(rf"(?<![\w.:/\\<~-]){START}(?:[^\\/\n,:;=<>|\"'()]*[\\/])*(?=[^\s\\/,=:'\"])")


def name_of(path: str) -> str:
    """The last name of a path, as any system writes it; a repository stays."""
    if path.startswith("hub:"):
        return path
    return re.split(r"[\\/]", path.strip().rstrip("\\/"))[-1] or path


def hide_paths(text: str) -> str:
    """Text in which every absolute path is only its last name."""
    if WHOLE.match(text.strip()):
        return name_of(text)
    text = QUOTED.sub(lambda found: f"{found[1]}{name_of(found[2])}{found[1]}", text)
    return INSIDE.sub("", text)


def without_paths(tree: Any, held: bool = False) -> Any:
    """Settings in which no path is left, only names of files.

    Args:
        held: whether every text in them is a path.
    """
    if isinstance(tree, dict):
        return {
            key: value if key in DATA and not held else without_paths(value, held or key in HOLDERS)
            for key, value in tree.items()
        }
    if isinstance(tree, list):
        return [without_paths(value, held) for value in tree]
    if not isinstance(tree, str):
        return tree
    return name_of(tree) if held else hide_paths(tree)
