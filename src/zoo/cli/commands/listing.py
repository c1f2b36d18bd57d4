"""zoo list: what there is, read from the YAML files; blocks from the registry."""

from typing import Annotated, Any

import typer
from rich.table import Table

from zoo import config
from zoo.cli.options import Json, console, print_json
from zoo.cli.table import BLOCKS, load
from zoo.registry import REQUIRED, Slot, plain, refuse_unknown

WHAT = "Models and tasks, unless given."
KINDS = {"models": "configs", "tasks": "tasks"}


def list_command(
    what: Annotated[str | None, typer.Argument(metavar="[models|tasks|blocks]", help=WHAT)] = None,
    as_json: Json = False,
) -> None:
    """Models and tasks that come with zoo, or its block registry."""
    if what is not None:
        refuse_unknown(what, [*KINDS, "blocks"], "word", "zoo list")
    if what == "blocks":
        return show_blocks(as_json)
    kinds = KINDS if what is None else {what: KINDS[what]}
    found = {kind: shipped(folder) for kind, folder in kinds.items()}
    if as_json:
        return print_json(found)
    for kind, entries in found.items():
        table = Table(title=kind, title_justify="left", box=None, pad_edge=False)
        table.add_column("name", style="bold", no_wrap=True)
        table.add_column("what it is for")
        for name, about in entries.items():
            table.add_row(name, about)
        console.print(table)
        console.print()


def shipped(folder: str) -> dict[str, str]:
    """The files of a folder by name, each with what it is for."""
    return {name: config.about(config.folder(folder) / f"{name}.yaml") for name in config.names(folder)}


def show_blocks(as_json: bool) -> None:
    """Every slot with its variants and their options."""
    found = {slot.name: {name: options(slot, name) for name in slot.names()} for slot in load(BLOCKS).values()}
    if as_json:
        return print_json(found)
    for slot, variants in found.items():
        table = Table(title=slot, title_justify="left", box=None, pad_edge=False)
        table.add_column("variant", style="bold", no_wrap=True)
        table.add_column("options and their defaults")
        for name, given in variants.items():
            table.add_row(name, ", ".join(f"{key}: {value}" for key, value in given.items()) or "-")
        console.print(table)
        console.print()


def options(slot: Slot[Any], name: str) -> dict[str, Any]:
    """A variant's options with their defaults; `required` where there is none."""
    known = slot.options(name).values()
    return {option.name: "required" if option.default is REQUIRED else plain(option.default) for option in known}
