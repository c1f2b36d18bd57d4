"""Reduce paths in a card to file names: folders show who and where an author is, and no reader has them."""

import re
from typing import Any

# the keys of task and model files whose values are paths, relative ones included
HOLDERS = ("files", "vectors", "from")
DATA = ("labels",)  # values from the data stay unchanged: a class may be called '/s'
START = r"(?:file:[\\/]*|~[\w.-]*[\\/]|[A-Za-z]:[\\/]|\.{1,2}[\\/]|[\\/])"
WHOLE = re.compile(START)
QUOTED = re.compile(rf"(['\"`])({START}[^'\"`\n]*)\1")
# in running text the end of a path with spaces is unknown, so everything up to the last separator is removed
INSIDE = re.compile(rf"(?<![\w.:/\\<~-]){START}(?:[^\\/\n,:;=<>|\"'()]*[\\/])*(?=[^\s\\/,=:'\"])")


def name_of(path: str) -> str:
    """The last component of a path, in any system's notation; a `hub:` name stays whole."""
    if path.startswith("hub:"):
        return path
    return re.split(r"[\\/]", path.strip().rstrip("\\/"))[-1] or path


def hide_paths(text: str) -> str:
    """Text with every absolute path reduced to its last component."""
    if WHOLE.match(text.strip()):
        return name_of(text)
    text = QUOTED.sub(lambda found: f"{found[1]}{name_of(found[2])}{found[1]}", text)
    return INSIDE.sub("", text)


def without_paths(tree: Any, held: bool = False) -> Any:
    """Settings with every path reduced to a file name.

    Args:
        held: whether every string in them is a path.
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
