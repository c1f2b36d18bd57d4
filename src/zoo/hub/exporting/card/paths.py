"""Reduce paths in a card to file names: folders show who and where an author is, and no reader has them."""

import re
from typing import Any

# the keys of task and model files whose values are paths, relative ones included
PATH_KEYS = ("files", "vectors", "from")
DATA_KEYS = ("labels",)  # values from the data stay unchanged: a class may be called '/s'
PATH_START = r"(?:file:[\\/]*|~[\w.-]*[\\/]|[A-Za-z]:[\\/]|\.{1,2}[\\/]|[\\/])"
PATH_ALONE = re.compile(PATH_START)
QUOTED_PATH = re.compile(rf"(['\"`])({PATH_START}[^'\"`\n]*)\1")
# in running text the end of a path with spaces is unknown, so everything up to the last separator is removed
PATH_IN_TEXT = re.compile(rf"(?<![\w.:/\\<~-]){PATH_START}(?:[^\\/\n,:;=<>|\"'()]*[\\/])*(?=[^\s\\/,=:'\"])")


def last_component(path: str) -> str:
    """The last component of a path, in any system's notation; a `hub:` name stays whole."""
    if path.startswith("hub:"):
        return path
    return re.split(r"[\\/]", path.strip().rstrip("\\/"))[-1] or path


def hide_paths(text: str) -> str:
    """Text with every absolute path reduced to its last component."""
    if PATH_ALONE.match(text.strip()):
        return last_component(text)
    text = QUOTED_PATH.sub(lambda found: f"{found[1]}{last_component(found[2])}{found[1]}", text)
    return PATH_IN_TEXT.sub("", text)


def without_paths(tree: Any, all_paths: bool = False) -> Any:
    """Settings with every path reduced to a file name.

    Args:
        all_paths: whether every string in them is a path.
    """
    if isinstance(tree, dict):
        return {
            key: value if key in DATA_KEYS and not all_paths else without_paths(value, all_paths or key in PATH_KEYS)
            for key, value in tree.items()
        }
    if isinstance(tree, list):
        return [without_paths(value, all_paths) for value in tree]
    if not isinstance(tree, str):
        return tree
    return last_component(tree) if all_paths else hide_paths(tree)
