"""Options that several commands take, and how results are printed."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from zoo.config import Tree, merge, nest, parse_set

CHECKPOINT = "A run, a checkpoint folder inside one, a Hugging Face folder, or hub:ORG/NAME."
Checkpoint = Annotated[str, typer.Argument(metavar="CHECKPOINT", help=CHECKPOINT)]
MODEL = "A name from `zoo list models`, or a path to a YAML file."
Model = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL)]
Set = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change one setting; may be given again.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Data = Annotated[Path | None, typer.Option("--data", help="Folder of the task's files; else $ZOO_DATA, else here.")]
console = Console(highlight=False, soft_wrap=True)
Pair = tuple[tuple[str, ...], Any]


def read_sets(texts: list[str]) -> list[Pair]:
    """`--set` options as paths and values."""
    return [parse_set(text) for text in texts]


def split_sets(pairs: list[Pair], *sections: str) -> tuple[dict[str, Tree], list[Pair]]:
    """The pairs that belong to sections such as `training`, as one map each, and all others."""
    trees: dict[str, Tree] = {section: {} for section in sections}
    rest = []
    for path, value in pairs:
        if path[0] not in trees:
            rest.append((path, value))
        elif len(path) > 1 or isinstance(value, dict):
            trees[path[0]] = merge(trees[path[0]], nest(path[1:], value))
        else:
            raise ValueError(f"--set {path[0]}: expected a map, got {value!r}; one key is set by {path[0]}.KEY=VALUE")
    return trees, rest


def refuse_rest(rest: list[Pair], command: str, allowed: str) -> None:
    """Refuse what `--set` names and the command does not read.

    Raises:
        ValueError: there is such a pair.
    """
    if rest:
        raise ValueError(f"--set {'.'.join(rest[0][0])}: zoo {command} does not read it; allowed: {allowed}")


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
