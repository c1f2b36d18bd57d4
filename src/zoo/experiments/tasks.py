"""Resolve a task: its files, then `--set`. Imports no training and no metrics, so that it is fast."""

from collections.abc import Iterable

from zoo.config import Layer, merge, nest
from zoo.data.task import Task, read_task
from zoo.experiments.layers import Traced, leaves
from zoo.experiments.request import Pair
from zoo.strict_yaml import Tree

SourcedSet = tuple[str, Pair]  # the call (`--set`, or that of the first command), and one change


def resolve_task(name: str, layers: Iterable[Layer], sets: Iterable[SourcedSet]) -> tuple[Task, Traced]:
    """Resolve a task from its files, then `--set`."""
    traced = Traced.of(layers)
    for place, (path, value) in sets:
        traced = traced.replaced_by(apply_set(traced.tree, path, value), place, leaves(nest(path, value)))
    return read_task(traced.tree, name), traced


def apply_set(tree: Tree, path: tuple[str, ...], value: object) -> Tree:
    """Apply one `--set` to a task. `objective`, and a tokenizer with `from`, replace the file's instead of merging."""
    above = nest(path, value)
    tokenizer = above.get("tokenizer")
    if path == ("objective",) or (isinstance(tokenizer, dict) and "from" in tokenizer):
        tree = {key: below for key, below in tree.items() if key != path[0]}
    merged: Tree = merge(tree, above)
    return merged
