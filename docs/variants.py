"""The table of variants, from the registry: `python docs/variants.py` writes docs/variants.md anew."""

import inspect
from pathlib import Path
from typing import Any

from zoo.cli.slots import SLOTS
from zoo.registry import REQUIRED, Slot, plain

PAGE = Path(__file__).with_name("variants.md")
INTRODUCTION = """\
# Variants

Every place of a model that can be chosen, with what may stand there. Written by `make variants` from the registry.
A variant is chosen by its name (`norm: rmsnorm`) or with options (`norm: {name: rmsnorm, eps: 1e-6}`).
"""


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([INTRODUCTION, *(section(slot) for slot in SLOTS.values())])


def section(slot: Slot[Any]) -> str:
    """One slot: a row for each variant."""
    rows = [f"| `{name}` | {first_line(slot, name)} | {options(slot, name)} |" for name in slot.names()]
    head = [f"## {slot.name}\n", "| variant | what it does | options and defaults |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def first_line(slot: Slot[Any], name: str) -> str:
    """The first sentence of a variant's docstring, or nothing where it has none of its own."""
    written = vars(slot[name]).get("__doc__") or ""
    return inspect.cleandoc(written).partition("\n")[0].replace("|", r"\|")


def options(slot: Slot[Any], name: str) -> str:
    """A variant's options with their defaults."""
    known = slot.options(name).values()
    return ", ".join(f"`{o.name}`: {'required' if o.default is REQUIRED else spelled(o.default)}" for o in known) or "-"


def spelled(value: Any) -> str:
    """A default as YAML writes it."""
    words = {None: "null", True: "true", False: "false"}
    value = plain(value)
    return words[value] if value is None or isinstance(value, bool) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
