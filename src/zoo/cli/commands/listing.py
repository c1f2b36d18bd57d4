"""zoo list: models and tasks from their YAML files, blocks from the registry."""

import re
from pathlib import Path
from typing import Annotated

import typer

from zoo import config
from zoo.cli.options import Json
from zoo.cli.output import as_yaml, say, say_json, say_rows
from zoo.cli.table import BLOCKS
from zoo.lazy_import import import_object
from zoo.wording import refuse_unknown

WHAT = "What to list (default: models and tasks)."
KINDS = {"models": "configs", "tasks": "tasks"}


def list_command(
    what: Annotated[str | None, typer.Argument(metavar="[models|tasks|blocks]", help=WHAT)] = None,
    as_json: Json = False,
) -> None:
    """List the models and tasks that zoo ships, or its block registry."""
    if what is not None:
        refuse_unknown(what, [*KINDS, "blocks"], "word", "zoo list")
    if what == "blocks":
        return show_blocks(as_json)
    kinds = KINDS if what is None else {what: KINDS[what]}
    found = {kind: shipped(folder) for kind, folder in kinds.items()}
    if as_json:
        return say_json(found)
    for kind, entries in found.items():
        say_rows(entries.items(), kind, ("name", "description"))
        say("")


def shipped(folder: str) -> dict[str, str]:
    """Return the names of a folder's YAML files, each with its description."""
    return {name: description(config.folder(folder) / f"{name}.yaml") for name in config.names(folder)}


def description(path: Path) -> str:
    """Return a YAML file's description: its first comment line, without a leading file name."""
    with path.open(encoding="utf-8-sig") as lines:
        first = lines.readline()
    text = first.lstrip("# ").strip() if first.startswith("#") else ""
    return re.sub(r"^\S+\.yaml:\s*", "", text)


def show_blocks(as_json: bool) -> None:
    """Print every slot with its variants and their options."""
    found = import_object(BLOCKS)()
    if as_json:
        return say_json(found)
    for slot, variants in found.items():
        given = {
            name: ", ".join(f"{key}: {as_yaml(value)}" for key, value in own.items()) for name, own in variants.items()
        }
        say_rows(((name, text or "-") for name, text in given.items()), slot, ("variant", "options and their defaults"))
        say("")
